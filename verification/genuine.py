"""The checker on genuine certificates of all kinds: how many of their bounds it proves.

``python -m verification.genuine [--cases 100] [--seed 0] [--methods closed | searched | all] [--views one | both]
[--keep FILE]``: so many certificates of each kind of change, drawn as the audit draws them, each by a method drawn at
random. Prints what was proved by change, by network and by method; ``--keep`` writes what was not proved, as
``pickle`` does. Exit code 0 only if everything was proved.
"""

import argparse
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from certgcl.bounds import BoundMethod, Degree, get_method
from verification.case import Case
from verification.checked import AnyCase, Checked, Views
from verification.edge_changes import ChangedCase, changed_cases
from verification.feature_audit import feature_cases
from verification.feature_case import FeatureCase
from verification.network_audit import NETWORK_METHODS
from verification.network_case import NetworkCase
from verification.networks import network_cases
from verification.strategies import cases
from verification.together import TogetherCase, together_cases

CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "dropped edges, two layers": cases(),
    "dropped edges, networks": network_cases(),
    "new and flipped edges": changed_cases(),
    "features": feature_cases(),
    "features and edges": together_cases(),
}
CLOSED: dict[str, BoundMethod] = {
    **NETWORK_METHODS,
    "degree, shared lines": Degree(lines="shared"),
    "degree, groups of states": Degree(resolution=2, lines="by-count"),
    "degree, many patterns": Degree(patterns=8, slopes=("adaptive", "flat", "parallel")),
}
SEARCHED: dict[str, BoundMethod] = {name: get_method(name) for name in ("optimized", "exact")}


@dataclass
class Count:
    certificates: int = 0
    nodes: int = 0
    not_proved: int = 0
    seconds: float = 0.0


@dataclass
class Tally:
    """Counts by change, by network and by method, and what was not proved."""

    by: dict[str, dict[str, Count]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Count)))
    missed: list[tuple[AnyCase, str, dict[int, str]]] = field(default_factory=list)

    def enter(self, change: str, checked: Checked, method: str, failed: dict[int, str], seconds: float) -> None:
        case = checked.case
        for table, row in {"change": change, "network": kind_of(case), "method": method}.items():
            count = self.by[table][row]
            count.certificates += 1
            count.nodes += checked.nodes
            count.not_proved += len(failed)
            count.seconds += seconds
        if failed:
            self.missed.append((case, method, failed))

    def lines(self) -> Iterator[str]:
        for table, rows in self.by.items():
            yield f"\n{table:<40}{'certificates':>13}{'nodes':>8}{'not proved':>12}{'ms a node':>11}"
            total = Count(*np.sum([list(vars(count).values()) for count in rows.values()], axis=0).tolist())
            for row, count in [*sorted(rows.items()), *([("all", total)] if table == "change" else [])]:
                yield (
                    f"{row:<40}{count.certificates:>13.0f}{count.nodes:>8.0f}{count.not_proved:>12.0f}"
                    f"{1000 * count.seconds / count.nodes:>11.1f}"
                )


def kind_of(case: AnyCase) -> str:
    match case:
        case Case():
            return "two layers"
        case NetworkCase():
            return case.kind
        case FeatureCase():
            return case.network.kind
        case ChangedCase():
            return case.case.kind
        case TogetherCase():
            return case.edges.case.kind


def put(tally: Tally, change: str, methods: dict[str, BoundMethod], views: Views, cases: int, start: int) -> None:
    """Draw cases of one kind of change, and let the checker prove a certificate of each."""
    random = np.random.default_rng(start)

    @seed(start)
    @settings(
        max_examples=cases,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(CHANGES[change])
    def run(case: Any) -> None:
        method, own = list(methods)[random.integers(len(methods))], random.random() < 0.2
        checked = Checked(case)
        certificate = (
            checked.compactness(methods[method], views)
            if own or views == "both"
            else checked.certificate(methods[method])
        )
        began = time.process_time()
        failed = checked.failed(certificate)
        tally.enter(change, checked, method, failed, time.process_time() - began)

    run()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", choices=["closed", "searched", "all"], default="closed")
    parser.add_argument("--views", choices=["one", "both"], default="one")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    methods = {"closed": CLOSED, "searched": SEARCHED, "all": CLOSED | SEARCHED}[options.methods]
    tally = Tally()
    for change in CHANGES:
        put(tally, change, methods, options.views, options.cases, options.seed)
        done = tally.by["change"][change]
        print(f"{change}: {done.nodes} nodes, {done.not_proved} not proved", file=sys.stderr, flush=True)
    print("\n".join(tally.lines()))
    if options.keep is not None:
        options.keep.write_bytes(pickle.dumps(tally.missed))
    return 1 if tally.missed else 0


if __name__ == "__main__":
    sys.exit(main())
