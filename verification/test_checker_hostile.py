"""Files that were made to deceive: the checker proves nothing false about them, or does not check them."""

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import certgcl
from verification.checked import Checked
from verification.checker.__main__ import main
from verification.checker.choices import EVERY
from verification.checker.claim import Claim
from verification.checker.core import activations
from verification.checker.core.arithmetic import Boxes
from verification.checker.core.changes import Features
from verification.checker.core.network import Mixing
from verification.checker.core.proof import check
from verification.checker.files import graph_of, mixing_of, network_of
from verification.strategies import gaussian_case

Files = dict[str, dict[str, Any]]
EDGE = np.array([[0, 1], [1, 0]])
BIG = 1.5e308
OVERFLOWING = Boxes.between(*[np.array([[BIG, BIG, -BIG, -BIG]])] * 2)


def files(method: str = "degree") -> Files:
    """A certificate, its graph and its weights, as plain arrays."""
    checked = Checked(gaussian_case(nx.lollipop_graph(4, 2), 0, widths=(3, 5, 2)).with_budget(2))
    with tempfile.TemporaryDirectory() as folder:
        checked.compactness(method).save(Path(folder, "certificate.npz"))
        checked.network.save(Path(folder, "weights.npz"))
        found = {name: dict(np.load(Path(folder, f"{name}.npz"))) for name in ("certificate", "weights")}
    return {**found, "graph": {"x": checked.graph.x.numpy(), "edge_index": checked.graph.edge_index.numpy()}}


def code(content: Files, folder: Path, *others: str) -> int:
    for name, arrays in content.items():
        np.savez(folder / f"{name}.npz", **arrays)
    graph, weights = str(folder / "graph.npz"), str(folder / "weights.npz")
    return main([str(folder / "certificate.npz"), "--graph", graph, "--weights", weights, "--branches", "0", *others])


def meta(content: Files, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    words = json.loads(str(content[name]["meta"]))
    change(words)
    content[name]["meta"] = np.array(json.dumps(words))


def test_the_genuine_files_are_proved_and_the_claim_is_printed(tmp_path: Path, capsys: Any) -> None:
    assert code(files(), tmp_path) == 0
    said = capsys.readouterr().out
    assert "compactness, the clean graph as the second view; at most 2 lost edges at a node, 8 in all" in said


def put(name: str, array: str, change: Callable[[Any], Any]) -> Callable[[Files], None]:
    def forge(content: Files) -> None:
        content[name][array] = change(content[name][array])

    forge.__name__ = f"{array} of {name}"
    return forge


def about_features(**words: Any) -> Callable[[Files], None]:
    def forge(content: Files) -> None:
        none = np.zeros(6, dtype=np.int64)
        arrays = {"features_off": none, "features_on": none, "features_radius": np.zeros(6)}
        content["certificate"].update(arrays)
        meta(content, "certificate", lambda found: found.update(features=words))

    return forge


NOT_CHECKED: dict[str, Callable[[Files], object]] = {
    "a feature that is NaN": put("graph", "x", lambda x: np.where(x == x[0, 0], np.nan, x)),
    "an infinite feature": put("graph", "x", lambda x: x * np.inf),
    "features of more digits than float64 has": put("graph", "x", lambda x: x.astype(np.longdouble)),
    "complex features": put("graph", "x", lambda x: x + 1j),
    "features with a column too many": put("graph", "x", lambda x: np.concatenate([x, x], axis=1)),
    "features without columns": put("graph", "x", lambda x: x[:, 0]),
    "edges that are no whole numbers": put("graph", "edge_index", lambda edges: edges + 0.5),
    "an edge twice": put("graph", "edge_index", lambda edges: np.concatenate([edges, edges[:, :1]], axis=1)),
    "a self-loop": put("graph", "edge_index", lambda edges: np.concatenate([edges, [[0], [0]]], axis=1)),
    "an edge of one direction": put("graph", "edge_index", lambda edges: edges[:, 1:]),
    "an edge to no node": put("graph", "edge_index", lambda edges: edges - 1),
    "a graph with other node numbers": put("graph", "edge_index", lambda edges: 5 - edges),
    "node numbers beyond 63 bits": put("graph", "edge_index", lambda edges: edges.astype(np.uint64) + 2**63),
    "a weight that is NaN": put("weights", "layer1.term0", lambda weight: weight * np.nan),
    "an infinite bias": put("weights", "layer1.bias", lambda bias: bias + np.inf),
    "weights of another shape": put("weights", "layer1.term0", lambda weight: weight[:, :1]),
    "a weight instead of a matrix": put("weights", "layer2.term0", lambda weight: weight[:, 0]),
    "a negative loop": lambda content: meta(
        content, "weights", lambda words: words["structure"][0]["terms"][0].update(loop=-0.5)
    ),
    "an activation with a setting": lambda content: meta(
        content, "weights", lambda words: words["structure"][0].update(activation={"name": "elu", "alpha": -1.0})
    ),
    "bounds as text": put("certificate", "lower", lambda lower: lower.astype(str)),
    "bounds of more digits": put("certificate", "lower", lambda lower: lower.astype(np.longdouble)),
    "budgets that are not whole": put("certificate", "requested_budget", lambda budget: budget + 0.5),
    "budgets below zero": put("certificate", "requested_budget", lambda budget: -budget),
    "budgets that wrap": put("certificate", "requested_budget", lambda budget: budget.astype(np.uint64) + 2**63),
    "a total with a fraction": lambda content: meta(
        content, "certificate", lambda words: words.update(total_budget=2.5)
    ),
    "a total beyond 63 bits": lambda content: meta(
        content, "certificate", lambda words: words.update(total_budget=2**64)
    ),
    "a total of no number": lambda content: meta(
        content, "certificate", lambda words: words.update(total_budget=float("nan"))
    ),
    "node numbers twice": put("certificate", "nodes", lambda nodes: nodes * 0),
    "features with no budget that says what they are": lambda content: content["certificate"].update(
        features_off=np.ones(6, dtype=np.int64)
    ),
    "a kind of features that nobody knows": about_features(kind="Columns", columns=0, total=0),
    "columns under another name": about_features(kind="masked", columns=3, total=0),
    "an array that nobody knows": lambda content: content["certificate"].update(lower_bound=np.ones(6)),
    "a method without a proof": lambda content: meta(
        content, "certificate", lambda words: words.update(certified=False)
    ),
}


@pytest.mark.parametrize("name", NOT_CHECKED)
def test_it_is_not_checked(name: str, tmp_path: Path) -> None:
    content = files()
    NOT_CHECKED[name](content)
    assert code(content, tmp_path) == 2


def reversed_order(content: Files) -> None:
    content["certificate"]["lower"] = content["certificate"]["lower"][::-1]


NOT_PROVED: dict[str, Callable[[Files], object]] = {
    "a bound that is NaN": put("certificate", "lower", lambda lower: lower * np.nan),
    "an infinite bound": put("certificate", "lower", lambda lower: lower + np.inf),
    "a rounding that is negative": put("certificate", "rounding", lambda rounding: -1 - rounding),
    "bounds of other nodes": reversed_order,
    "features of other nodes": put("graph", "x", lambda x: x[::-1]),
    "larger weights": put("weights", "layer1.term0", lambda weight: 1e150 * weight),
    "weights that overflow": put("weights", "layer2.term0", lambda weight: np.sign(weight) * 1.7e308),
    "all columns masked": about_features(kind="columns", columns=3, total=0),
}


@pytest.mark.parametrize("name", NOT_PROVED)
def test_it_is_not_proved(name: str, tmp_path: Path) -> None:
    content = files()
    NOT_PROVED[name](content)
    assert code(content, tmp_path) == 1


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_numbers_are_those_of_the_file_whatever_their_type(kind: Any, tmp_path: Path) -> None:
    content = files()
    content["certificate"]["lower"] = np.nextafter(content["certificate"]["lower"].astype(kind), kind(-10))
    assert code(content, tmp_path) == 0
    content["certificate"]["lower"] = np.nextafter(content["certificate"]["nominal"].astype(kind), kind(10))
    assert code(content, tmp_path) == 1


# -- overflow --------------------------------------------------------------------------------------


def test_a_product_that_overflows_on_its_way_proves_nothing() -> None:
    """The exact value is 0, and the sum of the first two is infinite; once it was proved to be at least 1.8e308."""
    with np.errstate(all="ignore"):
        assert not OVERFLOWING.below(np.ones((1, 4))) >= -np.inf


def test_nothing_is_proved_of_a_network_whose_sums_overflow() -> None:
    """``z = 1e308 + 1e308 - 1e308 - 1e308 = 0`` at both nodes, of which 1e300 is claimed."""
    layer = {"terms": [{"source": 0, "aggregation": "local"}], "activation": None}
    weights = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    tensors = {"layer1.term0": weights, "layer1.bias": np.zeros(1)}
    network = network_of({"structure": [layer], "readout": [1]}, tensors)
    graph = graph_of(np.full((2, 4), 1e308), EDGE)
    one, zero = np.ones(2, dtype=np.int64), np.zeros((2, 1))
    claim = Claim(np.arange(2), zero + 1e300, zero, np.ones((2, 1, 1)), "given", one, one, 1, EVERY, None, [set()] * 2)
    assert len(check(claim, network, graph)["failed"]) == 2


# -- what formulas suppose -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        {"name": "elu", "alpha": -1.0},
        {"name": "elu", "alpha": float("nan")},
        {"name": "softplus", "beta": -1.0, "threshold": 20.0},
        {"name": "softplus", "beta": 1.0, "threshold": -20.0},
        {"name": "tanh", "scale": 2.0},
        {"name": "no such one"},
    ],
)
def test_activations_with_other_settings_are_not_known(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"settings|of that name"):
        activations.activation(content, {})


@pytest.mark.parametrize("loop", [1e17, 2.0**53, 1 / 3, 1e-12])
def test_scales_hold_the_exact_ones_for_loops_of_any_size(loop: float) -> None:
    n = np.arange(1.0, 6)
    own = Mixing("symmetric", loop).scales(n)[0]
    for count, low, high in zip(range(1, 6), own.low.tolist(), own.high.tolist(), strict=True):
        assert Fraction(low) <= Fraction(loop) / (count + Fraction(loop)) <= Fraction(high)


def test_columns_without_a_total_are_masked_all_the_same() -> None:
    none = np.zeros(2, dtype=np.int64)
    assert Features(none, none, np.zeros(2), 0, columns=1).any


# -- files that two programs read in two ways ------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["lower", "lower.npy"])
def test_an_archive_with_two_arrays_of_one_name_is_not_checked(name: str, tmp_path: Path) -> None:
    """The library read ``lower.npy``, which was raised, and the checker ``lower``."""
    content = files()
    genuine, path = content["certificate"].pop("lower"), tmp_path / "certificate.npz"
    assert code(content, tmp_path) == 2
    with zipfile.ZipFile(path, "a") as archive:
        for member, lower in (("lower.npy", genuine + 1.0), (name, genuine)):
            written = io.BytesIO()
            np.save(written, lower)
            archive.writestr(member, written.getvalue())
    graph, weights = (str(tmp_path / f"{each}.npz") for each in ("graph", "weights"))
    assert main([str(path), "--graph", graph, "--weights", weights]) == 2


@pytest.mark.parametrize("words", [{"candidate_rowptr": [0] + [1] * 6, "candidate_col": [5]}, {"added": 0}])
def test_candidates_are_not_taken_from_where_the_library_reads_none(words: dict[str, Any]) -> None:
    """A list of candidates among the words hid all others: a smaller claim was proved than the one that was shown."""
    checked = Checked(gaussian_case(nx.lollipop_graph(4, 2), 0, widths=(3, 5, 2)).with_budget(1))
    changes = certgcl.Changes(drops=1, additions=1)
    with tempfile.TemporaryDirectory() as folder:
        path = certgcl.node_compactness(checked.network, checked.graph, changes).save(Path(folder, "certificate.npz"))
        arrays = dict(np.load(path))
    found = json.loads(str(arrays["meta"]))
    assert "1 new ones at a node, 7 in all, among any pairs" in Claim.of(found, arrays).words
    found["additions"].update(words)
    with pytest.raises(ValueError, match="a budget of new edges"):
        Claim.of(found, arrays)


@pytest.mark.parametrize("loop", [5e-324, 2.0**-1022, 1e-300])
def test_scales_of_the_smallest_loops_are_no_less_than_the_exact_ones(loop: float) -> None:
    with np.errstate(all="ignore"):
        own, out, _ = Mixing("symmetric", loop).scales(np.zeros(1))
    assert own.low <= 1 <= own.high
    assert 0 <= out.low <= 1 / np.sqrt(loop) <= out.high


def test_slopes_are_numbers_of_channels_and_not_of_nodes() -> None:
    with pytest.raises(ValueError, match="of that name"):
        activations.activation({"name": "two-piece linear"}, {"activation.slope": np.ones((6, 1))})


def test_a_term_with_a_setting_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="of which no formula is known"):
        mixing_of({"source": 0, "aggregation": "mean", "power": 2})
