"""How much is processed at a time, and what is worth computing. Nothing here affects soundness.

Numbers of elements, each of 4 or 8 bytes. Those for the processor were found by timing powers of two on
Cora at widths of 256; half or twice as much makes little difference.
"""

import torch

MAX_VALUES = 1 << 23  # of functionals, entries × rules × M × d: 64 MB
CACHED_VALUES = 1 << 20  # the same if they are written out and multiplied by weights: 8 MB stay in the cache
MAX_TERMS = 1 << 23  # at the slots of the neighbours; fewer if no gradient is needed:
CACHED_TERMS = 1 << 21
MAX_ELEMENTS = 1 << 22  # of what is taken from tables for one product
MAX_LINES = 1 << 23  # lines of all cells of a layer up to which they are kept; each takes four numbers
MAX_STORED = 1 << 24  # at the neighbours of all rows, up to which gradients keep what they need: twenty tensors of it
CHANNELS = 128  # of a layer, with their negatives: more take more memory, fewer repeat work
MANY_FUNCTIONALS = 16  # of an entry, from which on a matrix product beats a loop
MOST_PRODUCTS = 1 << 24  # at a node, for the channels of a layer whose functionals are not shared: some 10 ms
MOST_FEATURE_PRODUCTS = 1 << 18  # of the functionals at one slot with features that can change, for exact falls
MOST_PATH_PRODUCTS = 1 << 28  # of all paths to one node with features, for the channels of a layer; in training,
FEW_PATH_PRODUCTS = 1 << 22  # at most
FEW_FEATURE_PRODUCTS = 1 << 12  # features times channels up to which changed features are bounded by states as well
MOST_KINDS = 16  # of what rows leave to the other ends of new edges, up to which they are told apart
MOST_MEETINGS = 1 << 37  # products of functionals with candidates of new edges at all nodes: half a minute,
MEETINGS_OF_ANCHOR = 1 << 31  # and at the neighbours of one anchor
MORE_CANDIDATES, MOST_CANDIDATES = 4, 16  # of new edges at an anchor that are asked for their lines: beyond the edges
# that it can gain, for each functional, and in all
MOST_SETS = 64  # sets of edges that a node can lose, up to which all are tried: four droppable edges have at most 16


def terms_at_once() -> int:
    """How many numbers at the slots of the neighbours are processed at a time."""
    return MAX_TERMS if torch.is_grad_enabled() else min(MAX_TERMS, CACHED_TERMS)


def values_at_once(written_out: bool) -> int:
    """How many numbers of functionals are processed at a time. The gradient of a piece is as large as the tensor it was
    taken from, so in training there are only a few pieces."""
    return CACHED_VALUES if written_out and not torch.is_grad_enabled() else MAX_VALUES
