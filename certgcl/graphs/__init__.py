"""Graphs: nodes, edges and features as bounds and encoders use them, their files, and the named datasets."""
