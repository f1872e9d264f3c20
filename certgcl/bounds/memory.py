"""How much memory a bound takes, and anchors in parts that fit."""

import psutil
import torch
from torch import Tensor

from certgcl.bounds.backward import MAX_PAIR_VALUES
from certgcl.bounds.problem import BoundMethod, DropProblem
from certgcl.encoder import GCNWeights
from certgcl.ordering import nearby_order

SHARE_OF_FREE = 0.5
BASE = 1 << 28  # blocks in flight, whatever the graph
BYTES_OF_SLOT = 512  # of the hops, and of the blocks of all partitions


def default_limit(device: torch.device) -> int:
    """Half of the memory that is free now, in bytes."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    return int(SHARE_OF_FREE * free)


def estimated_bytes(method: BoundMethod, weights: GCNWeights, problem: DropProblem, directions: int) -> int:
    """About the most that the bound holds at a time, for so many directions a node."""
    dtype = weights.w1.dtype
    hood = problem.neighbourhood(dtype)
    hidden, channels = weights.w2.shape
    rules = len(method.rules(hidden))
    lines = int((hood.inner.budget + 1).clamp(max=method.line_resolution(hidden)).sum())
    cases = (hood.outer.budget + 1).clamp(max=method.resolution)
    values = 2 * channels * rules * max(int((cases * hood.outer.degree).sum()), hood.inner.col.numel())
    kept = hidden * (hood.inner.targets.numel() + 2 * lines)  # Y and the bounds of layer 1
    anchors = int(cases.sum())
    steps = (
        2 * (hidden + 3 * channels) * hood.inner.nodes.numel(),  # the range of V, and the terms of layer 2
        4 * channels * anchors + 2 * min(values, MAX_PAIR_VALUES),  # C and φ of some channels of layer 2
        anchors * (4 * channels + directions * rules * (hidden + channels)),  # the output
    )
    return BASE + torch.finfo(dtype).bits // 8 * (kept + max(steps)) + BYTES_OF_SLOT * hood.inner.col.numel()


def parts_that_fit(method: BoundMethod, weights: GCNWeights, problem: DropProblem, directions: int,
                   limit: int) -> list[Tensor]:
    """The places of the anchors in the problem, in parts whose estimates stay below the limit, or of one anchor.

    Neighbours come to the same part, as far as that goes: parts repeat the work on what they share.
    """
    whole = torch.arange(problem.anchors.numel(), device=problem.anchors.device)
    if estimated_bytes(method, weights, problem, directions) <= limit:
        return [whole]
    rank = torch.empty_like(problem.graph.degree)
    rank[nearby_order(problem.graph)] = torch.arange(problem.graph.num_nodes, device=rank.device)
    waiting, parts = [torch.argsort(rank[problem.anchors])], []
    while waiting:
        places = waiting.pop()
        part = DropProblem(problem.graph, problem.drops, problem.anchors[places])
        if places.numel() == 1 or estimated_bytes(method, weights, part, directions) <= limit:
            parts.append(places)
        else:
            waiting.extend(reversed(places.chunk(2)))
    return parts
