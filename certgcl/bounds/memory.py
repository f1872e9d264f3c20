"""How much memory a bound takes, and how work is cut to fit: anchors into parts, and channels of layer 2 into
groups."""

import os

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation.cost import estimated_bytes as network_bytes
from certgcl.bounds.propagation.ranges import Settings
from certgcl.bounds.propagation.sign_patterns import Patterns
from certgcl.bounds.two_layer.backward import MIN_CHANNELS
from certgcl.bounds.two_layer.neighbourhood import reached
from certgcl.bounds.two_layer.row_plan import LineSharing
from certgcl.errors import InputError
from certgcl.graphs.ordering import nearby_order
from certgcl.models.network import GraphNetwork, two_layer_gcn
from certgcl.runtime.free_memory import free_memory

SHARE_OF_FREE = 0.75
BASE = 1 << 28  # blocks in flight, for any graph
BYTES_OF_SLOT = 192  # of the hops, and of the flat tables of kernels,
BYTES_OF_BLOCKS = 512  # or of the blocks of all partitions


def default_limit(device: torch.device) -> int:
    """Three quarters of the memory that is free now, in bytes; shared with the other processes of torchrun here."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory().bytes
    sharing = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not sharing.isdecimal() or not int(sharing):
        raise InputError(
            f"LOCAL_WORLD_SIZE={sharing!r} in the environment", "torchrun counts its processes there", "Unset it"
        )
    return int(SHARE_OF_FREE * free) // int(sharing)


def estimated_bytes(method: BoundMethod, network: GraphNetwork, problem: ChangeProblem, directions: int) -> int:
    """An estimate of the most bytes that the bound holds at any time, for a number of directions per node."""
    if not problem.changes.drops_only or two_layer_gcn(network) is None:
        return network_bytes(network, problem, directions, settings_of(method, network))
    needs = _Needs(method, network, problem)
    hidden, channels = _widths(network)
    steps = (
        2 * channels * needs.lines,  # the range of V
        min(channels, MIN_CHANNELS) * needs.each_channel,
        needs.anchors * (channels + directions * needs.functionals * (hidden + channels)),  # the output
    )
    return needs.kept + needs.bytes * max(steps)


def values_for_channels(method: BoundMethod, network: GraphNetwork, problem: ChangeProblem) -> int:
    """How many numbers the memory limit of a problem leaves for the tables of layer 2's channels; None without a
    limit."""
    if problem.memory_limit is None:
        return 0
    needs = _Needs(method, network, problem)
    return max(0, problem.memory_limit - needs.kept) // needs.bytes


class _Needs:
    """The bytes held throughout, and those for each channel of layer 2 while its functionals are bounded."""

    def __init__(self, method: BoundMethod, network: GraphNetwork, problem: ChangeProblem) -> None:
        dtype, (hidden, channels) = network.dtype, _widths(network)
        graph, anchors, budget = problem.graph, problem.anchors, problem.drops.local
        nodes, targets = reached(graph, anchors)
        by_kernels = compiled.usable(anchors.device)
        self.rules, self.bytes = len(method.rules(hidden)), torch.finfo(dtype).bits // 8
        self.functionals = self.rules if by_kernels else method.functionals(hidden)  # kernels have patterns in parts
        self.lines = lines = int((budget[nodes] + 1).clamp(max=method.line_resolution(hidden)).sum())
        cases, slots = (budget[anchors] + 1).clamp(max=method.resolution), int(graph.degree[nodes].sum())
        self.anchors = int(cases.sum())
        pairs = max(int((cases * graph.degree[anchors]).sum()), slots)
        # C of all slots, and the terms of rows; torch holds φ too.
        self.each_channel = (2 if by_kernels else 4) * self.rules * (pairs + 5 * lines)
        values = hidden * (targets + 2 * lines)  # Y and the bounds of layer 1
        values += channels * (2 * graph.num_nodes + 3 * self.anchors)  # Z and W^CL, and the bounds of layer 2
        self.kept = BASE + self.bytes * values + (BYTES_OF_SLOT if by_kernels else BYTES_OF_BLOCKS) * slots


def settings_of(method: BoundMethod, network: GraphNetwork) -> Settings:
    """The quantities that memory depends on."""
    hidden, _ = _widths(network)
    lines: LineSharing = "shared" if method.line_resolution(hidden) == 1 else "by-count"
    return Settings(
        tuple(method.rules(hidden)) or ("adaptive",),
        lines,
        method.resolution,
        None,
        functional=True,
        patterns=Patterns(method.functionals(hidden)),
    )


def _widths(network: GraphNetwork) -> tuple[int, int]:
    """The widths of the widest layer before the embeddings, and of the embeddings."""
    return max((layer.width for layer in network.layers[:-1]), default=network.features), network.width


def parts_that_fit(
    method: BoundMethod, network: GraphNetwork, problem: ChangeProblem, directions: int, limit: int
) -> list[Tensor]:
    """The positions of the anchors in the problem, in parts whose estimates stay below the limit, or that have a single
    anchor.

    Neighbours go into the same part where possible, because parts repeat the work on what they share.
    """
    whole = torch.arange(problem.anchors.numel(), device=problem.anchors.device)
    if estimated_bytes(method, network, problem, directions) <= limit:
        return [whole]
    rank = torch.empty_like(problem.graph.degree)
    rank[nearby_order(problem.graph)] = torch.arange(problem.graph.num_nodes, device=rank.device)
    waiting, parts = [torch.argsort(rank[problem.anchors])], []
    while waiting:
        places = waiting.pop()
        part = ChangeProblem(problem.graph, problem.changes, problem.anchors[places])
        if places.numel() == 1 or estimated_bytes(method, network, part, directions) <= limit:
            parts.append(places)
        else:
            waiting.extend(reversed(places.chunk(2)))
    return parts
