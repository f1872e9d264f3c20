"""Both views free: the effect of the second view, as lines in the embedding of the first."""
