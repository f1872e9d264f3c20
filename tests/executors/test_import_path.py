"""Processes that certgcl starts import what this one imports, and nothing from the current folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import certgcl
from certgcl.executors.import_path import importable, without_current_folder
from tests.hostile import has_run, hostile_folder
from tests.toys import random_graph, toy_network

HOME = Path(certgcl.__file__).parents[1]
SEARCH = """
import torch, certgcl
from certgcl.bounds import BranchAndBound
print("once")
weights, graph = certgcl.GraphNetwork.load({weights!r}), certgcl.load_graph({graph!r})
print(certgcl.node_compactness(weights, graph, 1, method=BranchAndBound(workers=2)).exact.all().item())
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return hostile_folder(tmp_path / "hostile")


@pytest.fixture
def search(tmp_path: Path) -> Path:
    """A script without a guard around its main part, which searches in two processes."""
    weights, graph = toy_network().save(tmp_path / "weights.npz"), tmp_path / "graph"
    certgcl.save_graph(graph, random_graph(nodes=9, density=0.5))
    script = tmp_path / "script" / "search.py"
    script.parent.mkdir()
    script.write_text(SEARCH.format(weights=str(weights), graph=str(graph)))
    return script


def python(*arguments: str, folder: Path, path: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        text=True,
        capture_output=True,
        check=False,
        env=surroundings | {"PYTHONPATH": f"{HOME}{path}"} | environment,
    )


def test_a_script_without_a_guard_runs_once_and_its_workers_see_no_current_folder(search: Path, hostile: Path) -> None:
    result = python(str(search), folder=hostile)
    assert (result.returncode, result.stdout) == (0, "once\nTrue\n"), result.stderr
    assert has_run(hostile) == []


def test_a_path_that_names_the_current_folder_does_not_reach_workers(search: Path, hostile: Path) -> None:
    """Set late, as in a notebook or a shell: this process has imported what it needs."""
    late = (
        f"import os, sys; sys.path[:0] = ['', '.', {str(hostile)!r}, {f'{hostile}/../hostile'!r}]; "
        "os.environ['PYTHONPATH'] = '.' + os.pathsep + os.environ['PYTHONPATH']"
    )
    search.write_text(search.read_text().replace('print("once")', late))
    result = python(str(search), folder=hostile)
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr
    assert has_run(hostile) == []


@pytest.fixture
def exact(search: Path) -> list[str]:
    """``certgcl certify`` with a search."""
    files = search.parents[1]
    return [
        "certify",
        "--graph",
        str(files / "graph"),
        "--weights",
        str(files / "weights.npz"),
        "--budget",
        "1",
        "--method",
        "exact",
        "--out",
        str(files / "out"),
        "--json",
    ]


WITH_WORKERS = (
    "import certgcl.bounds.exact.method as m; m.ANCHORS_PER_WORKER = 1; import torch; "
    "torch.set_num_threads(2); import sys; from certgcl.cli import main; sys.exit(main())"
)


def test_the_command_imports_nothing_from_the_current_folder(exact: list[str], hostile: Path) -> None:
    """As the console script starts: by a file elsewhere, so that its folder is the one on the path."""
    script = hostile.parent / "bin" / "certgcl"
    script.parent.mkdir()
    script.write_text(WITH_WORKERS)
    result = python(str(script), *exact, folder=hostile)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["certificate"]["exact"] == 9
    assert has_run(hostile) == []


def test_python_m_leaves_the_current_folder_out_when_asked_to(exact: list[str], hostile: Path) -> None:
    """Without ``-P`` it has it first on its path, by Python's own rule, before certgcl has a say."""
    result = python("-P", "-m", "certgcl", *exact, folder=hostile)
    assert result.returncode == 0, result.stderr
    assert has_run(hostile) == []


def test_workers_load_this_certgcl_though_it_lies_in_the_current_folder(search: Path) -> None:
    result = python(str(search), folder=HOME)
    assert (result.returncode, result.stdout) == (0, "once\nTrue\n"), result.stderr


def test_what_can_be_imported_are_folders_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "within").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(
        sys,
        "path",
        ["", ".", "within", "..", str(tmp_path), str(tmp_path / "link"), str(tmp_path / "within"), "/elsewhere", 7],
    )
    assert importable() == [str(tmp_path / "within"), "/elsewhere", str(HOME)]


def test_a_current_folder_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert importable() == ["/elsewhere", str(HOME)]


def test_path_and_variables_are_put_back_by_whoever_leaves_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", str(HOME)])
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    first, second = without_current_folder(), without_current_folder()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert "" not in sys.path
    assert "PYTHONPATH" not in os.environ
    second.__exit__(None, None, None)
    assert sys.path == ["", str(HOME)]
    assert (os.environ["PYTHONPATH"], os.environ.get("PYTHONSAFEPATH")) == (".", None)


CACHE = (
    "from certgcl.bounds.compiled.kernels import row_lemma; import numba; "
    "print(numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES, row_lemma.minima.stats.cache_path)"
)


def test_kernels_are_not_taken_from_a_folder_that_the_current_one_names(tmp_path: Path) -> None:
    """Numba reads settings from a file in the current folder, and what it keeps on disk is unpickled."""
    pytest.importorskip("numba")
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: kept\ncache_locator_classes: unlucky.Locator\n")
    result = python("-P", "-c", CACHE, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    kept = [line.strip() for line in result.stdout.splitlines()]
    assert kept == [str(HOME / "certgcl/bounds/compiled/kernels/__pycache__")]
    own = python("-P", "-c", CACHE, folder=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "mine"))
    assert own.stdout.splitlines()[-1].strip().startswith(str(tmp_path / "mine")), own.stderr
