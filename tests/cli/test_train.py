import json
import signal
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import certgcl
from certgcl.cli.progress import TrainingBar
from certgcl.learning.training import Progress
from tests.cli.running import json_of, plain, run

KARATE = ("train", "--dataset", "karate", "--epochs", "4")
OUT = Path("runs/karate-grace-degree-fast-0")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_folder_has_all_that_belongs_to_a_run() -> None:
    result = run(*KARATE, "--certify")
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in OUT.iterdir()} == {
        "config.json",
        "history.jsonl",
        "checkpoint.pt",
        "source.json",
        "method.pt",
        "encoder.npz",
        "result.json",
        "certificate.npz",
    }
    data, method = certgcl.load_dataset("karate"), certgcl.GRACE.load(OUT / "method.pt")
    preset = certgcl.learning.presets.get("grace", "karate")
    assert {name: method.get_params()[name] for name in preset.settings()} == preset.settings() | {"epochs": 4}
    regularizer = method.regularizer
    assert regularizer is not None
    assert (regularizer.kappa, regularizer.anchors) == (preset.kappa, preset.anchors)
    assert regularizer.method == "degree-fast"
    weights = certgcl.GraphNetwork.load(OUT / "encoder.npz")
    torch.testing.assert_close(weights.embed(certgcl.Graph.of(data)), method.transform(data))
    found = json.loads((OUT / "result.json").read_text())
    assert found["evaluation"] == certgcl.evaluate(method.transform(data), data.y).to_dict()
    certificate = certgcl.Certificate.load(OUT / "certificate.npz")
    torch.testing.assert_close(certificate.lower, certgcl.node_compactness(method, data, 1).lower)
    assert found["certificate"]["lower_mean"] == pytest.approx(float(certificate.lower.mean()))
    assert "certgcl" in json.loads((OUT / "config.json").read_text())["versions"]
    assert result.stdout.startswith("GRACE on karate: 4 epochs in ")
    assert result.stdout.endswith(f"written to {OUT}\n")


def test_json_is_what_result_has() -> None:
    assert json_of(*KARATE) == json.loads((OUT / "result.json").read_text())


def test_settings_come_from_options() -> None:
    found = json_of(
        *KARATE,
        "--method",
        "progcl",
        "--regularizer",
        "crown",
        "--kappa",
        "0.2",
        "--anchors",
        "5",
        "--budget",
        "2",
        "--seed",
        "3",
        "--out",
        "other",
        "--set",
        "drop_rates=0.2,0.1",
        "--set",
        "hidden=8",
        "--set",
        "variant=mix",
        "--set",
        "schedule=cosine",
        "--set",
        "scale=None",
        "--set",
        "inside_budget=True",
    )
    method = certgcl.ProGCL.load("other/method.pt")
    assert (method.drop_rates, method.hidden, method.variant, method.seed, method.inside_budget) == (
        (0.2, 0.1),
        8,
        "mix",
        3,
        True,
    )
    assert method.schedule == "cosine"
    settings = {"kappa": 0.2, "method": "crown", "anchors": 5, "budget": 2, "scale": None}
    assert found["regularizer"] | settings == found["regularizer"]
    assert (found["method"], found["seed"], found["epochs"]) == ("ProGCL", 3, 4)


def test_without_a_regularizer_it_is_the_plain_method() -> None:
    found = json_of(*KARATE, "--regularizer", "none")
    assert (found["regularizer"], found["out"]) == (None, "runs/karate-grace-none-0")
    assert set(found["last"]) == {"epoch", "seconds", "loss", "infonce"}


@pytest.mark.parametrize("budget", [(), ("--budget", "2")])
def test_runs_with_and_without_a_regularizer_are_certified_under_the_same_budget(budget: tuple[str, ...]) -> None:
    for name in ("none", "degree-fast"):
        json_of(*KARATE, "--regularizer", name, "--certify", *budget, "--out", name)
    plain, certified = (certgcl.Certificate.load(Path(name, "certificate.npz")) for name in ("none", "degree-fast"))
    assert plain.evidence.parts["budget"].identity == certified.evidence.parts["budget"].identity
    assert int(plain.local_budget.max()) == (2 if budget else 1)


@pytest.mark.parametrize("kind", ["fast", "tuned"])
def test_a_fast_or_tuned_preset_and_that_of_another_graph(kind: str) -> None:
    certgcl.save_graph("mine", certgcl.load_dataset("karate"))
    json_of("train", "--graph", "mine", "--preset", "Cora", f"--{kind}", "--epochs", "1")
    preset = certgcl.learning.presets.get("grace", "Cora", **{kind: True})
    method = certgcl.GRACE.load("runs/mine-grace-degree-fast-0/method.pt")
    assert (method.temperature, method.mask_rates) == (preset.temperature, preset.mask_rates)
    assert method.regularizer is not None
    assert method.regularizer.anchors == preset.anchors


def test_a_graph_of_ones_own_with_its_labels_and_masks() -> None:
    data = certgcl.load_dataset("karate")
    certgcl.save_graph("mine", (data.x, data.edge_index))
    unlabelled = json_of("train", "--graph", "mine", "--epochs", "2")
    assert (unlabelled["graph"], unlabelled["evaluation"]) == ("mine", None)
    third = torch.arange(data.num_nodes) % 3
    torch.save(
        Data(
            x=data.x,
            edge_index=data.edge_index,
            y=data.y,
            train_mask=third == 0,
            val_mask=third == 1,
            test_mask=third == 2,
        ),
        "masked.pt",
    )
    assert json_of("train", "--graph", "masked.pt", "--epochs", "2")["evaluation"]["protocol"] == "public"
    assert "no labels to evaluate with" in run("train", "--graph", "mine", "--epochs", "1", "--out", "one").stdout


# -- stopping and going on -------------------------------------------------------------------------


def test_ctrl_c_ends_with_130_and_resume_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(bar: TrainingBar, progress: Progress) -> None:
        if progress.epoch == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "__call__", interrupt)
        stopped = run(*KARATE)
    assert stopped.exit_code == 130
    assert "continue it with the same command and --resume" in stopped.stderr
    assert len((OUT / "history.jsonl").read_text().splitlines()) == 2
    assert not (OUT / "method.pt").exists()
    json_of(*KARATE, "--resume")
    json_of(*KARATE, "--out", "whole")
    assert (OUT / "encoder.npz").stat().st_size == Path("whole/encoder.npz").stat().st_size
    for ours, theirs in zip(
        *(certgcl.GraphNetwork.load(folder / "encoder.npz").named_tensors() for folder in (OUT, Path("whole"))),
        strict=True,
    ):
        assert torch.equal(ours[1], theirs[1]), ours[0]


def test_a_run_goes_on_for_longer_but_not_with_other_settings() -> None:
    json_of(*KARATE)
    again = run(*KARATE)
    assert (again.exit_code, again.stderr.startswith("CheckpointError")) == (1, True)
    other = run(*KARATE, "--resume", "--kappa", "0.1")
    assert (other.exit_code, "settings.regularizer.kappa (0.4 there, 0.1 here)" in other.stderr) == (1, True)
    assert json_of("train", "--dataset", "karate", "--epochs", "6", "--resume")["epochs"] == 6


# -- wrong usage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--method", "simclr"), "'simclr' is not one of grace"),
        (("--set", "hidden"), "is not name=value"),
        (("--regularizer", "magic"), "'magic' is not one of none"),
        (("--budget", "some"), "neither a number of edges"),
        (("--kappa", "2"), "--kappa"),
        (("--epochs", "-1"), "--epochs"),
        (("--graph", "."), "pass one of the two"),
    ],
)
def test_wrong_usage_ends_with_2(change: tuple[str, ...], message: str) -> None:
    result = run(*KARATE, *change)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
    assert not Path("runs").exists()


def test_a_budget_that_nothing_uses_is_wrong_usage() -> None:
    result = run(*KARATE, "--regularizer", "none", "--budget", "2")
    assert result.exit_code == 2
    assert "--budget" in plain(result.stderr)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (("--dataset", "kora"), "DatasetError", "Did you mean 'Cora'?"),
        (("--set", "width=3"), "InputError", "setting 'width'"),
        (("--set", "variant=mix"), "InputError", "setting 'variant'"),
        (("--set", "method=crown"), "InputError", "setting 'method'"),
        (("--set", "drop_rates=0.3"), "InputError", "there is one rate in [0, 1) for each of the two views"),
        (("--set", "temperature=0"), "InputError", "temperature"),
        (("--regularizer", "none", "--kappa", "0.1"), "InputError", "setting 'kappa'"),
        (("--anchors", "0"), "InputError", "anchors=0"),
        (("--preset", "Kora"), "DatasetError", "Kora"),
    ],
)
def test_bad_settings_end_with_1_before_anything_is_written(change: tuple[str, ...], kind: str, message: str) -> None:
    result = run(*KARATE, *change)
    assert result.exit_code == 1
    assert result.stderr.startswith(kind + "\n")
    assert message in result.stderr
    assert not Path("runs").exists()


def test_help_has_examples() -> None:
    shown = plain(run("train", "--help", env={"COLUMNS": "200"}).stdout)
    assert "certgcl train --dataset Cora --method gca --fast --seed 1 --certify" in shown
    assert run("train").exit_code == 2


def test_batches_are_an_option_and_part_of_the_run() -> None:
    assert json_of(*KARATE, "--batch-nodes", "10", "--set", "fanout=2")["last"]["steps"] == 4
    config = json.loads((OUT / "config.json").read_text())
    assert "batch_nodes" in str(config)
    assert "sampler" in str(config)


@pytest.mark.parametrize("options", [("--seeds", "2"), ("--executor", "processes")])
def test_torchrun_trains_one_run(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = run(*KARATE, "--batch-nodes", "10", *options)
    assert result.exit_code == 2
    assert "torchrun" in plain(result.stderr)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_torchrun_needs_batches_to_share(rank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = run(*KARATE)
    assert result.exit_code == 1
    assert "--batch-nodes" in result.stderr
