"""The layers certgcl knows: which module computes what, decided by exact types and state, never by running it."""
