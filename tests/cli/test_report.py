"""``certgcl report``: runs and certificates, and the commands that make them again."""

import json
import shlex
import sys
from pathlib import Path

import pytest
import torch

import certgcl
from certgcl import Certificate, Graph
from certgcl.cli.run_folders import GraphSource
from certgcl.graphs.storage import load_data
from tests.cli.running import json_of, plain, run
from tests.report.report_pages import Page, data_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run on a graph with masks, in a folder with an awkward name."""
    folder = tmp_path_factory.mktemp("report")
    karate = certgcl.load_dataset("karate")
    torch.save(data_of(Graph.of(karate)), folder / "graph.pt")
    json_of(
        "train",
        "--graph",
        str(folder / "graph.pt"),
        "--epochs",
        "3",
        "--regularizer",
        "none",
        "--set",
        "hidden=4",
        "--set",
        "drop_rates=0.4,0.2",
        "--certify",
        "--budget",
        "0.4",
        "--out",
        str(folder / "a <b>run</b>"),
    )
    return folder


def test_a_run_has_every_section(folder: Path) -> None:
    target = folder / "a <b>run</b>"
    found = json_of("report", str(target), "--sample", "4")
    assert found["missing"] == {}
    assert found["out"] == str(target / "report.html")
    page = Page((target / "report.html").read_text(encoding="utf-8"))
    certificate = Certificate.load(target / "certificate.npz")
    raised = torch.tensor(page.numbers["values"]["lower"], dtype=torch.float64) - certificate.lower
    assert float(raised.min()) == 0  # by what the page found out itself
    assert page.numbers["summary"]["by_certificate"] == int(certificate.positive.sum())
    assert found["certificate"]["lower_min"] == float(certificate.lower.min())
    assert page.numbers["training"]["epochs"] == 3
    assert "b" not in [tag for tag, number in zip(page.tags, page.tags[1:], strict=False) if number == "h1"]
    assert "a <b>run</b>" in page.text
    assert "round(0.4 × degree)" in page.text
    assert page.numbers["origin"]["seed"] == 0
    assert set(page.numbers["origin"]["versions"]) >= {"certgcl", "torch"}


def test_runs_are_compared(folder: Path) -> None:
    target, page = str(folder / "a <b>run</b>"), folder / "comparison.html"
    found = json_of("report", target, target, "--sample", "4", "--out", str(page))
    assert found["out"] == str(page)
    assert [run["name"] for run in found["runs"]] == ["b> (1)", "b> (2)"]
    assert {each["p"] for each in found["differences"]} == {1.0}
    assert Page(page.read_text(encoding="utf-8")).numbers["runs"] == found["runs"]
    text = run("report", target, target, "--sample", "4", "--out", str(page)).stdout
    assert "b> (2) - b> (1), bound over norm, node by node: +0, p = 1, 34 pairs" in text
    refused = run("report", target, target, "--weights", str(folder / "a <b>run</b>" / "encoder.npz"))
    assert (refused.exit_code, "each of several runs has its own encoder" in plain(refused.stderr)) == (2, True)


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
    assert set(inside["missing"]) == {"curve", "accuracy", "explorer"}
    json_of(*shlex.split(certify.replace(shlex.quote(str(target)), str(again)).replace("0.4", "1"))[1:])
    several = run("report", str(again))
    assert (several.exit_code, "with 2 certificates" in several.stderr) == (1, True)


def test_a_certificate_in_a_run_is_made_again_by_its_own_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    known = {
        "certgcl": certgcl,
        "model": certgcl.GraphNetwork.load(target / "encoder.npz"),
        "graph": certgcl.load_dataset("karate"),
    }
    exec("\n".join([*lines, f"new = {last}"]), known)
    old, new = known["old"], known["new"]
    assert old.nodes.tolist() == new.nodes.tolist() == list(range(3, 8))
    assert torch.equal(old.lower, new.lower)


def test_a_certificate_of_other_directions_is_not_taken_for_compactness(folder: Path, tmp_path: Path) -> None:
    target, margins = folder / "a <b>run</b>", tmp_path / "margins.npz"
    model, graph = certgcl.GraphNetwork.load(target / "encoder.npz"), certgcl.load_dataset("karate")
    directions = torch.ones(34, model.width, dtype=torch.float64)
    certgcl.linear_bounds(model, graph, 2, directions).save(margins)
    json_of(
        "report",
        str(margins),
        "--graph",
        str(folder / "graph.pt"),
        "--weights",
        str(target / "encoder.npz"),
        "--sample",
        "0",
    )
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
    assert "without degrees: The graph is not available" in result.stdout
    assert result.stdout.endswith(f"written to {tmp_path / 'alone.html'}\n")
    whole = json_of(
        "report",
        str(alone),
        "--graph",
        str(folder / "graph.pt"),
        "--weights",
        str(target / "encoder.npz"),
        "--sample",
        "3",
    )
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
    data = load_data(folder / "graph.pt")
    GraphSource(graph=str(tmp_path / "gone.pt")).save(tmp_path, data)
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
    for path, kind, words in (
        (tmp_path / "empty", "ReportError", "neither config.json nor certificate.npz"),
        (tmp_path / "text.npz", "CertificateError", "it must be a whole file"),
        (target / "encoder.npz", "CertificateError", "certgcl-certificate-4"),
    ):
        result = run("report", str(path), "--json")
        assert result.exit_code == 1
        assert kind in result.stderr
        assert words in result.stderr
        assert json.loads(result.stdout)["error"]["type"] == kind
    other = run("report", str(target), "--dataset", "les-miserables", "--sample", "0")
    assert (other.exit_code, "edges (34 nodes, 78 edges there, 77 nodes" in other.stderr) == (1, True)
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
