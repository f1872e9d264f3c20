"""Bounds through networks of any depth: states of rows, the row lemma, and functionals passed down layer by layer.

``balls`` has the nodes that some anchors depend on, and the states that these can be in; ``term_sets`` and ``visits``
are the two innermost minima, by compiled loops or by torch; ``chain`` takes a functional down through the layers of one
node, ``lines_below`` with what is left for its neighbours; ``ranges`` and ``network_bound`` put them together.
"""
