"""What is written is true: code runs as printed, commands exist, links lead somewhere, figures draw, the site builds.

The blocks of a page run in their order, in one namespace and one folder. A ``text`` block right below a ``python`` one
is what it prints. Of ``sh`` blocks every command is checked, and those on small embedded graphs are run.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

import certgcl
from certgcl.cli import app
from certgcl.datasets import DATASETS
from tests.cli import run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
LONG = ("demo", "reproduce")  # commands that take minutes whatever the graph


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
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(block.code, f"{_name(page)}: {block.code.splitlines()[0]}", "exec"), names)
            printed = output.getvalue()
        elif block.language == "sh":
            for line in block.code.replace("\\\n", " ").splitlines():
                obey(shlex.split(line, comments=True))
        elif block.language == "text" and block.follows:
            assert alike(block.code, printed), f"{_name(page)} shows\n{block.code}\nbut this is printed:\n{printed}"
        else:
            assert block.language in ("text", ""), f"{_name(page)}: a block in {block.language!r} is run by no test"


def alike(shown: str, printed: str) -> bool:
    """The same words, and about the same numbers: those of a training differ a little between machines."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(float(b.replace(",", "")) == pytest.approx(float(a.replace(",", "")), rel=0.2, abs=0.05)
               for a, b in pairs)


# -- commands --------------------------------------------------------------------------------------


def obey(words: list[str]) -> None:
    """Check a command line; run it if it is one of certgcl's on a small embedded graph."""
    match words:
        case ["make", target]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(), words
        case ["certgcl", command, *arguments]:
            parse([command, *arguments])
            if is_cheap(command, arguments):
                result = run(command, *arguments)
                assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
        case ["torchrun", *_]:
            parse(words[words.index("certgcl") + 1 :])
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module) is not None, words


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
    if command == "train":
        large.append("digits")
    return command not in LONG and not any(name in word for name in large for word in arguments)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    obey(["certgcl", "certify", "--run", "runs/Cora-grace-none-0", "--budget", "0.4"])
    for wrong in (["certgcl", "certfy"], ["certgcl", "certify", "--budgets", "0.4"], ["make", "tests"],
                  ["python", "-m", "benchmarks.nothing"]):
        with pytest.raises(Exception, match=r"certfy|budgets|tests|nothing"):
            obey(wrong)


def test_another_output_is_noticed() -> None:
    assert alike("positive 68 of 77 (88.3 %)\n", "positive  69 of 77 (89.6 %)\n")
    assert not alike("positive 68 of 77\n", "positive 40 of 77\n")
    assert not alike("Pontmercy 0.04\n", "Mabeuf 0.04\n")


# -- links, figures and the site -------------------------------------------------------------------


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site, built as ``make docs`` does."""
    pytest.importorskip("mkdocs", reason="the site is built with the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT,
                           env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_needs_no_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^\"'>\s]+", page.read_text())
        assert [tag for tag in loaded if "canonical" not in tag] == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    reference = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in certgcl.__all__:
        if name != "__version__":
            assert f'id="certgcl.{name}"' in reference, name


def test_the_reference_has_every_command(site: Path) -> None:
    reference = (site / "reference" / "command_line.html").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"certgcl {name}" in reference, name
