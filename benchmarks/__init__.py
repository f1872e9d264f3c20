"""Measurements, each file named by its claim and run as ``python -m benchmarks.NAME``; and the helpers they share.

Claims: ``training_costs_a_few_plain_steps``, ``every_real_graph_within_three_minutes``,
``the_size_of_ogbn_arxiv_within_eight_gigabytes``, ``near_the_arithmetic_limit``, ``faster_than_auto_lirpa``.
``docs/performance.md`` has the results.
"""
