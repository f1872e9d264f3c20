"""The checker proves every genuine certificate, and nothing that is false."""

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import certgcl
from certgcl.bounds import Degree
from certgcl.errors import InputError
from certgcl.models.storage import meta_of
from verification.audit import LEDGER
from verification.case import Case
from verification.checked import Checked, as_claim, proved, raised
from verification.checker.choices import Choices, slopes
from verification.checker.claim import Claim
from verification.checker.core import activations, arithmetic, views
from verification.checker.core.cases import NotProved, Proof
from verification.checker.core.changes import Changes
from verification.checker.files import graph_of, network_of
from verification.exact_arithmetic import ExactCase, ExactNetwork, surely_below
from verification.network_audit import NETWORK_METHODS, network_tolerance
from verification.network_case import NetworkCase
from verification.networks import network_cases
from verification.strategies import cases, gaussian_case

FEW = settings(max_examples=max(2, settings().max_examples // 4))
RULES = ("adaptive", "flat", "parallel")
degrees = st.builds(
    Degree,
    preactivations=st.sampled_from(["functional", "interval"]),
    patterns=st.sampled_from([1, 4]),
    slopes=st.sampled_from([RULES, RULES[:1]]),
    lines=st.sampled_from(["by-count", "mixed", "shared"]),
    resolution=st.sampled_from([1, 2, 6]),
)
choices = st.builds(
    Choices,
    st.lists(st.sampled_from([*RULES, "no such rule"]), max_size=2).map(tuple),
    st.dictionaries(st.integers(0, 6), st.lists(st.integers(-1, 4), max_size=3).map(tuple), max_size=3),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 4]),
    st.booleans(),
)


def exact_minima(case: Case | NetworkCase) -> list[arb]:
    """Over every admissible graph, as balls."""
    exact = ExactCase(case) if isinstance(case, Case) else ExactNetwork(case)
    directions = np.asarray(case.directions).tolist()
    return [exact.minimum(node, list(map(arb, directions[node]))) for node in range(case.nodes)]


def accept(case: Case | NetworkCase, methods: list[Any], branches: int = 64) -> None:
    checked = Checked(case)
    for method in methods:
        failed = checked.failed(checked.certificate(method), branches)
        LEDGER.record("checker: genuine bounds not proved", case.nodes, len(failed), 0.0, 0.0)
        assert not failed, f"{method}: {failed}"


# -- genuine certificates --------------------------------------------------------------------------


@FEW
@given(network_cases(), st.sampled_from(sorted(NETWORK_METHODS)))
def test_every_bound_of_a_network_is_proved(case: NetworkCase, method: str) -> None:
    accept(case, [method])


@FEW
@given(cases(), st.one_of(degrees, st.sampled_from(["interval", "crown", "degree", "degree-fast", "degree-cheap"])))
def test_every_bound_of_two_layers_is_proved(case: Case, method: Any) -> None:
    accept(case, [method])


@settings(max_examples=max(2, settings().max_examples // 10))
@given(cases(), st.sampled_from(["degree", "crown"]))
def test_compactness_is_proved_with_directions_of_its_own(case: Case, method: str) -> None:
    checked = Checked(case)
    certificate = checked.compactness(method)
    assert as_claim(certificate).source == "graph"
    assert not checked.failed(certificate)


def small(seed: int = 0, total: int | None = None) -> Checked:
    graph = nx.lollipop_graph(4, 2)
    return Checked(gaussian_case(graph, seed, widths=(3, 5, 2)).with_budget(2, total))


def test_an_exact_value_is_proved_by_cases_and_its_witness_evaluated() -> None:
    checked = Checked(gaussian_case(nx.lollipop_graph(3, 1), 0, widths=(3, 5, 2)).with_budget(2))
    certificate = checked.certificate("exact")
    assert not checked.failed(certificate, branches=500)
    wrong = as_claim(certificate)
    assert wrong.upper is not None
    assert checked.failed(replace(wrong, upper=wrong.upper + 10 * wrong.rounding + 1e-9), branches=500)
    lost = [set(sorted(edges)[:-1]) if edges else {(0, 1)} for edges in wrong.witnesses]
    assert checked.failed(replace(wrong, witnesses=lost), branches=500)
    assert checked.failed(replace(wrong, witnesses=[{(0, 1), (0, 2), (1, 2)}] * 4), branches=500)


# -- nothing that is false -------------------------------------------------------------------------


def assert_sound(case: Case | NetworkCase, bound: Choices) -> None:
    minima = exact_minima(case)
    for node, value in enumerate(proved(case, bound).tolist()):
        assert not surely_below(minima[node], value), f"{value!r} at node {node}, where {minima[node]} is reached"


@given(network_cases(), choices)
def test_no_choice_proves_more_of_a_network_than_holds(case: NetworkCase, chosen: Choices) -> None:
    assert_sound(case, chosen)


@given(cases(), choices)
def test_no_choice_proves_more_of_two_layers_than_holds(case: Case, chosen: Choices) -> None:
    assert_sound(case, chosen)


@FEW
@given(network_cases(max_depth=3), st.data())
def test_a_value_above_the_minimum_is_never_proved(case: NetworkCase, data: st.DataObject) -> None:
    checked, node = Checked(case), data.draw(st.integers(0, case.nodes - 1))
    minimum = exact_minima(case)[node]
    claim = as_claim(checked.certificate("degree"))
    above = float(minimum.upper()) + 1e-6 * abs(float(minimum.mid())) + 1e-12
    assert node in checked.failed(raised(claim, node, above), branches=200)


@FEW
@given(network_cases(max_depth=3))
def test_on_all_graphs_that_a_node_sees_there_is_the_minimum(case: NetworkCase) -> None:
    checked = Checked(case)
    changes = as_claim(checked.certificate("interval")).changes(checked.plain_graph)
    directions, scale = checked.directions.numpy(), network_tolerance(case).numpy()
    for node, minimum in enumerate(exact_minima(case)):
        seen = views.Views(checked.plain, changes, node)
        with np.errstate(all="ignore"):
            value = seen.least(directions[[node]], np.zeros(directions.shape[1]))[0] if seen.few else -np.inf
        assert not surely_below(minimum, value)
        assert not seen.few or value >= float(minimum.mid()) - 1e3 * scale[node]


FORGERIES = ("graph", "weights", "features", "budget", "total")


@FEW
@given(network_cases(max_depth=2), st.sampled_from(FORGERIES), st.integers(0, 2**32 - 1))
def test_what_is_proved_of_another_problem_holds_there(case: NetworkCase, what: str, seed: int) -> None:
    """A certificate held against another graph, other weights, features or budgets: proved is what is true of those."""
    random, claim = np.random.default_rng(seed), as_claim(Checked(case).certificate("degree"))
    match what:
        case "graph":
            graph = case.graph.copy()
            pair = tuple(random.choice(case.nodes, 2, replace=False).tolist())
            (graph.remove_edge if graph.has_edge(*pair) else graph.add_edge)(*pair)
            other = replace(case, graph=graph)
        case "weights":
            layers = tuple(replace(layer, bias=layer.bias + random.normal(size=layer.width)) for layer in case.layers)
            other = replace(case, layers=layers)
        case "features":
            other = replace(case, x=case.x + random.normal(size=case.x.shape))
        case "budget":
            other = case.with_budget([budget + 1 for budget in case.node_budgets()], case.total)
        case _:
            other = case.with_budget(case.node_budgets(), case.graph_budget() + 1)
    degree = [other.graph.degree[i] for i in range(case.nodes)]
    drops = Changes(Checked(other).plain_graph, np.array(other.node_budgets()), other.graph_budget())
    forged = replace(claim, local=np.minimum(other.node_budgets(), degree), tightened=drops.budget, total=drops.total)
    failed, minima = Checked(other).failed(forged, branches=0), exact_minima(other)
    for node in set(range(case.nodes)) - set(failed):
        assert not surely_below(minima[node], float(forged.lower[node, 0] - forged.rounding[node, 0]))


# -- files, traces and trees -----------------------------------------------------------------------


def test_a_certificate_that_contradicts_itself_or_says_more_is_not_checked() -> None:
    checked = small()
    claim = as_claim(checked.certificate("degree"))
    for forged in (
        replace(claim, tightened=claim.tightened - 1),
        replace(claim, local=claim.local[1:]),
        replace(claim, total=-1),
    ):
        with pytest.raises(ValueError, match="budgets"):
            checked.failed(forged)
    for forged in (replace(claim, nodes=claim.nodes * 0), replace(claim, nodes=claim.nodes - 1)):
        with pytest.raises(ValueError, match="a node twice"):
            checked.failed(forged)
    for rounding in (np.nan, np.inf, -1.0):  # below zero, what is claimed would be more than `lower`
        assert len(checked.failed(replace(claim, rounding=claim.rounding * 0 + rounding))) == 6
    meta = {"format": "certgcl-certificate-3", "certified": True, "notes": {}}
    with pytest.raises(ValueError, match="added_edges, of which the checker knows nothing"):
        Claim.of(meta, {"added_edges": np.zeros(0)})
    with pytest.raises(ValueError, match="proves nothing"):
        Claim.of({**meta, "certified": False}, {})


@pytest.mark.parametrize("name", ["nodes", "requested_budget", "local_budget"])
def test_budgets_that_are_no_whole_numbers_are_not_cut_off(name: str, tmp_path: Path) -> None:
    path = small().certificate("degree").save(tmp_path / "certificate.npz")
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(path, **{**arrays, name: arrays[name] + 0.9})
    with pytest.raises(ValueError, match="should be whole"):
        Claim.load(path)


@pytest.mark.parametrize("edges", [[(0, 0)], [(0, 1)], [(0, 7), (7, 0)], [(-1, 0), (0, -1)]])
def test_what_is_no_graph_is_not_checked(edges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="a graph with loops"):
        graph_of(np.zeros((3, 1)), np.array(edges).T)


def test_weights_that_do_not_fit_are_not_checked() -> None:
    network = small().network
    arrays = {name: tensor.numpy() for name, tensor in network.named_tensors()}
    for name in ("layer1.bias", "layer2.term0"):
        with pytest.raises(ValueError, match="do not fit"):
            network_of(meta_of(network), {**arrays, name: arrays[name][:1]})


def test_trees_must_have_all_their_branches_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_VIEWS", 1)
    checked = small()
    drops = Changes(checked.plain_graph, np.full(6, 2), 7)
    width, node = checked.directions.shape[1], 0

    def proof(least: float, branches: int = 0) -> Proof:
        return Proof(
            checked.plain,
            node,
            checked.directions[node : node + 1].numpy(),
            np.zeros(width),
            np.array([least]),
            Choices(),
            branches,
        )

    minimum = float(exact_minima(checked.case)[node].lower())
    least = minimum - 1e-9
    found = proof(least, branches=500)
    found.prove(drops)
    tree = found.tree
    assert len(tree) > 3
    proof(least).prove(drops, tree)
    for wrong in (tree[:-1], [*tree, None], tree[1:], [(0, 5), *tree[1:]], [tree[0], None, None], []):
        with pytest.raises(NotProved):
            proof(least).prove(drops, wrong)
    with pytest.raises(NotProved):
        proof(minimum + 1e-6, branches=500).prove(drops)


def test_the_command_proves_a_file_and_refuses_forged_ones(tmp_path: Path) -> None:
    checked = small()
    checked.network.save(tmp_path / "weights.npz")
    certgcl.save_graph(tmp_path / "graph", checked.graph)
    certificate = checked.compactness("degree")
    certificate.save(tmp_path / "genuine.npz")
    replace(certificate, lower=certificate.nominal.clone()).save(tmp_path / "forged.npz")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "genuine.npz").read_bytes()[:300])

    def run(file: str, *others: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "verification.checker", file, "--graph", "graph", "--weights", "weights.npz"]
        ended = subprocess.run(
            [*command, *others],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        return ended.returncode, ended.stdout + ended.stderr

    code, words = run("genuine.npz")
    assert code == 0, words
    assert "6 of 6 bounds proved" in words
    assert run("genuine.npz", "--nodes", "1:3", "--keep", "trees.json")[0] == 0
    assert json.loads((tmp_path / "trees.json").read_text()) == {}
    assert run("forged.npz", "--json", "--branches", "2")[0] == 1
    for wrong in (
        ("broken.npz",),
        ("nothing.npz",),
        ("genuine.npz", "--nodes", "77"),
        ("genuine.npz", "--nodes", "3:3"),
    ):
        assert run(*wrong)[0] == 2, wrong


def test_the_checker_imports_neither_torch_nor_the_library() -> None:
    words = (
        "import sys, verification.checker.__main__; "
        "print([name for name in ('torch', 'certgcl', 'scipy', 'networkx') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", words], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_there_is_no_proof_of_what_is_no_bound() -> None:
    checked = small()
    with pytest.raises(InputError, match="proof=True"):
        certgcl.node_compactness(checked.network, checked.graph, 1, method="paper", proof=True)


# -- arithmetic ------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(-1e3, 1e3), st.floats(-1e-300, 1e-300), st.floats(-1e150, 1e150))


@given(
    arrays(np.float64, (3, 4), elements=numbers),
    arrays(np.float64, (2, 4), elements=numbers),
    arrays(np.float64, (3, 4), elements=st.floats(0, 10)),
)
def test_products_and_sums_are_below_the_exact_ones(middle: np.ndarray, omega: np.ndarray, spread: np.ndarray) -> None:
    low, high = middle - spread, middle + spread
    with np.errstate(all="ignore"):
        found = arithmetic.Boxes.between(low, high).below(omega)
        total, signed = (
            arithmetic.sum_below(low),
            arithmetic.dot_below(np.maximum(omega, 0), np.minimum(omega, 0), low[0], high[0]),
        )
        size = arithmetic.dot_above(omega, np.abs(low[0]))
    for m, functional in enumerate(omega.tolist()):
        for n in range(3):
            exact = sum(
                min(Fraction(w) * Fraction(a), Fraction(w) * Fraction(b))
                for w, a, b in zip(functional, low[n].tolist(), high[n].tolist(), strict=True)
            )
            assert not np.isfinite(found[n, m]) or Fraction(float(found[n, m])) <= exact
            if n == 0:
                assert not np.isfinite(signed[m]) or Fraction(float(signed[m])) <= exact
        above = sum(abs(Fraction(w)) * abs(Fraction(a)) for w, a in zip(functional, low[0].tolist(), strict=True))
        assert not np.isfinite(size[m]) or Fraction(float(size[m])) >= above
    for c in range(4):
        assert Fraction(float(total[c])) <= sum(map(Fraction, low[:, c].tolist()), Fraction(0))


KINDS: dict[str, dict[str, Any]] = {
    "elu": {"alpha": 1.0},
    "elu, flat": {"name": "elu", "alpha": 0.4},
    "elu, steep": {"name": "elu", "alpha": 1.8},
    "tanh": {},
    "sigmoid": {},
    "gelu": {},
    "silu": {},
    "softplus": {"beta": 2.5, "threshold": 20.0},
}


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(st.floats(-12, 12), st.floats(0, 6), st.floats(-2, 2), st.sampled_from(RULES))
def test_lines_hold_around_smooth_activations(kind: str, low: float, width: float, slope: float, rule: str) -> None:
    smooth = activations.activation({"name": kind, **KINDS[kind]}, {})
    assert isinstance(smooth, activations.Smooth)
    ends = np.array([low]), np.array([low + width])
    chosen = slopes(smooth, *ends, rule)
    for below, above in (chosen, (np.array([slope]), np.array([-slope]))):
        least, most = smooth.intercepts(*ends, below, above)
        for p in np.linspace(low, low + width, 23).clip(low, low + width).tolist():
            piece = next(each for each in smooth.pieces if p <= each[0].end[1])
            value = piece[1](arb(p))
            assert not value - arb(float(below[0])) * arb(p) < arb(float(least[0]))
            assert not value - arb(float(above[0])) * arb(p) > arb(float(most[0]))


def test_a_process_that_flushes_small_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    arithmetic.check_processor()
    monkeypatch.setattr(arithmetic, "ETA", 0.0)
    monkeypatch.setattr(arithmetic, "U", 2.0**-24)
    with pytest.raises(ArithmeticError, match="round to nearest"):
        arithmetic.check_processor()
