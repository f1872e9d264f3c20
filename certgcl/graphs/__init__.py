"""Graphs: nodes, edges and features as bounds and encoders use them, their files, and those that have a name."""
