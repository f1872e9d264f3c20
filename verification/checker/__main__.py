"""``python -m verification.checker CERTIFICATE --graph … --weights …``: exit code 0 only if every bound is proved."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from .arithmetic import Array, Ints, check_processor
from .cases import Bounds, NotProved, Proof, Tree
from .changes import Changes
from .claim import Claim, compactness, value
from .statement import Graph, Network

TOGETHER = 64  # nodes that share the bounds of the nodes around them


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
    changes, trees, started = claim.changes(graph), trees or {}, time.process_time()
    places = np.arange(len(claim.nodes)) if places is None else places
    if not len(places):
        raise ValueError("no nodes to prove anything of")
    for here in (graph, view or graph):
        network.fits(here)
    if claim.source == "given":
        directions, slack = claim.directions[places], np.zeros((len(places), claim.directions.shape[2]))
    else:
        if (claim.source == "view") != (view is not None):
            raise ValueError("a certificate about a second view is checked with that view, and others without one")
        boxes = compactness(network, view or graph).rows(claim.nodes[places])
        directions, slack = boxes.middle[:, None], boxes.reach
    least = claim.lower[places] - claim.rounding[places]  # of two floats, in floats: see `_at_least`
    failed: dict[int, str] = {}
    found: dict[int, Tree] = {}
    witnesses = 0
    for first in range(0, len(places), TOGETHER):
        some = range(first, min(first + TOGETHER, len(places)))
        nodes = claim.nodes[places[list(some)]]
        shared = [at for at in some if int(claim.nodes[places[at]]) not in trees]
        bounds = Bounds(network, changes, nodes.tolist(), claim.choices)
        for at in some:
            node = int(claim.nodes[places[at]])
            try:
                wanted = _at_least(claim, int(places[at]), least[at])
                witnesses += _check_witness(claim, int(places[at]), network, changes, directions[at], slack[at])
                if at in shared and (bounds.below(node, directions[at], slack[at], wanted) >= wanted).all():
                    found[node] = [None]
                else:
                    proof = Proof(network, node, directions[at], slack[at], wanted, claim.choices, branches)
                    proof.prove(changes, trees.get(node, [None]))
                    found[node] = proof.tree
            except NotProved as reason:
                failed[node] = str(reason)
    return {
        "nodes": len(places),
        "proved": len(places) - len(failed),
        "failed": failed,
        "witnesses": witnesses,
        "above_zero": int((least > 0).all(axis=1).sum()) if not failed else None,
        "claim": claim.words,
        "seconds": time.process_time() - started,
        "trees": found,
    }


def _at_least(claim: Claim, place: int, least: Array) -> Array:
    """``lower - rounding``, rounded up: what is proved is no less than the exact difference."""
    wanted = np.where(claim.rounding[place] > 0, np.nextafter(least, np.inf), claim.lower[place])
    if not np.isfinite(wanted).all() or not (np.isfinite(claim.rounding[place]) & (claim.rounding[place] >= 0)).all():
        raise NotProved("no number is claimed, or a rounding below zero")
    return wanted


def _check_witness(
    claim: Claim, place: int, network: Network, changes: Changes, directions: Array, slack: Array
) -> int:
    """Checks that a known change is admissible and attains ``upper``, up to ``rounding``."""
    if claim.upper is None:
        return 0
    node, left = int(claim.nodes[place]), changes
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
        low, high = value(network, graph, node, direction, slack)
        if not (upper - rounding <= high and low <= upper + rounding):
            raise NotProved(f"a witness with a value between {low:.17g} and {high:.17g} instead of {upper:.17g}")
    return 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("verification.checker", description=__doc__)
    parser.add_argument("certificate", type=Path, help="a file of Certificate.save or certgcl certify")
    parser.add_argument("--graph", type=Path, required=True, help="a folder with x.npy and edge_index.npy, or an .npz")
    parser.add_argument("--weights", type=Path, required=True, help="a network in the format certgcl-network-1")
    parser.add_argument("--view", type=Path, help="the fixed second view, for a certificate that has one")
    parser.add_argument("--nodes", help="first:last, or numbers with commas; all nodes of the certificate by default")
    parser.add_argument("--branches", type=int, default=64, help="edges to decide where Theorem A is not enough")
    parser.add_argument("--trees", type=Path, help="trees of cases, as --keep writes them")
    parser.add_argument("--keep", type=Path, help="write the trees of cases that were found")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    try:
        claim, network = Claim.load(options.certificate), Network.load(options.weights)
        graph = Graph.load(options.graph)
        trees = (
            None
            if options.trees is None
            else {
                int(node): [None if edge is None else (int(edge[0]), int(edge[1])) for edge in tree]
                for node, tree in json.loads(options.trees.read_text()).items()
            }
        )
        found = check(
            claim,
            network,
            graph,
            None if options.view is None else Graph.load(options.view),
            _places(options.nodes, claim.nodes),
            options.branches,
            trees,
        )
    except Exception as reason:  # whatever a file can cause
        print(f"not checked: {type(reason).__name__}: {reason}", file=sys.stderr)
        return 2
    trees = found.pop("trees")
    if options.keep is not None:
        options.keep.write_text(json.dumps({node: tree for node, tree in trees.items() if tree != [None]}))
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['claim']}\n{found['proved']} of {found['nodes']} bounds proved, {found['witnesses']} witnesses "
            f"evaluated, {1000 * found['seconds'] / max(1, found['nodes']):.0f} ms of one core a node"
        )
        for node, words in list(found["failed"].items())[:20]:
            print(f"node {node}: not proved, {words}")
    return 0 if not found["failed"] else 1


def _places(words: str | None, nodes: Ints) -> Ints | None:
    if words is None:
        return None
    first, colon, last = words.partition(":")
    wanted = (
        np.arange(int(first or 0), int(last or max(nodes) + 1))
        if colon
        else np.array([int(word) for word in words.split(",")])
    )
    missing = np.setdiff1d(wanted, nodes)
    if len(missing):
        raise ValueError(f"node {missing[0]}, about which the certificate says nothing")
    return np.flatnonzero(np.isin(nodes, wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
