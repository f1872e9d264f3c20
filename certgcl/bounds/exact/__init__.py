"""From bounds to exact minima: branch and bound over the edges that one embedding depends on."""

from certgcl.bounds.exact.anchors import Brackets
from certgcl.bounds.exact.method import BranchAndBound

__all__ = ["Brackets", "BranchAndBound"]
