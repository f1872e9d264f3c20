import json
import re
import shlex
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import certgcl
from certgcl import Certificate, EdgeDropBudget, Graph
from certgcl.errors import ReportError
from certgcl.report import Report, Subject, gather
from certgcl.report.content import BREAKS, OPEN, PROVED, UNPROVED, BudgetCurve, Fragile, Missing, Summary, Values
from certgcl.report.figures import _bins
from certgcl.report.neighbourhood import MOST_FAR, MOST_NEAR, drawing_of
from certgcl.report.page import moment, number, percent, render
from certgcl.report.subject import deciding
from certgcl.report.words import budget_rule
from certgcl.training import History
from tests.cli import json_of, plain, run
from tests.toys import random_graph, toy_graph, toy_weights

SECTIONS = ("summary", "values", "degrees", "curve", "accuracy", "fragile", "training")


class Page(HTMLParser):
    """The text of a page, its ids, and the JSON in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.text, self._json = "", ""
        self.feed(html)
        self.numbers: dict[str, Any] = json.loads(self._json)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        if self.ids and self.ids[-1] == "numbers" and not self._json:
            self._json = data
        else:
            self.text += data


def data_of(graph: Graph, labels: bool = True) -> Data:
    n = graph.num_nodes
    part = torch.arange(n) % 4
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    y = (graph.x[:, 0] > 0).long() if labels else None
    return Data(x=graph.x, edge_index=graph.edge_index, y=y, **(masks if labels else {}))


@cache
def certified(method: str) -> Certificate:
    return certgcl.node_compactness(toy_weights(), random_graph(20, 0.2), 1, method=method)


def subject(method: str = "degree", **others: Any) -> Subject:
    graph, weights, certificate = random_graph(20, 0.2), toy_weights(), certified(method)
    history = History([{"epoch": k, "seconds": 0.5, "loss": 2.0 - k, "pot": None if k else 1.0} for k in range(3)])
    return replace(Subject("toy", certificate, "random", data_of(graph), weights, "public", history), **others)


@cache
def whole_report() -> Report:
    return gather(subject(), sample=5)


# -- the numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["degree", "optimized", "released"])
def test_the_numbers_are_those_of_the_certificate(method: str) -> None:
    about = subject(method)
    certificate = about.certificate
    assert certificate is not None
    numbers = gather(about, sample=0).to_dict()
    assert numbers["values"]["node"] == certificate.nodes.tolist()
    for name in ("lower", "nominal", "upper"):
        expected = getattr(certificate, name)
        assert numbers["values"][name] == (None if expected is None else expected.tolist())
    summary = numbers["summary"]
    assert (summary["proved"], summary["share"]) == (int(certificate.positive.sum()), certificate.share_positive)
    assert (summary["lower_min"], summary["total"]) == (float(certificate.lower.min()), certificate.total_budget)
    assert summary["breaks"] == (None if certificate.upper is None else int(certificate.negative.sum()))
    rows = numbers["fragile"]["rows"]
    assert [row["lower"] for row in rows] == certificate.lower.sort().values.tolist()
    place = {node: place for place, node in enumerate(certificate.nodes.tolist())}
    for row in rows:
        assert row["nominal"] == float(certificate.nominal[place[row["node"]]])
        if certificate.upper is not None:
            assert row["upper"] == float(certificate.upper[place[row["node"]]])
            assert len(row["witness"]) == certificate.witness(row["node"]).shape[1]


def test_a_sign_says_what_is_known() -> None:
    about = subject("optimized")
    certificate, report = about.certificate, gather(about, sample=0)
    assert certificate is not None
    assert isinstance(report.values, Values)
    for sign, positive, negative in zip(report.values.sign, certificate.positive, certificate.negative, strict=True):
        assert sign == (PROVED if positive else BREAKS if negative else OPEN)
    scores = gather(subject("released"), sample=0)
    assert isinstance(scores.values, Values)
    assert set(scores.values.sign) == {UNPROVED}
    text = Page(render(scores)).text
    assert "Nothing is proved" in text
    assert "Not certified." in text
    assert "lower bound" not in text.lower()
    assert "Proved" not in text
    assert "Proved" in Page(render(report)).text


def test_the_budget_curve_passes_through_the_certificate() -> None:
    about = subject()
    report = gather(about, sample=100)
    assert isinstance(report.curve, BudgetCurve)
    assert about.certificate is not None
    assert (report.curve.nodes, report.curve.of, report.curve.method) == (20, 20, "degree")
    one = report.curve.by_count[0]
    assert (one.budget, one.proved) == (1, about.certificate.share_positive)
    assert one.lower_mean == pytest.approx(float(about.certificate.lower.mean()))
    assert [point.budget for point in report.curve.by_rate] == pytest.approx([0.1 * k for k in range(1, 10)])


def test_witnesses_are_searched_for_where_the_certificate_has_none() -> None:
    about, report = subject(), whole_report()
    assert isinstance(report.fragile, Fragile)
    assert report.fragile.searched
    assert about.graph is not None
    assert about.encoder is not None
    for row, drawing in zip(report.fragile.rows, report.fragile.drawings, strict=False):
        assert row.node == drawing.node
        assert row.witness == drawing.witness
        dropped = torch.tensor(drawing.witness).reshape(-1, 2).T
        kept = [edge for edge in about.graph.edge_index.T.tolist()
                if edge not in torch.cat([dropped, dropped.flip(0)], dim=1).T.tolist()]
        view = Graph.from_edges(about.graph.x, torch.tensor(kept).T)
        value = about.certificate.directions[row.node] @ about.encoder.embed(view)[row.node]  # type: ignore[union-attr]
        assert row.upper == pytest.approx(float(value))
        assert row.lower <= drawing.proved + 1e-12 <= drawing.upper + 2e-12
    assert all(row.witness is None for row in report.fragile.rows[len(report.fragile.drawings):])


def test_certified_accuracy_accounts_for_every_test_node() -> None:
    found = gather(subject(), sample=100).accuracy
    assert not isinstance(found, Missing)
    assert (found.nodes, found.of, found.train) == (5, 5, 10)
    assert found.lower <= found.upper <= found.clean
    assert found.certified + found.unknown + found.broken + found.wrong == found.nodes


def test_of_several_directions_the_one_that_decides_is_shown() -> None:
    graph, weights = random_graph(10), toy_weights()
    directions = torch.eye(3, dtype=torch.float64)[None].repeat(10, 1, 1)
    directions[:, 1] = 0
    certificate = certgcl.linear_bounds(weights, graph, 1, directions)
    worst = deciding(certificate)
    assert torch.equal(worst.lower, certificate.lower[:, [0, 2]].min(dim=1).values)
    report = gather(Subject("margins", certificate, "random", data_of(graph), weights), sample=3)
    assert isinstance(report.values, Values)
    assert report.values.lower == worst.lower.tolist()


# -- the words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "words"), [
    (1, "At most 1 edge at each node (in effect 0 to 1, 0.95 on average); any number in all."),
    (4, "At most 4 edges at each node (in effect 0 to 4, 2.65 on average); any number in all."),
    (0.4, "At most round(0.4 × degree) edges at each node, but never all of them (in effect 0 to "),
    (EdgeDropBudget(1, total=3), "(in effect 0 to 1, 0.95 on average); 3 of 32 edges in all."),
    (EdgeDropBudget(list(range(20))), "At most 0 to ")])
def test_the_budget_is_said_in_words(budget: Any, words: str) -> None:
    about = subject()
    assert about.graph is not None
    certificate = certgcl.node_compactness(toy_weights(), about.graph, budget)
    summary = gather(replace(about, certificate=certificate), sample=0).summary
    assert isinstance(summary, Summary)
    assert words in summary.statement.budget
    assert "the compactness of a node" in summary.statement.holds


def test_a_budget_that_every_node_has_is_said_without_a_range() -> None:
    cycle = toy_graph(nx.cycle_graph(6))
    certificate = certgcl.node_compactness(toy_weights(), cycle, 2)
    summary = gather(Subject("cycle", certificate, "cycle", data_of(cycle)), sample=0).summary
    assert isinstance(summary, Summary)
    assert summary.statement.budget == "At most 2 edges at each node; any number in all."


def test_a_hint_decides_between_budgets_that_are_the_same_here() -> None:
    graph = toy_graph(nx.cycle_graph(6))
    certificate = certgcl.node_compactness(toy_weights(), graph, 1)
    assert budget_rule(certificate, graph) == 1
    assert budget_rule(certificate, graph, [0.9, 0.5]) == 0.9


def test_a_moment_is_said_as_people_say_it() -> None:
    assert moment("2025-05-03T14:05:59+00:00") == "3 May 2025, 14:05 UTC"
    assert moment("2025-05-03T14:05:59+02:00") == "3 May 2025, 12:05 UTC"
    assert moment("2025-05-03") == "3 May 2025, 00:00"
    assert moment("yesterday") == "yesterday"


def test_few_nodes_have_few_bins() -> None:
    assert [_bins(nodes) for nodes in (1, 34, 400, 20_000)] == [8, 12, 40, 40]


def test_numbers_are_rounded_for_readers() -> None:
    assert [number(value) for value in (None, 0.5, -1.23456, 1234.5)] == ["–", "0.5000", "−1.235", "1234"]
    assert [percent(share) for share in (0, 0.0001, 0.5, 0.1234, 0.9999, 1)] == [
        "0 %", "< 0.1 %", "50 %", "12.3 %", "> 99.9 %", "100 %"]


# -- the page --------------------------------------------------------------------------------------


def test_everything_is_escaped() -> None:
    evil = "<script>alert(1)</script>&'\"</style>"
    history = History([{"epoch": k, "seconds": 1.0, evil: float(k)} for k in range(3)])
    config = {"config": {"settings": {evil: evil}}, "versions": {evil: evil}, "started": evil}
    about = subject(name=evil, graph_name=evil, history=history, config=config, commands=[evil],
                    notes={"fingerprint": evil})
    html = render(gather(about, sample=0))
    assert "alert(1)</script>" not in html
    assert "</style>&" not in html
    page = Page(html)
    assert page.tags.count("script") == 2
    assert page.numbers["name"] == evil
    assert page.text.count(evil) >= 5


def test_a_page_is_all_in_one_file_and_always_the_same() -> None:
    html = render(whole_report())
    page = Page(html)
    assert page.numbers == json.loads(json.dumps(whole_report().to_dict()))
    assert html == render(whole_report())
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"(src|href)=\"(?!#|data:,)", html)
    assert not re.search(r"url\((?!#)|@import", html)
    for target in re.findall(r"(?:href=\"|url\()#([^\")]+)", html):
        assert target in page.ids
    assert "<title>certgcl report: toy</title>" in html


def test_the_same_input_gives_the_same_numbers() -> None:
    assert gather(subject(), sample=5) == whole_report()


def test_sections_without_data_say_so() -> None:
    about = subject()
    report = gather(Subject("alone", about.certificate))
    assert set(report.missing()) == {"degrees", "curve", "accuracy", "training"}
    page = Page(render(report))
    assert {"bounds", "degree", "budget", "accuracy", "fragile", "training", "reproduce"} <= set(page.ids)
    assert "pass --dataset or --graph" in page.text
    assert "There is no history of a training." in page.text
    nothing = gather(Subject("nothing"))
    assert set(nothing.missing()) == set(SECTIONS)
    empty = Page(render(nothing))
    assert empty.text.count("There is no certificate.") == 1
    assert {"bounds", "degree", "fragile"}.isdisjoint(empty.ids)
    assert {"budget", "accuracy", "training", "reproduce"} <= set(empty.ids)
    unlabelled = gather(replace(about, data=data_of(random_graph(20, 0.2), labels=False)), sample=3)
    assert unlabelled.missing() == {"accuracy": "The graph has no labels."}
    skipped = gather(about, sample=0).missing()
    assert set(skipped) == {"curve", "accuracy"}
    assert "--sample 0" in skipped["curve"]


def test_a_hub_is_drawn_without_losing_its_witness() -> None:
    tree = nx.star_graph(200)
    tree.add_edges_from((leaf, 200 + leaf) for leaf in range(1, 200))
    graph = toy_graph(tree)
    certificate = certgcl.node_compactness(toy_weights(), graph, EdgeDropBudget(total=0), nodes=[0])
    witness = torch.tensor([[0, 150], [190, 350]])
    bracket = replace(certificate, upper=certificate.lower, witnesses=(witness,))
    drawing = drawing_of(bracket, 0, graph, None)
    shown = {place.node: place.hops for place in drawing.places}
    assert {0: 0, 190: 1, 150: 1, 350: 2}.items() <= shown.items()
    assert list(shown.values()).count(1) == MOST_NEAR
    assert list(shown.values()).count(2) <= MOST_FAR
    assert drawing.hidden == graph.num_nodes - len(shown)
    assert drawing.witness == [(0, 190), (150, 350)]
    assert set(drawing.witness) <= set(drawing.edges)


# -- parts that do not belong together -------------------------------------------------------------


@pytest.mark.parametrize(("others", "message"), [
    ({"data": data_of(random_graph(12))}, "a graph with 20 nodes beside a graph with 12"),
    ({"data": data_of(toy_graph(nx.path_graph(20)))}, "a budget of 32 edges in all beside a graph with 19"),
    ({"data": data_of(toy_graph(nx.disjoint_union(nx.complete_graph(10), nx.empty_graph(10))))},
     "a budget of 1 edges at node 10, which has 0 in this graph"),
    ({"weights": toy_weights(seed=7)}, "a clean value of .* at node 0 in the certificate"),
    ({"weights": toy_weights(outputs=2)}, "directions of length 3 beside embeddings of 2"),
])
def test_another_graph_or_encoder_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(ReportError, match=message):
        gather(subject(**others), sample=0)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run on a graph with masks, in a folder with an awkward name."""
    folder = tmp_path_factory.mktemp("report")
    karate = certgcl.load_dataset("karate")
    torch.save(data_of(Graph.of(karate)), folder / "graph.pt")
    json_of("train", "--graph", str(folder / "graph.pt"), "--epochs", "3", "--regularizer", "none", "--set", "hidden=4",
            "--set", "drop_rates=0.4,0.2", "--certify", "--out", str(folder / "a <b>run</b>"))
    return folder


def test_a_run_has_every_section(folder: Path) -> None:
    target = folder / "a <b>run</b>"
    found = json_of("report", str(target), "--sample", "4")
    assert found["missing"] == {}
    assert found["out"] == str(target / "report.html")
    page = Page((target / "report.html").read_text(encoding="utf-8"))
    certificate = Certificate.load(target / "certificate.npz")
    assert page.numbers["values"]["lower"] == certificate.lower.tolist()
    assert found["certificate"]["lower_min"] == float(certificate.lower.min())
    assert page.numbers["training"]["epochs"] == 3
    assert "b" not in [tag for tag, number in zip(page.tags, page.tags[1:], strict=False) if number == "h1"]
    assert "a <b>run</b>" in page.text
    assert "round(0.4 × degree)" in page.text
    assert page.numbers["origin"]["seed"] == 0
    assert set(page.numbers["origin"]["versions"]) >= {"certgcl", "torch"}


def test_the_commands_make_the_run_again(folder: Path) -> None:
    target, again = folder / "a <b>run</b>", folder / "again"
    run("report", str(target), "--sample", "0", "--out", str(folder / "again.html"))
    train, certify, report = Page((folder / "again.html").read_text()).numbers["origin"]["commands"]
    words = shlex.split(train.replace(shlex.quote(str(target)), str(again)))
    assert words[0] == "certgcl"
    json_of(*words[1:])
    first, second = (json.loads((path / "config.json").read_text())["config"] for path in (target, again))
    assert first == second
    found = json_of(*shlex.split(certify.replace(shlex.quote(str(target)), str(again)))[1:])
    certificate = Certificate.load(found["certificate"]["path"])
    torch.testing.assert_close(certificate.lower, Certificate.load(target / "certificate.npz").lower)
    assert json_of(*shlex.split(report)[1:], "--sample", "0")["out"] == str(target / "report.html")
    inside = json_of("report", str(again / "certificates" / "degree-0.4"), "--sample", "0")
    assert set(inside["missing"]) == {"curve", "accuracy"}
    json_of(*shlex.split(certify.replace(shlex.quote(str(target)), str(again)).replace("0.4", "1"))[1:])
    several = run("report", str(again))
    assert (several.exit_code, "with 2 certificates" in several.stderr) == (1, True)


def test_a_certificate_in_a_run_is_made_again_by_its_own_commands(folder: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder / "a <b>run</b>"
    inside = target / "certificates" / "optimized-2"
    json_of("certify", "--run", str(target), "--budget", "2", "--method", "optimized")
    json_of("report", str(inside), "--sample", "0")
    numbers = Page((inside / "report.html").read_text()).numbers
    assert numbers["name"] == f"{target.name}, optimized-2"
    _, certify, report = map(shlex.split, numbers["origin"]["commands"])
    assert certify == ["certgcl", "certify", "--run", str(target), "--budget", "2", "--method", "optimized"]
    assert report == ["certgcl", "report", str(inside)]
    assert numbers["origin"]["lines"] == ""
    monkeypatch.chdir(inside)
    json_of("report", ".", "--sample", "0", "--out", str(folder / "here.html"))
    here = Page((folder / "here.html").read_text()).numbers
    assert here["name"] == numbers["name"]
    assert [shlex.split(command)[-1] for command in here["origin"]["commands"]] == [str(target.resolve()), ".", "."]


def test_a_certificate_that_no_command_makes_is_made_again_in_python(folder: Path) -> None:
    target, some = folder / "a <b>run</b>", folder / "some nodes"
    json_of("certify", "--run", str(target), "--budget", "2", "--nodes", "3:8", "--out", str(some))
    options = "--graph", str(folder / "graph.pt"), "--weights", str(target / "encoder.npz")
    json_of("report", str(some), *options, "--sample", "0")
    numbers = Page((some / "report.html").read_text()).numbers
    assert numbers["name"] == "some nodes"
    assert [shlex.split(command)[1] for command in numbers["origin"]["commands"]] == ["report"]
    *lines, last = numbers["origin"]["lines"].splitlines()
    known = {"certgcl": certgcl, "model": certgcl.GCNWeights.load(target / "encoder.npz"),
             "graph": certgcl.load_dataset("karate")}
    exec("\n".join([*lines, f"new = {last}"]), known)
    old, new = known["old"], known["new"]
    assert old.nodes.tolist() == new.nodes.tolist() == list(range(3, 8))
    assert torch.equal(old.lower, new.lower)


def test_a_certificate_of_other_directions_is_not_taken_for_compactness(folder: Path, tmp_path: Path) -> None:
    target, margins = folder / "a <b>run</b>", tmp_path / "margins.npz"
    model, graph = certgcl.GCNWeights.load(target / "encoder.npz"), certgcl.load_dataset("karate")
    directions = torch.ones(34, model.w2.shape[1], dtype=torch.float64)
    certgcl.linear_bounds(model, graph, 2, directions).save(margins)
    json_of("report", str(margins), "--graph", str(folder / "graph.pt"), "--weights", str(target / "encoder.npz"),
            "--sample", "0")
    numbers = Page(margins.with_suffix(".html").read_text()).numbers
    assert [shlex.split(command)[1] for command in numbers["origin"]["commands"]] == ["report"]
    known = {"certgcl": certgcl, "model": model, "graph": graph}
    exec(numbers["origin"]["lines"], known)
    assert torch.equal(known["old"].directions, directions)  # type: ignore[attr-defined]


def test_a_certificate_alone_and_with_its_graph(folder: Path, tmp_path: Path) -> None:
    target = folder / "a <b>run</b>"
    alone = tmp_path / "alone.npz"
    alone.write_bytes((target / "certificate.npz").read_bytes())
    result = run("report", str(alone))
    assert result.exit_code == 0, result.stderr
    assert "without degrees: The graph is not at hand" in result.stdout
    assert result.stdout.endswith(f"written to {tmp_path / 'alone.html'}\n")
    whole = json_of("report", str(alone), "--graph", str(folder / "graph.pt"), "--weights", str(target / "encoder.npz"),
                    "--sample", "3")
    assert set(whole["missing"]) == {"training"}


def test_a_run_that_is_not_finished_and_one_without_its_graph(folder: Path, tmp_path: Path) -> None:
    target = folder / "a <b>run</b>"
    for name in ("config.json", "history.jsonl"):
        (tmp_path / name).write_bytes((target / name).read_bytes())
    unfinished = json_of("report", str(tmp_path))
    assert "training is not finished" in unfinished["missing"]["curve"]
    assert "certgcl certify --run" in unfinished["missing"]["values"]
    assert run("report", str(tmp_path)).stdout.count("certgcl certify --run") == 1
    for name in ("encoder.npz", "certificate.npz"):
        (tmp_path / name).write_bytes((target / name).read_bytes())
    (tmp_path / "source.json").write_text(json.dumps({"graph": str(tmp_path / "gone.pt")}))
    moved = json_of("report", str(tmp_path))
    assert "could not be loaded" in moved["missing"]["degrees"]
    there = json_of("report", str(tmp_path), "--graph", str(folder / "graph.pt"), "--sample", "2")
    assert there["missing"] == {}


def test_wrong_input_is_refused_by_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder / "a <b>run</b>"
    missing = run("report", "no-such-run")
    assert (missing.exit_code, "does not exist" in plain(missing.stderr)) == (2, True)
    both = run("report", str(target), "--dataset", "karate", "--graph", str(folder))
    assert (both.exit_code, "pass one of the two" in plain(both.stderr)) == (2, True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("no certificate")
    for path, kind, words in ((tmp_path / "empty", "ReportError", "neither config.json nor certificate.npz"),
                              (tmp_path / "text.npz", "CertificateError", "it must be a whole file"),
                              (target / "encoder.npz", "CertificateError", "certgcl-certificate-1")):
        result = run("report", str(path), "--json")
        assert result.exit_code == 1
        assert kind in result.stderr
        assert words in result.stderr
        assert json.loads(result.stdout)["error"]["type"] == kind
    other = run("report", str(target), "--dataset", "les-miserables", "--sample", "0")
    assert (other.exit_code, "34 nodes beside a graph with 77" in other.stderr) == (1, True)
    (tmp_path / "empty" / "manifest.json").write_text("{}")
    shards = run("report", str(tmp_path / "empty"))
    assert (shards.exit_code, "certgcl merge" in shards.stderr) == (1, True)
    for name in [name for name in sys.modules if name.startswith(("certgcl.report", "matplotlib"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    bare = run("report", str(target))
    assert (bare.exit_code, "certgcl[report]" in bare.stderr) == (1, True)


def test_help_has_examples() -> None:
    assert "certgcl report runs/digits-grace-degree-fast-0" in plain(run("report", "--help").stdout)
