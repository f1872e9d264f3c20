"""``python -m verification.checker CERTIFICATE --graph … --weights …``: exit code 0 only if every bound is proved."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from .claim import Claim
from .core.arithmetic import Ints
from .core.proof import check
from .files import load_graph, load_network


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
        claim, network = Claim.load(options.certificate), load_network(options.weights)
        graph = load_graph(options.graph)
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
            None if options.view is None else load_graph(options.view),
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
