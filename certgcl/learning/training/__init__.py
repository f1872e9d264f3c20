"""The training loop and what it keeps on disk."""

from certgcl.learning.training.history import History
from certgcl.learning.training.loop import Progress, Session, train

__all__ = ["History", "Progress", "Session", "train"]
