"""What may change about a graph: budgets, and the admissible sets they describe."""
