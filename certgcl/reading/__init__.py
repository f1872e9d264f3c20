"""Reading a two-layer GCN out of a model."""

from certgcl.reading.reader import ModelLike, Reading, read_encoder, traced

__all__ = ["ModelLike", "Reading", "read_encoder", "traced"]
