"""What all commands have in common: help, devices, seeds, usage errors, and a script that answers at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import certgcl_command
from certgcl import __version__
from certgcl.cli import app
from certgcl.cli.described import FILE, describe, written
from certgcl.experiments import EXPERIMENTS
from tests.cli.running import json_of, plain, run

ROOT = Path(certgcl_command.__file__).parent
TRAIN = ("train", "--dataset", "karate", "--regularizer", "none", "--set", "hidden=4", "--epochs", "1")
SCRIPT = "import certgcl_command, sys; sys.argv = ['certgcl', *sys.argv[1:]]; certgcl_command.main()"
LOADED = """
import atexit, sys
heavy = {"certgcl", "torch", "torch_geometric", "sklearn", "numpy"}
atexit.register(lambda: print(sorted(heavy & set(sys.modules))))
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", before + SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
    )


COMMANDS = [[], *([name] for name in describe(app)), *(["reproduce", name] for name in EXPERIMENTS)]


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_h_is_help(words: list[str]) -> None:
    short, full = run(*words, "-h"), run(*words, "--help")
    assert (short.exit_code, short.stdout) == (0, full.stdout)
    assert "Usage" in plain(full.stdout)


def test_the_script_knows_the_commands_as_they_are() -> None:
    remedy = "run python -m certgcl.cli.described"
    assert FILE.read_text(encoding="utf-8") == written(app), remedy


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_help_of_the_script_is_that_of_the_commands(words: list[str]) -> None:
    light, whole = (
        CliRunner().invoke(each, [*words, "-h"], prog_name="certgcl", env={"COLUMNS": "100"})
        for each in (certgcl_command.described(), app)
    )
    assert light.exit_code == 0
    assert light.stdout == whole.stdout


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("--version",), ("certify", "-h")])
def test_the_script_answers_without_torch(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    found = script(*words, before=LOADED)
    *answer, loaded = found.stdout.splitlines()
    assert loaded == "[]"
    whole = subprocess.run(
        [sys.executable, "-m", "certgcl", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert found.returncode == whole.returncode
    assert [line for line in answer if "Usage" not in line] == [
        line for line in whole.stdout.splitlines() if "Usage" not in line
    ]
    if words == ("--version",):
        assert answer == [__version__]


def test_an_h_that_is_a_value_is_no_question() -> None:
    found = script("certify", "--budget", "-h", "--graph", ".", "--weights", "none.npz", "--json")
    assert found.returncode == 2
    assert "none.npz" in found.stderr or "none.npz" in found.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("certgcl cert", ["certify"]),
        ("certgcl certify --time", ["--time-limit"]),
        ("certgcl reproduce de", ["degree"]),
        ("certgcl certify --order ", ["near", "given"]),
        ("certgcl train --method g", ["grace", "gca", "graphcl"]),
        ("certgcl train --dataset Co", ["Cora", "Computers"]),
        ("certgcl train --regularizer no", ["none"]),
        ("certgcl certify --method opt", ["optimized"]),
        ("certgcl certify --executor p", ["processes"]),
        ("certgcl reproduce degree --dataset C", ["Cora", "CiteSeer", "Computers"]),
        ("certgcl explore l", ["les-miserables"]),
    ],
)
def test_a_shell_completes_words_without_torch(words: str, found: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED + SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_CERTGCL_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
    )
    *answers, loaded = done.stdout.splitlines()
    assert (answers, loaded) == (found, "[]")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed_on_request(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # else it is the shell that runs the tests
    found = script("--show-completion", shell, before=LOADED)
    assert found.returncode == 0
    assert "_CERTGCL_COMPLETE" in found.stdout
    assert found.stdout.splitlines()[-1] == "[]"


def test_the_script_runs_the_commands() -> None:
    found = script("datasets", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["datasets"]


@pytest.mark.parametrize(
    "words",
    [
        ["train"],
        ["train", "--dataset", "karate", "--colour", "red"],
        ["certify"],
        ["nowhere"],
        ["merge"],
        ["--colour"],
        ["train", "--dataset", "karate", "--kappa", "2"],
        ["reproduce", "nowhere"],
        ["audit", "--budget", "-1"],
    ],
)
def test_wrong_usage_is_json_too(words: list[str]) -> None:
    result = run(*words, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "UsageError"
    assert error["found"]
    assert plain(result.stderr)
    quiet = run(*words)
    assert (quiet.exit_code, quiet.stdout) == (2, "")


def test_several_seeds_are_several_runs() -> None:
    found = json_of(*TRAIN, "--seeds", "0,3", "--out", "five")
    assert [one["seed"] for one in found["runs"]] == [0, 3]
    assert [one["out"] for one in found["runs"]] == [str(Path("five", "seed-0")), str(Path("five", "seed-3"))]
    values = [value for one in found["runs"] for value in one["evaluation"]["micro"]]
    assert found["evaluation"]["micro"] == values
    alone = json_of(*TRAIN, "--seed", "3", "--out", "alone")
    assert alone["evaluation"] == found["runs"][1]["evaluation"]
    assert [one["out"] for one in json_of(*TRAIN, "--seeds", "2")["runs"]] == [
        str(Path("runs", f"karate-grace-none-{seed}")) for seed in (0, 1)
    ]
    again = run(*TRAIN, "--seeds", "0,3", "--out", "five", "--resume")
    assert again.exit_code == 0
    assert "all seeds: " in again.stdout


@pytest.mark.parametrize("seeds", ["0", "1,1", "one", "", "-1", "9" * 40])
def test_seeds_that_are_none_are_wrong_usage(seeds: str) -> None:
    assert run(*TRAIN, "--seeds", seeds).exit_code == 2
    assert not Path("runs").exists()


def test_a_device_is_named_by_an_option() -> None:
    json_of(*TRAIN, "--out", "run", "--device", "cpu", "--certify")
    assert '"device": "cpu"' in Path("run/config.json").read_text()
    on_cpu = ["--device", "cpu"]
    json_of("evaluate", "run", *on_cpu)
    json_of("certify", "--run", "run", "--budget", "1", *on_cpu)
    json_of("audit", "--run", "run", "--budget", "1", "--samples", "2", "--searches", "1", *on_cpu)
    for words in (
        TRAIN,
        ("evaluate", "run"),
        ("certify", "--run", "run", "--budget", "1"),
        ("demo",),
        ("audit", "--run", "run", "--budget", "1"),
    ):
        for device in ("cuda:99", "meta", "warp"):
            refused = run(*words, "--device", device)
            assert (refused.exit_code, "device=" in refused.stderr) == (1, True), words
    assert not Path("runs").exists()
