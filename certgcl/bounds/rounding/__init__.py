"""How far floating-point rounding can move a bound, its directions, and the model as it runs."""
