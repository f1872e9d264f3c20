"""The paper's experiments, each in seconds: three epochs on the karate club, with one cache for all."""

import csv
import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.errors import InputError
from certgcl.experiments import EXPERIMENTS, Study, figures, measures
from certgcl.experiments.kappa import KAPPAS
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.sensitivity import binned
from certgcl.experiments.supervised import dropped_out, supervised_f1
from certgcl.experiments.tables import Row, over_norm
from certgcl.experiments.variants import regularizer
from certgcl.learning.methods.infonce import info_nce
from tests.cli.running import json_of, plain, run
from tests.toys import tensors_of

pytest.importorskip("matplotlib", reason="figures need the extra plots")

NODES, PAIRS = 20, 3
SIZE = ("--dataset", "karate", "--epochs", "3", "--pairs", str(PAIRS), "--nodes", str(NODES), "--methods")
METHODS = {"degree": "grace,gca", "augmentations": "gca"}
ROWS = {
    "imbalance": 34,
    "compactness-curve": 4 * 4,
    "degree": 2 * NODES,
    "kappa": 1 + 3 * len(KAPPAS),
    "infonce": 4 * 34,
    "augmentations": 4 * 4,
    "sensitivity": NODES,
    "table": 4 + 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def study(cache: Path) -> Study:
    return Study(dataset="karate", methods=("grace",), seeds=(0,), cache=cache, epochs=3, pairs=PAIRS, nodes=NODES)


def command(name: str, cache: Path, out: Path) -> tuple[str, ...]:
    return "reproduce", name, *SIZE, METHODS.get(name, "grace"), "--cache", str(cache), "--out", str(out)


def read(path: Path) -> list[Row]:
    """A CSV file with its numbers as numbers."""

    def value(text: str) -> Any:
        try:
            return float(text) if text else None
        except ValueError:
            return text

    with path.open() as stream:
        return [{name: value(text) for name, text in row.items()} for row in csv.DictReader(stream)]


@dataclass(frozen=True)
class Done:
    """An experiment as the command left it, and its figure drawn again from the CSV file alone."""

    result: list[dict[str, Any]]
    rows: list[Row]
    figure: figures.Figure

    @classmethod
    def of(cls, name: str, cache: Path, out: Path) -> "Done":
        found = json_of(*command(name, cache, out))["results"]
        rows = read(out / f"{name}-karate.csv")
        with figures.styled():
            return cls(found, rows, EXPERIMENTS[name].draw(rows))


@pytest.fixture(scope="module")
def done(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    out = tmp_path_factory.mktemp("out")
    return functools.cache(lambda name: Done.of(name, cache, out))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_leaves_a_table_and_a_figure_of_it(
    name: str, done: Callable[[str], Done], tmp_path: Path
) -> None:
    found = done(name)
    (result,) = found.result
    assert (result["experiment"], result["dataset"]) == (name, "karate")
    table, *pictures = map(Path, result["files"])
    assert [path.name for path in (table, *pictures)] == [f"{name}-karate.{kind}" for kind in ("csv", "png", "svg")]
    assert len(found.rows) == ROWS[name]
    assert len(result["summary"]) == len(EXPERIMENTS[name].summary(found.rows)) >= 1
    with figures.styled():
        again = figures.save(found.figure, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in pictures]


def test_the_same_command_again_trains_and_measures_nothing(cache: Path, tmp_path: Path) -> None:
    first = json_of(*command("table", cache, tmp_path / "first"))
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    second = json_of(*command("table", cache, tmp_path / "second"))
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    assert first["results"][0]["summary"] == second["results"][0]["summary"]
    for kind in ("csv", "png", "svg"):
        one, other = (tmp_path / folder / f"table-karate.{kind}" for folder in ("first", "second"))
        assert one.read_bytes() == other.read_bytes()


def test_the_table_fits_a_terminal_and_a_deviation_stands_beside_its_mean(cache: Path, tmp_path: Path) -> None:
    result = run(*command("table", cache, tmp_path), "--seeds", "2", env={"COLUMNS": "40"})
    title, *lines, files = result.stdout.splitlines()
    assert (title, files) == (
        "table on karate",
        f"written to table-karate.csv, table-karate.png, table-karate.svg in {tmp_path}",
    )
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    assert re.fullmatch(r"grace +plain +2 +\d+\.\d ± \d+\.\d +\d+\.\d ± \d+\.\d +– +\S+ +\S+", lines[3])
    (found,) = json_of(*command("table", cache, tmp_path), "--seeds", "2")["results"]
    assert {"micro", "± micro"} <= found["summary"][0].keys()


def test_experiments_share_their_trainings(study: Study) -> None:
    preset = study.preset("grace")
    own = study.trained(Recipe("grace", "certified", 0))
    assert study.trained(Recipe("grace", "certified", 0, kappa=preset.kappa)).folder == own.folder
    others = [
        Recipe("grace", "certified", 1),
        Recipe("grace", "released", 0),
        Recipe("grace", "certified", 0, 0.1),
        Recipe("gca", "certified", 0),
    ]
    assert len({own.folder, *(study.trained(recipe).folder for recipe in others)}) == 5
    degree = study.trained(Recipe("gca", "plain", 0, augmentation="degree"))
    assert degree.folder == study.trained(Recipe("gca", "plain", 0)).folder


def test_a_training_that_was_stopped_goes_on_to_the_same_encoder(tmp_path: Path) -> None:
    study = Study(dataset="karate", methods=("grace",), seeds=(0,), cache=tmp_path, epochs=4)
    recipe = Recipe("grace", "certified", 0)
    whole = recipe.estimator(study.preset("grace"), 4).fit(study.data).fitted_encoder().network()
    told: list[str] = []

    def stop(words: str) -> None:
        told.append(words)
        if words.endswith("2/4 epochs"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study(dataset="karate", methods=("grace",), seeds=(0,), cache=tmp_path, epochs=4, say=stop).trained(recipe)
    run = study.trained(recipe)
    assert told == ["grace certified seed 0: 1/4 epochs", "grace certified seed 0: 2/4 epochs"]
    assert run.milestones == [0, 1, 2, 3, 4]
    assert torch.equal(tensors_of(run.network())[0], tensors_of(whole)[0])
    assert torch.equal(tensors_of(run.session().encoder.network())[3], tensors_of(whole)[3])
    assert not torch.equal(tensors_of(run.network(0))[0], tensors_of(run.network(2))[0])


# -- what is measured ------------------------------------------------------------------------------


def test_scores_are_those_of_the_library(study: Study) -> None:
    run = study.trained(Recipe("grace", "plain", 0))
    model, found = run.network(), measures.compactness(run)
    for method, values in (("released", found.paper_score), ("degree", found.certified_bound)):
        certificate = certgcl.node_compactness(model, study.data, 0.3, method=method, nodes=study.sample)
        assert certificate.certified == (method == "degree")
        torch.testing.assert_close(values, certificate.lower)
    assert bool((found.certified_bound <= found.clean + 1e-9).all())
    assert found.mean()["paper_above_clean"] > 0  # it is no bound
    assert found.norm == pytest.approx(float(model.embed(study.graph).norm(dim=1).mean()))
    evaluation = certgcl.evaluate(model.embed(study.graph), study.data.y, seeds=measures.SPLITS)
    assert measures.f1(run) == {"micro": evaluation.micro_mean, "macro": evaluation.macro_mean}


@torch.no_grad()
def test_the_loss_of_a_node_is_averaged_over_pairs_of_views(study: Study) -> None:
    run = study.trained(Recipe("grace", "plain", 0))
    mean, error = measures.node_infonce(run)
    session = run.session()  # with its generator as at the start
    losses = []
    for _ in range(PAIRS):
        views = [dropper.sample(session.generator) for dropper in session.views]
        z1, z2 = map(session.encoder.network().embed, views)
        losses.append(info_nce(session.projector(z1), session.projector(z2), run.estimator.temperature).double())
    together = torch.stack(losses)
    torch.testing.assert_close(mean, together.mean(dim=0))
    torch.testing.assert_close(error, together.std(dim=0) / PAIRS**0.5)


def test_supervised_baselines_learn(tmp_path: Path) -> None:
    study = Study(dataset="sbm", methods=("grace",), seeds=(0,), cache=tmp_path, epochs=20)
    for name in ("gcn", "gat"):
        found = supervised_f1(study, name, 0)
        assert 0.6 < found["micro"] <= 1
        kept = next(tmp_path.glob(f"sbm-{name}-supervised-0-*.json"))
        before = kept.stat().st_mtime_ns
        assert supervised_f1(study, name, 0) == found
        assert kept.stat().st_mtime_ns == before


def test_sparse_features_are_dropped_like_dense_ones() -> None:
    x = torch.eye(40).repeat(1, 5)
    for features in (x, x.to_sparse_csr()):
        dropped = dropped_out(features, 0.25).to_dense()
        torch.testing.assert_close(dropped[x == 1].unique(), torch.tensor([0, 1 / 0.75]))
        assert not dropped[x == 0].any()
        assert 0.6 < float((dropped[x == 1] > 0).double().mean()) < 0.9


# -- what is drawn ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "infonce"])  # it has no score in it
def test_both_scores_are_side_by_side_and_one_is_marked(name: str, done: Callable[[str], Done]) -> None:
    titles = [axes.get_title() for axes in done(name).figure.axes]
    first = titles.index("the paper's score (not a bound)")
    assert titles[first + 1] == "certified lower bound"


@pytest.mark.parametrize("name", ["compactness-curve", "kappa", "augmentations", "table"])
def test_four_panels_are_two_and_two(name: str, done: Callable[[str], Done]) -> None:
    figure = done(name).figure
    assert len(figure.axes) == 4
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 2)
    assert figure.get_size_inches()[0] < 7  # on a page of that width its type is as large as the text


def test_a_start_far_away_leaves_the_axis_to_the_rest_and_is_noted() -> None:
    rows = [
        {
            "dataset": "toy",
            "method": "grace",
            "variant": "plain",
            "epoch": epoch,
            "paper_score": epoch / 10,
            "certified_bound": -50.0 if epoch == 0 else epoch / 10,
            "norm": 1.0,
        }
        for epoch in range(5)
    ]
    with figures.styled():
        paper, certified, *_ = EXPERIMENTS["compactness-curve"].draw(rows).axes
    assert paper.get_ylim()[0] < 0 < paper.get_ylim()[1]
    assert not paper.texts
    assert -1 < certified.get_ylim()[0] < 0.1
    assert [text.get_text() for text in certified.texts] == ["off the axis: epoch 0 at -50"]


def test_degrees_have_ticks_within_a_decade(done: Callable[[str], Done]) -> None:
    axes = done("degree").figure.axes[0]
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1, 2, 5, 10]


def test_only_labels_that_have_room_are_drawn() -> None:
    _, grid = figures.grid(1, 1, "toy")
    axes = grid[0][0]
    points = [(0.0, 0.0), (0.5, 0.5), (0.97, 0.99), (1.0, 1.0)]
    figures.label_points(axes, points, ["a", "b", "c", "d"], [(0, 1), (0, 1)])
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "d"]


def test_infonce_is_shown_with_each_regularizer(done: Callable[[str], Done]) -> None:
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in done("infonce").figure.axes]
    assert legends == [
        ["plain", "with the paper's score"],
        ["plain", "with clean compactness"],
        ["plain", "with the certified bound"],
    ]


def test_points_and_lines_are_the_numbers_of_the_file(done: Callable[[str], Done]) -> None:
    found = done("degree")
    grace = [row for row in found.rows if row["method"] == "grace"]
    for axes, name in zip(found.figure.axes, figures.SCORES, strict=False):
        points = np.column_stack([[row["degree"] for row in grace], over_norm(grace, name)])
        np.testing.assert_allclose(np.asarray(axes.collections[0].get_offsets(), dtype=float), points)
    found = done("kappa")
    certified = [row for row in found.rows if row["variant"] == "certified"]
    drawn = [line.get_ydata() for line in found.figure.axes[0].lines if tuple(line.get_xdata()) == KAPPAS]
    assert any(np.allclose(np.asarray(line, dtype=float), [row["micro"] for row in certified]) for line in drawn)
    found = done("sensitivity")
    np.testing.assert_allclose(found.figure.axes[0].lines[0].get_xydata(), binned(found.rows, "paper_score"))


def test_histograms_have_all_nodes_and_their_quartiles(done: Callable[[str], Done]) -> None:
    found = done("imbalance")
    axes = found.figure.axes[0]
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(100)
    quartiles = np.quantile([row["infonce"] for row in found.rows], (0.25, 0.5, 0.75))
    np.testing.assert_allclose([line.get_xdata()[0] for line in axes.lines], quartiles)
    assert sum(row["certified_bound"] is not None for row in found.rows) == NODES


# -- wrong use -------------------------------------------------------------------------------------


def test_without_matplotlib_the_extra_is_named_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(*command("kappa", tmp_path / "cache", tmp_path))
    assert result.exit_code == 1
    assert 'pip install "certgcl[plots]"' in result.stderr
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_reproduced_is_refused(cache: Path, tmp_path: Path, study: Study) -> None:
    ends = ("--cache", str(cache), "--out", str(tmp_path))
    unknown = run("reproduce", "degree", "--dataset", "Karte", *ends)
    assert (unknown.exit_code, "DatasetError" in unknown.stderr) == (1, True)
    method = run("reproduce", "degree", "--methods", "grace,best", *ends)
    assert (method.exit_code, "'best' is not one of grace" in plain(method.stderr)) == (2, True)
    other = run("reproduce", "augmentations", "--dataset", "karate", "--methods", "costa", *ends)
    assert (other.exit_code, "Use grace or gca" in other.stderr) == (1, True)
    with pytest.raises(InputError, match="variants are plain, released, clean, one edge, certified, kept"):
        regularizer("best", study.preset("grace"))


def test_help_lists_the_experiments_with_examples() -> None:
    text = plain(run("reproduce", "--help").stdout)
    assert all(name in text for name in EXPERIMENTS)
    assert "certgcl reproduce kappa --fast" in plain(run("reproduce", "kappa", "--help").stdout)
