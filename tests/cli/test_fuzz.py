"""Every command with odd arguments ends in a result or in a message: never in a traceback."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

import certgcl
from certgcl.cli import app
from tests.cli.running import run
from tests.public.fuzz import odd_files
from tests.toys import random_graph

LINES = 200
ODD = (
    "",
    "-1",
    "0",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "abc",
    "0.5",
    "5:2",
    "0:99",
    "99999999999999999999",
    "0/0",
    "1/0",
    "None",
    "True",
    "[]",
    "{}",
    "a=b",
    "=",
    "seed=-1",
    "hidden=True",
    "hidden=[]",
    "drop_rates=0.3",
    "kappa=nan",
    "device=cuda:99",
    "device=meta",
    "epochs=1e3",
    "batch=(",
    "activation=rrelu",
    "regularizer=1",
    "caf\udce9",
    "ü" * 300,
    "9" * 5000,
    "x" * 5000,
    "--",
    "../..",
    "/dev/null",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": (
        "--dataset",
        "--graph",
        "--method",
        "--preset",
        "--regularizer",
        "--kappa",
        "--anchors",
        "--budget",
        "--seed",
        "--seeds",
        "--device",
        "--set",
        "--out",
        "--data-root",
    ),
    "evaluate": ("", "--against", "--embeddings", "--labels", "--protocol", "--seeds", "--device", "--data-root"),
    "certify": (
        "--budget",
        "--run",
        "--graph",
        "--dataset",
        "--weights",
        "--out",
        "--total",
        "--method",
        "--time-limit",
        "--branch-limit",
        "--view",
        "--nodes",
        "--shards",
        "--shard",
        "--order",
        "--dtype",
        "--memory-limit",
        "--device",
    ),
    "merge": ("",),
    "audit": (
        "--budget",
        "--run",
        "--graph",
        "--dataset",
        "--weights",
        "--total",
        "--method",
        "--nodes",
        "--samples",
        "--searches",
        "--seed",
        "--device",
    ),
    "verify": ("", "--run", "--graph", "--dataset", "--weights", "--nodes", "--data-root"),
    "report": ("", "--out", "--dataset", "--graph", "--weights", "--sample", "--data-root"),
    "datasets": ("--data-root",),
    "demo": ("--epochs", "--seed", "--device"),
    "explore": ("", "--budget", "--epochs", "--seed", "--out"),
    "reproduce": ("", "--dataset", "--methods", "--seeds", "--epochs", "--pairs", "--nodes", "--out"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, an encoder, a certificate, shards, a run, embeddings and labels."""
    folder = tmp_path_factory.mktemp("cli")
    graph = random_graph(nodes=24)
    method = certgcl.GRACE(hidden=4, epochs=1, seed=0)
    certgcl.save_graph(folder / "graph", graph)
    result = run(
        "train",
        "--graph",
        str(folder / "graph"),
        "--regularizer",
        "none",
        "--set",
        "hidden=4",
        "--epochs",
        "1",
        "--out",
        str(folder / "run"),
    )
    assert result.exit_code == 0, result.stderr
    encoder = method.fit(graph).fitted_encoder().network()
    encoder.save(folder / "weights.npz")
    certgcl.certify_shards(encoder, graph, 1, folder / "shards", shards=2)
    certgcl.merge_shards(folder / "shards")
    np.save(folder / "z.npy", np.random.default_rng(0).normal(size=(24, 3)))
    np.save(folder / "y.npy", np.arange(24) % 2)
    return folder


def valid(command: str, files: Path) -> list[str]:
    """Arguments that a command is content with."""
    encoder = ["--graph", str(files / "graph"), "--weights", str(files / "weights.npz"), "--budget", "1"]
    return {
        "train": ["--graph", str(files / "graph"), "--epochs", "1", "--set", "hidden=4", "--regularizer", "interval"],
        "evaluate": ["--embeddings", str(files / "z.npy"), "--labels", str(files / "y.npy"), "--seeds", "1"],
        "certify": [*encoder, "--out", "out", "--method", "interval"],
        "merge": [str(files / "shards")],
        "audit": [*encoder, "--samples", "2", "--searches", "1"],
        "verify": [str(files / "shards" / "certificate.npz"), *encoder[:4]],
        "report": [str(files / "shards"), "--sample", "0", "--out", "page.html"],
        "datasets": [],
        "explore": ["karate", "--epochs", "1", "--no-browser", "--out", "page.html"],
        "reproduce": ["imbalance", "--dataset", "nowhere"],  # trains nothing
    }.get(command, [])


def odd_lines(files: Path, odd: dict[str, Path], number: int) -> Iterator[list[str]]:
    """Command lines with an option replaced, or added, that has an odd value; options in turn."""
    chance = random.Random(0)
    values = [*ODD, *map(str, odd.values()), *map(str, sorted(files.iterdir()))]
    places = [(command, option) for command, options in COMMANDS.items() for option in options]
    for count in range(number):
        command, option = places[count % len(places)]
        words, value = valid(command, files), chance.choice(values)
        if option in words:
            words[words.index(option) + 1] = value
        elif not option and words and not words[0].startswith("-"):
            words[0] = value
        else:
            words += [option, value] if option else [value]
        yield [command, *(["--json"] if count % 2 and command != "reproduce" else []), *words]


def problem_of(result: Result) -> str | None:
    """What is wrong with the end of a command, if anything."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {str(result.exception)[:200]}"
    if result.exit_code not in (0, 1, 2, 3):
        return f"exit code {result.exit_code}"
    if "Traceback" in result.output:
        return "a traceback"
    if result.exit_code and not result.stderr.strip() and not result.stdout.strip():
        return "no message"
    if len(result.stderr) > 30_000:
        return f"a message of {len(result.stderr)} characters"
    return None


@pytest.mark.filterwarnings("ignore")
def test_no_odd_argument_ends_in_a_traceback(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERTGCL_CACHE", str(tmp_path / "cache"))
    for name, value in (("HTTP_PROXY", "http://127.0.0.1:9"), ("HTTPS_PROXY", "http://127.0.0.1:9")):
        monkeypatch.setenv(name, value)  # nothing is downloaded
    failures, codes = [], dict.fromkeys((0, 1, 2, 3), 0)
    for line in odd_lines(files, odd_files(tmp_path / "odd"), LINES):
        result = run(*line)
        problem = problem_of(result)
        if problem is not None:
            failures.append(f"certgcl {' '.join(word[:60] for word in line)!r}: {problem}")
        else:
            codes[result.exit_code] += 1
    shown = "\n".join(failures[:40])
    assert not failures, f"{len(failures)} of {LINES} command lines:\n{shown}"
    assert sum(codes.values()) == LINES
    assert codes[1] > LINES // 10
    assert codes[2] > LINES // 4


def test_every_command_is_tried() -> None:
    named = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    assert named | {"reproduce"} == set(COMMANDS)


ODD_JSON = (
    "",
    "null",
    "[]",
    "3",
    "{}",
    '"text"',
    '{"format": []}',
    '{"format": null, "config": 3}',
    "NaN",
    "{" * 5000,
    '{"dataset": 3}',
    '{"dataset": ["Cora"]}',
    '{"graph": 5}',
    '{"graph": null, "dataset": null}',
    "\ufeff{}",
    '{"dataset": "karate", "root": 7}',
    '{"versions": 3, "parts": {}}',
    '{"parts": []}',
    '{"shards": 0}',
)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("source.json", ("report", "evaluate", "certify")),
        ("config.json", ("report",)),
        ("history.jsonl", ("report",)),
        ("shards/manifest.json", ("report", "merge")),
    ],
)
def test_odd_json_is_no_end_of_a_command(files: Path, tmp_path: Path, name: str, commands: tuple[str, ...]) -> None:
    """What commands, in turn, make of files that hold other JSON than they should."""
    shutil.copytree(files, tmp_path / "files")
    path = tmp_path / "files" / (name if "/" in name else f"run/{name}")
    texts = [*ODD_JSON, *_changed(path.read_text())]
    failures = []
    for number, text in enumerate(texts):
        path.write_text(text + "\n")
        for line in (
            ["report", str(path.parent), "--sample", "0", "--out", str(tmp_path / "page.html")],
            ["merge", str(path.parent)],
            ["evaluate", str(path.parent), "--seeds", "1"],
            [
                "certify",
                "--run",
                str(path.parent),
                "--budget",
                "1",
                "--method",
                "interval",
                "--out",
                str(tmp_path / "out"),
            ],
        ):
            problem = problem_of(run(*line)) if line[0] == commands[number % len(commands)] else None
            if problem is not None:
                failures.append(f"{line[0]} with {text[:80]!r}: {problem}")
    assert not failures, "\n".join(failures[:40])


def _changed(text: str) -> Iterator[str]:
    """The same JSON with each value, at any depth, replaced by others in turn."""
    try:
        content = json.loads(text)
    except ValueError:  # a record per line
        content = json.loads(text.splitlines()[0])
    others = (None, [], {}, "text", -1, 1e308, True)
    for place in range(_leaves(content)):
        for shift in (0, 3):
            yield json.dumps(_replaced(content, place, others[(place + shift) % len(others)])[0])


def _leaves(content: object) -> int:
    inside = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return 1 + sum(map(_leaves, inside))


def _replaced(content: object, place: int, other: object) -> tuple[object, int]:
    """The content with the value at a place (counted in depth first) replaced, and the places that are left."""
    if place == 0:
        return other, -1
    place -= 1
    if isinstance(content, dict):
        changed: dict[str, object] = {}
        for key, value in content.items():
            changed[key], place = _replaced(value, place, other) if place >= 0 else (value, place)
        return changed, place
    if isinstance(content, list):
        values: list[object] = []
        for value in content:
            one, place = _replaced(value, place, other) if place >= 0 else (value, place)
            values.append(one)
        return values, place
    return content, place


def test_a_name_that_is_no_utf8_is_a_name(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = "caf\udce9"
    for line in (
        ["train", *valid("train", files), "--out", out, "--certify"],
        ["report", out, "--sample", "0"],
        ["certify", *valid("certify", files)[:-4], "--out", f"{out}-2"],
    ):
        result = run(*line)
        assert result.exit_code == 0, result.stderr
    assert json.loads(Path(out, "result.json").read_text())["out"] == out
