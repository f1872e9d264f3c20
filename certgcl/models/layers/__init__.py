"""The layers that certgcl knows: what a module computes is decided by exact types and state, never by running it."""
