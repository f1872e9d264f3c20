"""What all commands have in common: help, devices, seeds, usage errors, and a script that answers at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import certgcl_command
from certgcl import __version__
from certgcl.cli import app
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
    return subprocess.run([sys.executable, "-c", before + SCRIPT, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"})


@pytest.mark.parametrize("words", [[], *([name] for name in certgcl_command.COMMANDS),
                                   *(["reproduce", name] for name in EXPERIMENTS)], ids="-".join)
def test_h_is_help(words: list[str]) -> None:
    short, full = run(*words, "-h"), run(*words, "--help")
    assert (short.exit_code, short.stdout) == (0, full.stdout)
    assert "Usage" in plain(full.stdout)


def test_the_script_lists_what_the_commands_say_of_themselves() -> None:
    commands = typer.main.get_command(app).commands
    assert {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in commands.items()} == (
        certgcl_command.COMMANDS)


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("--version",)])
def test_the_script_answers_without_torch(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    found = script(*words, before=LOADED)
    *answer, loaded = found.stdout.splitlines()
    assert loaded == "[]"
    whole = subprocess.run([sys.executable, "-m", "certgcl", *words], capture_output=True, text=True, check=False,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert found.returncode == whole.returncode
    assert [line for line in answer if "Usage" not in line] == [
        line for line in whole.stdout.splitlines() if "Usage" not in line]
    if words == ("--version",):
        assert answer == [__version__]


def test_the_script_runs_the_commands() -> None:
    found = script("datasets", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["datasets"]


@pytest.mark.parametrize("words", [
    ["train"], ["train", "--dataset", "karate", "--colour", "red"], ["certify"], ["nowhere"], ["merge"], ["--colour"],
    ["train", "--dataset", "karate", "--kappa", "2"], ["reproduce", "nowhere"], ["audit", "--budget", "-1"]])
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
        str(Path("runs", f"karate-grace-none-{seed}")) for seed in (0, 1)]
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
    for words in (TRAIN, ("evaluate", "run"), ("certify", "--run", "run", "--budget", "1"), ("demo",),
                  ("audit", "--run", "run", "--budget", "1")):
        for device in ("cuda:99", "meta", "warp"):
            refused = run(*words, "--device", device)
            assert (refused.exit_code, "device=" in refused.stderr) == (1, True), words
    assert not Path("runs").exists()
