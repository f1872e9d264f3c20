"""Two processes of torchrun train as one does: their gradient is that of both batches, and they end alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from certgcl.learning.methods import METHODS
from certgcl.learning.training.processes import ALONE
from tests.learning.training import trained_together
from tests.learning.training.trained_together import gradients, graph, method_of

HOME = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes have written."""
    path = tmp_path_factory.mktemp("together")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            trained_together.__name__,
            str(path),
        ],
        cwd=HOME,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        timeout=300,
    )
    return path


def test_the_gradient_of_two_processes_is_that_of_both_batches(folder: Path) -> None:
    session = method_of("grace").session(graph())
    assert session.minibatches is not None
    both = [session.minibatches.loss(batch, 0).total for batch in session.minibatches.batches()[:2]]
    (sum(both) / 2).backward()
    expected = gradients(session)
    assert any(bool(gradient.any()) for gradient in expected)
    for rank in range(2):
        found = torch.load(folder / f"gradients-{rank}.pt", weights_only=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_all_processes_end_with_the_same_weights(folder: Path, name: str) -> None:
    one, other = (torch.load(folder / f"{name}-{rank}.pt", weights_only=True) for rank in range(2))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_resumed_run_has_the_same_bits(folder: Path) -> None:
    whole = torch.load(folder / "grace-0.pt", weights_only=True)
    for rank in range(2):
        resumed = torch.load(folder / f"resumed-{rank}.pt", weights_only=True)
        assert all(torch.equal(resumed[key], whole[key]) for key in whole)


def test_two_processes_learn_and_know_the_same_history(folder: Path) -> None:
    first, second = (json.loads((folder / f"history-{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert len(first) == 3
    assert first[-1] < first[0]


def test_one_process_agrees_with_itself() -> None:
    assert ALONE.first
    assert ALONE.mean({"loss": 2.0}) == {"loss": 2.0}
    assert ALONE.anyone(True)
    assert not ALONE.anyone(False)
    assert ALONE.of_first("state") == "state"
