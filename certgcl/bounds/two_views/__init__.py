"""Both views free: what the second view can do, as lines in the embedding of the first."""
