"""Branch and bound for networks of any kind: edges are decided one by one, and the closed form bounds what is left.

``rows`` is the part of the graph that one embedding depends on, ``branches`` many copies of such parts as one graph,
``tree`` the search for one anchor, and ``search`` that for many of them, which are bounded together.
"""
