"""What is written is true: code runs as printed, commands exist, links lead somewhere, figures draw.

The blocks of a page run in their order, in one namespace and one folder. A ``text`` block right below a ``python`` one
is what it prints; another one is the table of the demo or of the audit, or lists files that the page has made. Of
``sh`` blocks every command is checked, and those on small embedded graphs are run. Examples in docstrings run too.
"""

import ast
import contextlib
import importlib.util
import inspect
import io
import linecache
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import typer.main
import yaml
from sklearn.linear_model import LogisticRegression

import certgcl
from benchmarks import tables
from certgcl.bounds import SEARCHES
from certgcl.cli import app, demo
from certgcl.graphs.datasets import DATASETS, GRAPH_SETS
from tests.cli.running import run
from verification.audit import CERTIFIED, KERNELS, MODULES, UNCERTIFIED, Ledger

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED_COMMAND = re.compile(r"^(?: {4}|\t)\s*(?:\$ )?(?:python|certgcl|pip|make|torchrun|pytest) .*$", re.MULTILINE)
EXAMPLE = re.compile(r"^Examples?::\n\n(?P<code>(?:(?: {4}.*)?(?:\n|\Z))+)", re.MULTILINE)
DRAWN_PATH = re.compile(r"\b[a-z]\w*/[\w/]*(?:\.py)?")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
LONG = ("demo", "reproduce", "explore")  # commands that take minutes whatever the graph, or open a window


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        follows: whether nothing but white space is between it and the block before.
    """

    language: str
    code: str
    follows: bool


def blocks(page: Path) -> Iterator[Block]:
    text, end = page.read_text(encoding="utf-8"), 0
    for match in FENCE.finditer(text):
        yield Block(match["language"], match["code"], not text[end : match.start()].strip())
        end = match.end()


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# -- code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=_name)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.language == "python":
            file, lines = f"{_name(page)}: {block.code.splitlines()[0]}", block.code.splitlines(keepends=True)
            linecache.cache[file] = len(block.code), None, lines, file  # as a notebook does: models are read by source
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(block.code, file, "exec"), names)
            printed = output.getvalue()
        elif block.language == "sh":
            for line in block.code.replace("\\\n", " ").splitlines():
                obey(shlex.split(line, comments=True))
        elif block.language == "text" and block.follows:
            assert alike(block.code, printed), f"{_name(page)} shows\n{block.code}\nbut this is printed:\n{printed}"
        elif block.language == "text":
            compare(block.code, tmp_path)
        elif block.language == "bibtex":
            check_reference(block.code)
        else:
            raise AssertionError(f"{_name(page)}: a block in {block.language!r} is run by no test")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_is_in_a_block_that_is_run(page: Path) -> None:
    assert INDENTED_COMMAND.findall(FENCE.sub("", page.read_text(encoding="utf-8"))) == []


def alike(shown: str, printed: str) -> bool:
    """The same words, and about the same numbers: those of a training differ a little between machines."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(
        float(b.replace(",", "")) == pytest.approx(float(a.replace(",", "")), rel=0.2, abs=0.05) for a, b in pairs
    )


# -- outputs ---------------------------------------------------------------------------------------


def compare(shown: str, folder: Path) -> None:
    """Check what is shown without the code that prints it."""
    if "any drop of" in shown:
        assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed_by_the_demo()).split()
    elif "violations" in shown:
        header, *rows = shown.splitlines()
        assert header.split() == Ledger().lines()[0].split()
        for row in rows:
            check_row_of_the_audit(row)
    elif "▶" in shown:
        assert all((ROOT / "certgcl" / path).exists() for path in DRAWN_PATH.findall(shown)), DRAWN_PATH.findall(shown)
    else:
        made = {path.name for path in folder.rglob("*")}
        assert {line.split()[0] for line in shown.splitlines()} <= made


def check_reference(entry: str) -> None:
    """What a page asks people to cite is what ``CITATION.cff`` says."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"][0]
    fields = dict(re.findall(r"(\w+)\s+= {(.*)}", entry))
    assert fields["title"] == citation["title"]
    assert fields["author"].split(" and ") == [f"{a['family-names']}, {a['given-names']}" for a in citation["authors"]]
    assert fields["year"] == str(citation["year"])


def printed_by_the_demo() -> str:
    """The table of ``certgcl demo``, from a shorter training on a smaller graph."""
    with mock.patch.dict(demo.__globals__, DATASET="karate"):
        result = run("demo", "--epochs", "2")
    assert result.exit_code == 0, result.output
    return result.stdout.replace("karate", "digits")


def check_row_of_the_audit(row: str) -> None:
    name, cases, nodes, violations, drop = row.rsplit(maxsplit=4)
    bridge = (ROOT / "verification" / "test_against_lirpa.py").read_text(encoding="utf-8")
    bounds = {
        *CERTIFIED,
        *SEARCHES,
        *(f"{bound}, both views" for bound in CERTIFIED),
        *(f"{bound} (without kernels)" for bound in KERNELS),
        *re.findall(r'"(LiRPA [\w-]+)"', bridge),
        MODULES,
    }
    assert name in bounds | {f"{score} (not a bound)" for score in UNCERTIFIED}
    assert int(nodes) > int(cases) > 0
    assert (int(violations) == 0) == (name in bounds), "what is violated is no bound"
    assert (float(drop) >= 1) == (name in bounds), "a bound drops as far as the truth, or further"


def test_a_table_that_is_not_printed_is_noticed(tmp_path: Path) -> None:
    header = Ledger().lines()[0]
    compare(f"{header}\ndegree 800 3327 0 1.23\npaper (not a bound) 800 3327 491 0.79\n", tmp_path)
    for wrong in (
        f"{header}\ndegrees 800 3327 0 1.23",
        f"{header}\ndegree 800 3327 1 1.23",
        "method violations\ndegree 800 3327 0 1.23",
        "digits: any drop of nothing",
        "missing.npz  a file",
    ):
        with pytest.raises(AssertionError):
            compare(wrong, tmp_path)


# -- examples in docstrings ------------------------------------------------------------------------


def examples(docstring: str | None) -> Iterator[str]:
    for match in EXAMPLE.finditer(docstring or ""):
        yield textwrap.dedent(match["code"])


def public_examples() -> dict[str, str]:
    """The examples of all that ``import certgcl`` gives, members included, by name."""
    found = {}
    for name in certgcl.__all__:
        thing = getattr(certgcl, name)
        members = vars(thing).items() if inspect.isclass(thing) or inspect.ismodule(thing) else ()
        for path, member in [(name, thing), *((f"{name}.{key}", member) for key, member in members if key[0] != "_")]:
            for code in examples(inspect.getdoc(member)):
                found.setdefault(code, path)
    return {path: code for code, path in found.items()}


def small_citations() -> Any:
    """The karate club with as many features as Cora, and its masks."""
    data = certgcl.load_dataset("karate")
    data.x = (torch.rand(data.num_nodes, 1433) < 0.01).float()
    place = torch.arange(data.num_nodes) % 3
    data.train_mask, data.val_mask, data.test_mask = place == 0, place == 1, place == 2
    return data


@pytest.mark.parametrize(("path", "code"), public_examples().items(), ids=public_examples())
def test_an_example_of_the_public_api_runs(
    path: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small_citations()
    encoder = certgcl.GCNEncoder(1433, 8, 4).eval()
    z = encoder(data.x, data.edge_index).detach()
    names = {name: getattr(certgcl, name) for name in certgcl.__all__} | {
        "certgcl": certgcl,
        "LogisticRegression": LogisticRegression,
        "data": data,
        "y": data.y,
        "train": data.train_mask,
        "test": data.test_mask,
        "graph": certgcl.Graph.of(data),
        "encoder": encoder,
        "view1": data.edge_index,
        "view2": data.edge_index,
        "infonce": torch.zeros(()),
        "z": z,
        "embeddings": z,
        "probe": LogisticRegression().fit(z[data.train_mask], data.y[data.train_mask]),
        "w1": torch.rand(1433, 8),
        "b1": torch.zeros(8),
        "w2": torch.rand(8, 4),
        "b2": torch.zeros(4),
    }
    load = certgcl.load_dataset
    monkeypatch.setattr(certgcl, "load_dataset", lambda name: data if name in DATASETS else load(name))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, path, "exec"), names)


def test_every_example_uses_public_names_alone() -> None:
    seen = 0
    for module in (ROOT / "certgcl").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for code in examples(ast.get_docstring(node)):
                    seen += 1
                    used = [
                        part.attr
                        for part in ast.walk(ast.parse(code))
                        if isinstance(part, ast.Attribute)
                        and isinstance(part.value, ast.Name)
                        and part.value.id == "certgcl"
                    ]
                    assert set(used) <= set(certgcl.__all__), f"{module}: {code}"
    assert seen >= len(public_examples()) > 0


# -- commands --------------------------------------------------------------------------------------


def obey(words: list[str]) -> None:
    """Check a command line; run it if it is one of certgcl's on a small embedded graph."""
    match words:
        case []:
            pass
        case ["make", target]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(), words
        case ["certgcl", command, *arguments]:
            parse([command, *arguments])
            if is_cheap(command, arguments):
                result = run(command, *arguments)
                assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
        case ["ray", "start", *_]:
            pass  # on machines of a cluster; tests/executors/test_ray.py has one
        case ["torchrun", *_]:
            parse(words[words.index("certgcl") + 1 :])
        case ["python", "-m", "pytest", *arguments]:
            paths = [word for word in arguments if not word.startswith("-")]
            assert all((ROOT / path).exists() for path in paths), words
        case ["python", "-m", module, *arguments]:
            assert importlib.util.find_spec(module) is not None, words
            sources = "".join(path.read_text() for path in (ROOT / module.partition(".")[0]).rglob("*.py"))
            assert all(f'"{word}"' in sources for word in arguments if word.startswith("--")), words
        case ["pip", "install", "-e", what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            named = re.fullmatch(r"\.(?:\[([\w,]+)\])?", what)
            assert named is not None, words
            assert set((named[1] or "").split(",")) <= {"", *extras}, words
        case _:
            raise AssertionError(f"no test for {words}")


def parse(words: list[str]) -> None:
    """Fails on a command, an option or a number of arguments that the command line does not know."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("certgcl", [], resilient_parsing=True)
    while hasattr(command, "commands") and words[0] != "--help":
        assert words[0] in command.commands, f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    command.make_parser(context).parse_args(list(words))


def is_cheap(command: str, arguments: list[str]) -> bool:
    large = [name for name, info in DATASETS.items() if info.kind == "paper"] + ["$"]
    large += [name for name, info in GRAPH_SETS.items() if info.folder]
    if command == "train":
        large.append("digits")
    return (
        command not in LONG and "ray" not in arguments and not any(name in word for name in large for word in arguments)
    )


def test_a_command_that_does_not_exist_is_noticed() -> None:
    obey(["certgcl", "certify", "--run", "runs/Cora-grace-none-0", "--budget", "0.4"])
    for wrong in (
        ["certgcl", "certfy"],
        ["certgcl", "certify", "--budgets", "0.4"],
        ["make", "tests"],
        ["python", "-m", "benchmarks.nothing"],
        ["python", "-m", "benchmarks.tables", "--nothing"],
        ["python", "-m", "pytest", "tests/nothing.py"],
        ["pip", "install", "-e", ".[nothing]"],
        ["pip", "install", "nothing"],
        ["nothing"],
    ):
        with pytest.raises(Exception, match=r"certfy|budgets|tests|nothing"):
            obey(wrong)


def test_another_output_is_noticed() -> None:
    assert alike("positive 68 of 77 (88.3 %)\n", "positive  69 of 77 (89.6 %)\n")
    assert not alike("positive 68 of 77\n", "positive 40 of 77\n")
    assert not alike("Pontmercy 0.04\n", "Mabeuf 0.04\n")


# -- links, figures and tables -------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", ["degree_exact", "counterexamples"])
def test_a_figure_draws(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    importlib.import_module(f"docs.figures.{name}").main(tmp_path)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn
    for figure in drawn:
        assert (ROOT / "docs" / "figures" / figure).exists()


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_measured_tables_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.rewritten(text) == text
