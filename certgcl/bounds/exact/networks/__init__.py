"""Branch and bound for networks of any kind: edges are decided one by one, and the closed form bounds the remaining
problem.

``rows`` is the part of the graph that one embedding depends on, ``branches`` combines many copies of such parts into
one graph, ``tree`` is the search for one anchor, and ``search`` runs many of them, which are bounded together.
"""
