"""The proof of a certificate: what it claims of its nodes is put to the theorems, node by node."""

import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ..choices import ways
from ..claim import Claim
from .arithmetic import Array, Ints, check_processor, dot_above, down, up
from .cases import Bounds, NotProved, Proof, Tree
from .compactness import TOGETHER, Pairs, compactness
from .network import Graph, Network, embed

Question: TypeAlias = tuple[Array, Array, Array]
"""Is ``w · z_i`` at least that much, for so many w and all that are within a slack of them: ``(C, d), (d,), (C,)``."""


class Questions:
    """What proves the claim about a node: a yes to any of its questions.

    Attributes:
        stages: choices to answer the questions of each stage with.
    """

    def __init__(self, claim: Claim, network: Network, graph: Graph, view: Graph | None) -> None:
        self.claim, self.network, self.changes = claim, network, claim.changes(graph)
        for here in (graph, view or graph):
            network.fits(here)
        if (claim.source == "view") != (view is not None):
            raise ValueError("a certificate about a second view is checked with that view, and others without one")
        self.directions, self.slack = claim.directions, np.zeros((len(claim.nodes), claim.directions.shape[2]))
        if claim.source in ("graph", "view"):
            boxes = compactness(network, view or graph).rows(claim.nodes)
            self.directions, self.slack = boxes.middle[:, None], boxes.reach
        every = ways(network, claim.choices)
        self.stages = [[choices] for choices in every] if claim.source == "both" else [every]
        self.pairs: dict[int, Pairs] = {}

    def about(self, place: int, stage: int) -> Iterator[Question]:
        wanted = self._wanted(place)
        if self.claim.source != "both":
            yield self.directions[place], self.slack[place], wanted
            return
        if stage not in self.pairs:
            self.pairs[stage] = Pairs(self.network, self.changes, *self.stages[stage])
        for slope, slack, constant in self.pairs[stage].questions(int(self.claim.nodes[place])):
            yield slope[None], slack, up(wanted - constant)

    def _wanted(self, place: int) -> Array:
        """``lower - rounding``, rounded up: what is proved is no less than the exact difference."""
        lower, rounding = self.claim.lower[place], self.claim.rounding[place]
        found = np.where(rounding > 0, up(lower - rounding), lower)
        if not np.isfinite(found).all() or not (np.isfinite(rounding) & (rounding >= 0)).all():
            raise NotProved("no number is claimed, or a rounding below zero")
        return found


@np.errstate(all="ignore")
def check(
    claim: Claim,
    network: Network,
    graph: Graph,
    view: Graph | None = None,
    places: Ints | None = None,
    branches: int = 0,
    trees: dict[int, Tree] | None = None,
) -> dict[str, Any]:
    """Prove the bounds at some positions of a certificate; nodes that were not proved are in ``failed``, with the
    reason."""
    check_processor()
    started, questions = time.process_time(), Questions(claim, network, graph, view)
    places = np.arange(len(claim.nodes)) if places is None else places
    if not len(places):
        raise ValueError("no nodes to prove anything of")
    failed: dict[int, str] = {}
    found: dict[int, Tree] = {}
    witnesses = 0
    for first in range(0, len(places), TOGETHER):
        some = places[first : first + TOGETHER].tolist()
        anchors = claim.nodes[some].tolist()
        bounds = [Bounds(network, questions.changes, anchors, stage) for stage in questions.stages]
        for place in some:
            node = int(claim.nodes[place])
            try:
                witnesses += _check_witness(questions, place)
                found[node] = _prove(questions, place, bounds, branches, (trees or {}).get(node))
            except NotProved as reason:
                failed[node] = str(reason)
    return {
        "nodes": len(places),
        "proved": len(places) - len(failed),
        "failed": failed,
        "witnesses": witnesses,
        "above_zero": int((claim.lower - claim.rounding > 0)[places].all(axis=1).sum()) if not failed else None,
        "claim": claim.words,
        "seconds": time.process_time() - started,
        "trees": found,
    }


def _prove(questions: Questions, place: int, bounds: list[Bounds], branches: int, tree: Tree | None) -> Tree:
    """Raises ``NotProved`` if no question has a yes; otherwise returns the tree of cases that it took."""
    node = int(questions.claim.nodes[place])
    for stage, here in enumerate(bounds if tree is None else []):
        for question in questions.about(place, stage):
            if (here.below(node, *question) >= question[2]).all():
                return [None]
    reason = NotProved("no question about the node")
    for question in questions.about(place, len(bounds) - 1):
        proof = Proof(questions.network, node, *question, questions.claim.choices, branches)
        try:
            proof.prove(questions.changes, [None] if tree is None else tree)
        except NotProved as last:
            reason = last
        else:
            return proof.tree
    raise reason


def _check_witness(questions: Questions, place: int) -> int:
    """Checks that a known change is admissible and attains ``upper``, up to ``rounding``."""
    claim, changes = questions.claim, questions.changes
    if claim.upper is None:
        return 0
    node, left, slack = int(claim.nodes[place]), changes, questions.slack[place]
    directions = questions.directions[place]
    for edge in sorted(claim.witnesses[place]):
        try:
            _, other = left.split(edge)
        except KeyError:
            other = None
        if other is None:
            raise NotProved("a witness that is not admissible")
        left = other
    graph = left.graph
    if claim.changed is not None:
        nodes, columns, values = claim.changed[place]
        x = graph.x.copy()
        shared = changes.features is not None and changes.features.columns is not None
        x[slice(None) if shared else nodes, columns] = values  # those that matter to the node are listed
        if len(nodes) and (changes.features is None or not changes.features.admit(graph.x, x)):
            raise NotProved("a witness whose features are not admissible")
        graph = Graph(x, graph.neighbours)
    for upper, rounding, direction in zip(claim.upper[place], claim.rounding[place], directions, strict=True):
        low, high = value(questions.network, graph, node, direction, slack)
        if not (upper - rounding <= high and low <= upper + rounding):
            raise NotProved(f"a witness with a value between {low:.17g} and {high:.17g} instead of {upper:.17g}")
    return 1


def value(network: Network, graph: Graph, node: int, direction: Array, slack: Array) -> tuple[float, float]:
    """``w · z`` of a node on a graph as it is, between two floats."""
    found = embed(network, graph)
    low = high = np.zeros(())
    slacks = network.split(slack[None])
    for number, part in network.split(direction[None]).items():
        boxes = found[number].rows(np.array([node]))
        off = dot_above(slacks[number], boxes.size)[0]
        low, high = down(down(low + boxes.below(part)[0, 0]) - off), up(up(high - boxes.below(-part)[0, 0]) + off)
    return float(low), float(high)
