"""A run folder from somebody else: it runs nothing, reads nothing that it should not, and writes nowhere else."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import certgcl
from certgcl.cli.run_folders import GraphSource
from certgcl.errors import CheckpointError
from certgcl.files.atomic import save_sealed_json
from certgcl.learning.training import train
from tests.cli.running import json_of, run
from tests.graphs.datasets.test_datasets import write_wikics
from tests.learning.training.tiny_session import CONFIG, seeded

COMMANDS = (("report",), ("evaluate",), ("certify", "--budget", "1", "--run"), ("audit", "--budget", "1", "--run"))


class Code:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("ran"),)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a graph in a folder, and both."""
    folder = tmp_path_factory.mktemp("hostile")
    certgcl.save_graph(folder / "graph", certgcl.load_dataset("karate"))
    json_of(
        "train", "--graph", str(folder / "graph"), "--epochs", "2", "--set", "hidden=8", "--out", str(folder / "run")
    )
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, in an empty folder."""
    shutil.copytree(trained / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sealed_source(folder: Path, **changes: Any) -> None:
    """``source.json`` by somebody who knows how to seal it."""
    path = folder / "run" / "source.json"
    content = {name: value for name, value in json.loads(path.read_text()).items() if name != "checksum"}
    save_sealed_json(path, content | changes)


# -- code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_run_folder_cannot_name_the_folder_of_pickles(
    here: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planetoid's files are pickles: a root in the run folder would be a way to run them."""
    monkeypatch.setenv("CERTGCL_DATA", str(here / "data"))
    monkeypatch.setenv("CERTGCL_CACHE", str(here / "cache"))
    monkeypatch.setattr(certgcl.graphs.datasets.paper.SafePlanetoid, "url", (here / "nowhere").as_uri())
    raw = here / "run" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for name in certgcl.graphs.datasets.DATASETS["Cora"].files:
        (raw / name).write_bytes(pickle.dumps(Code()))
    old = {"dataset": "Cora", "graph": None, "root": str(here / "run")}
    (here / "run" / "source.json").write_text(json.dumps(old))
    refused = run(*command, "run")
    assert (refused.exit_code, "CheckpointError" in refused.stderr) == (1, True)
    for root in (str(here / "run"), "run"):
        sealed_source(
            here, format="certgcl-source-2", dataset="Cora", root=root, sha256={"edges": "0", "features": "0"}
        )
        result = run(*command, "run")
        assert result.exit_code == 1 or "could not be loaded" in result.stdout
        assert "Traceback" not in result.stderr
    assert not (here / "ran").exists()


@pytest.mark.parametrize(
    "name", ["method.pt", "checkpoint.pt", "encoder.npz", "config.json", "source.json", "history.jsonl", "graph.pt"]
)
@pytest.mark.parametrize("protocol", [0, 5])
def test_no_file_of_a_run_is_unpickled(here: Path, name: str, protocol: int) -> None:
    (here / "run" / name).write_bytes(pickle.dumps(Code(), protocol))
    if name == "graph.pt":
        torch.save(Code(), here / "run" / name)
        sealed_source(here, graph=str(here / "run" / name))
    for command in COMMANDS:
        run(*command, "run")
    run("train", "--dataset", "karate", "--epochs", "3", "--out", "run", "--resume")
    assert not (here / "ran").exists()


# -- the graph of a run ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["graph", "../graph", "/a/../etc/passwd", "//server/share", r"\\server\share", "", "/a\0b", 7, ["/a"]]
)
def test_a_graph_is_named_by_its_whole_path(here: Path, path: Any) -> None:
    sealed_source(here, graph=path)
    with pytest.raises(CheckpointError, match=r"source\.json"):
        GraphSource.of_run(here / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "Cora"},
        {"graph": None},
        {"sha256": {}},
        {"sha256": {"edges": "0"}},
        {"dataset": "../Cora", "graph": None},
        {"format": "certgcl-source-1"},
    ],
)
def test_a_source_says_which_graph_and_what_it_holds(here: Path, changes: dict[str, Any]) -> None:
    sealed_source(here, **changes)
    with pytest.raises(CheckpointError, match=r"source\.json"):
        GraphSource.of_run(here / "run")


@pytest.mark.parametrize("part", ["edges", "features", "labels"])
def test_another_graph_than_that_of_the_run_is_refused(trained: Path, here: Path, part: str) -> None:
    data = certgcl.load_dataset("karate")
    if part == "edges":
        data.edge_index = data.edge_index[:, ~((data.edge_index == 0).any(0) & (data.edge_index == 1).any(0))]
    elif part == "features":
        data.x[0, 0] += 1e-6
    else:
        data.y[0] = 1 - data.y[0]
    sealed_source(here, graph=str(certgcl.save_graph(here / "other", data)))
    result = run("evaluate", "run")
    assert (result.exit_code, f"other with other {part}" in result.stderr) == (1, True)
    moved = run("certify", "--run", "run", "--graph", str(here / "other"), "--budget", "1")
    assert moved.exit_code == (0 if part == "labels" else 1)
    assert json_of("evaluate", str(trained / "run"))["protocol"]


def test_the_data_root_is_the_users_to_name_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTGCL_DATA", raising=False)
    monkeypatch.setenv("CERTGCL_CACHE", str(here / "cache"))
    monkeypatch.setattr("torch_geometric.datasets.WikiCS.url", (here / "nowhere").as_uri())
    write_wikics(here / "data" / "WikiCS" / "raw")
    run(
        "train",
        "--dataset",
        "WikiCS",
        "--data-root",
        "data",
        "--epochs",
        "1",
        "--out",
        "wiki",
        "--regularizer",
        "none",
        "--set",
        "hidden=4",
    )  # and no evaluation: there are four nodes
    assert str(here) not in (here / "wiki" / "source.json").read_text()
    lost = run("certify", "--run", "wiki", "--budget", "1")
    assert (lost.exit_code, "CERTGCL_DATA" in lost.stderr) == (1, True)
    assert json_of("certify", "--run", "wiki", "--budget", "1", "--data-root", "data")["missing"] == []


# -- links, names, disks ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["history.jsonl", "config.json", "checkpoint.pt", "tensorboard"])
def test_nothing_is_written_through_a_link_in_a_run_folder(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to(outside if name == "tensorboard" else outside / "file")
    try:
        train(seeded(), 2, folder=folder, config=CONFIG, resume=True)
    except CheckpointError:
        assert name in ("tensorboard", "checkpoint.pt")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == ""


NAMES = [
    "a run with spaces",
    "Läufe ✓ 试验",
    "-dash",
    "CON",
    "x" * 200,
    *([] if os.name == "nt" else ["a:b*c?", "a\nb"]),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    train(seeded(), 2, folder=folder, config=CONFIG)
    assert len(train(seeded(), 3, folder=folder, config=CONFIG, resume=True)) == 3
    graph = certgcl.load_dataset("karate")
    assert certgcl.load_graph(certgcl.save_graph(folder / name, graph)).num_nodes == 34
    path = certgcl.GCNEncoder(3, 4, 2).network().save(folder / f"{name}.npz")
    assert certgcl.GraphNetwork.load(path).layers[0].terms[0].weight.shape == (3, 4)


def test_a_full_disk_leaves_the_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(seeded(), 2, folder=tmp_path, config=CONFIG)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            train(seeded(), 4, folder=tmp_path, config=CONFIG, resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name == "checkpoint.pt"} == {
        "checkpoint.pt": before["checkpoint.pt"]
    }
    assert not list(tmp_path.glob(".*"))
    assert len(train(seeded(), 4, folder=tmp_path, config=CONFIG, resume=True)) == 4


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    train(seeded(), 2, folder=tmp_path, config=CONFIG)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            train(seeded(), 3, folder=tmp_path, config=CONFIG, resume=True)
    finally:
        tmp_path.chmod(0o700)
    assert len(train(seeded(), 3, folder=tmp_path, config=CONFIG, resume=True)) == 3
