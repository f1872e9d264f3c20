"""Devices by their names, in Python and on the command line; and other settings of the machine there."""

from typing import Any

import pytest
import torch

import certgcl
from certgcl.arguments import usable_device
from certgcl.errors import InputError
from tests.cli.running import run
from tests.toys import random_graph


def test_a_device_that_is_there_is_taken() -> None:
    assert usable_device("cpu") == usable_device(torch.device("cpu")) == torch.device("cpu")
    assert usable_device(None) is None


@pytest.mark.parametrize("device", ["cuda:99", "meta", "gpu", "", "cpu:x", "mps", 7, True, ["cpu"], b"cpu"])
def test_another_one_is_refused_by_name(device: Any) -> None:
    with pytest.raises(InputError, match=r"^device="):
        usable_device(device)
    with pytest.raises(InputError, match=r"^device="):
        certgcl.GRACE(hidden=2, epochs=1, device=device).fit(random_graph())


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--dataset", "digits", "--set", "device=cuda:99"],
        ["train", "--dataset", "digits", "--set", "device=7"],
        ["train", "--dataset", "digits", "--set", "device=warp"],
    ],
    ids=lambda words: words[-1],
)
def test_the_command_line_says_so_without_a_traceback(words: list[str], tmp_path: Any) -> None:
    result = run(*words, "--out", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert result.stderr.startswith("InputError\n  found:   device=")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-3", "much"])
def test_a_memory_limit_that_is_none_is_wrong_usage(limit: str, tmp_path: Any) -> None:
    graph = certgcl.save_graph(tmp_path / "graph", random_graph())
    weights = certgcl.GCNEncoder(3, 4, 2).network().save(tmp_path / "weights.npz")
    result = run(
        "certify",
        "--graph",
        str(graph),
        "--weights",
        str(weights),
        "--budget",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--memory-limit",
        limit,
    )
    assert result.exit_code == 2
    assert "--memory-limit" in result.stderr


@pytest.mark.parametrize("command", ["train", "audit", "demo"])
def test_a_seed_that_no_generator_takes_is_wrong_usage(command: str) -> None:
    result = run(command, "--seed", "9" * 30)
    assert result.exit_code == 2
    assert "--seed" in result.stderr
