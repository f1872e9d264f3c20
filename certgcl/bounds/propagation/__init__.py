"""Bounds through networks of any depth: states of rows, the row lemma, and functionals passed down layer by layer.

``balls`` says which nodes matter to some anchors and which states they can be in; ``row_lemma`` and ``pairs`` are the
two innermost minima, by compiled loops or by torch; ``chain`` takes a functional down through the layers of one node;
``ranges`` and ``network_bound`` put them together.
"""
