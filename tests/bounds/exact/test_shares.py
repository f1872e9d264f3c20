"""Many anchors: passes over them, what time and size leave out, and shares of them that run at the same time."""

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from certgcl.bounds import BranchAndBound, ChangeProblem, Degree
from certgcl.bounds.exact import Brackets
from certgcl.bounds.exact.two_layer.field import ReceptiveField
from certgcl.bounds.exact.two_layer.search import TwoLayerSearch
from certgcl.errors import BoundError, InputError, MethodError, WorkerError
from certgcl.executors import LocalProcesses
from tests.toys import drop_problem, gcn_weights, random_graph, random_tensor, toy_network

WEIGHTS, GRAPH, DIRECTIONS = toy_network(), random_graph(nodes=9, density=0.5), random_tensor(9, 3, seed=5)


def problem(anchors: list[int] | None = None) -> ChangeProblem:
    return drop_problem(GRAPH, 1, anchors)


def brackets(anchors: list[int] | None = None, **settings: Any) -> Brackets:
    return BranchAndBound(**settings).brackets(WEIGHTS, problem(anchors), DIRECTIONS)


def same(found: Brackets, expected: Brackets) -> bool:
    return all(
        torch.equal(getattr(found, name), getattr(expected, name)) for name in ("lower", "upper", "exact", "branches")
    ) and all(map(torch.equal, found.witnesses, expected.witnesses))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import nothing from the current folder, and these tests have a bound of their own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def alone() -> Brackets:
    return brackets(workers=1)


# -- one process -----------------------------------------------------------------------------------


def test_anchors_do_not_depend_on_each_other(alone: Brackets) -> None:
    some = torch.tensor([7, 0, 3])
    assert same(brackets(some.tolist()), alone.at(some))
    assert same(Brackets.joined([alone.at(torch.arange(4)), alone.at(torch.arange(4, 9))]), alone)


def test_small_fields_come_first() -> None:
    order = TwoLayerSearch.of(WEIGHTS, problem(), DIRECTIONS, Degree(), None, None, 1e-9).order()
    around = [int(GRAPH.degree[GRAPH.col[GRAPH.row == node]].sum()) for node in order.tolist()]
    assert around == sorted(around)


def test_a_search_that_begins_anew_goes_on_from_its_bracket(alone: Brackets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certgcl.bounds.exact.anchors.FIRST_LIMIT", 1)
    found = brackets()
    assert found.exact.all()
    assert (found.branches >= alone.branches).all()
    torch.testing.assert_close(found.lower, alone.lower)
    torch.testing.assert_close(found.upper, alone.upper)


def test_fewer_branches_give_wider_brackets(alone: Brackets) -> None:
    lower, upper = brackets(branch_limit=0).lower, brackets(branch_limit=0).upper
    torch.testing.assert_close(lower, Degree()(WEIGHTS, problem(), DIRECTIONS[:, None])[:, 0])
    for limit in (4, 32, 256):
        found = brackets(branch_limit=limit)
        assert (lower <= found.lower + 1e-12).all()
        assert (found.lower <= alone.lower + 1e-12).all()
        assert (alone.upper <= found.upper + 1e-12).all()
        assert (found.upper <= upper + 1e-12).all()
        lower, upper = found.lower, found.upper


def test_an_anchor_that_sees_too_much_keeps_its_bound_and_clean_value(
    alone: Brackets, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = [ReceptiveField.around(GRAPH, problem().drops, gcn_weights(WEIGHTS), anchor) for anchor in range(9)]
    sizes = sorted(field.adjacency.numel() for field in fields if field is not None)
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.field.LARGEST_FIELD", sizes[4])
    seen: list[tuple[int, int]] = []
    found = brackets(progress=lambda *state: seen.append(state))
    out = ~found.exact
    assert 0 < int(out.sum()) < 9
    assert seen[-1] == (9 - int(out.sum()), 9)
    torch.testing.assert_close(found.lower[~out], alone.lower[~out])
    clean = (WEIGHTS.embed(GRAPH) * DIRECTIONS).sum(dim=1)
    torch.testing.assert_close(found.upper[out], clean[out])
    torch.testing.assert_close(found.lower[out], brackets(time_limit=0.0).lower[out])
    assert all(found.witnesses[node].shape == (2, 0) for node in out.nonzero()[:, 0].tolist())


def test_brackets_come_in_the_precision_of_the_directions(alone: Brackets) -> None:
    found = BranchAndBound().brackets(WEIGHTS.to(torch.float32), problem(), DIRECTIONS.float())
    assert found.lower.dtype == found.upper.dtype == torch.float32
    torch.testing.assert_close(found.lower.double(), alone.lower, rtol=1e-4, atol=1e-5)


# -- several ---------------------------------------------------------------------------------------


def test_workers_give_the_same_as_one_process(alone: Brackets) -> None:
    seen: list[tuple[int, int]] = []
    assert same(brackets(workers=2, progress=lambda *state: seen.append(state)), alone)
    assert seen[-1] == (9, 9)
    assert [finished for finished, _ in seen] == sorted(finished for finished, _ in seen)


def test_shares_can_be_searched_one_after_the_other(alone: Brackets) -> None:
    assert same(brackets(workers=2, executor="here"), alone)


@pytest.mark.parametrize("executor", ["threads", 3, LocalProcesses])
def test_an_executor_is_one(executor: Any) -> None:
    with pytest.raises(InputError, match=r"executor=.*: it is one of here, processes, ray"):
        BranchAndBound(executor=executor)


@dataclass(frozen=True)
class Failing(Degree):
    """A bound that ends in an error where it is asked for."""

    error: Exception = field(default_factory=Exception)

    def __call__(self, *_: Any) -> Tensor:
        raise self.error


@pytest.mark.usefixtures("elsewhere")
def test_an_error_of_the_bound_is_the_same_from_a_worker() -> None:
    with pytest.raises(BoundError, match=r"found: rule\. remedy"):
        brackets(workers=2, bound=Failing(error=BoundError("found", "rule", "remedy")))


def test_a_worker_that_imports_from_the_current_folder_is_told_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_bound.py").write_text("from certgcl.bounds import Degree\nclass Own(Degree): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = importlib.import_module("own_bound").Own()
    with pytest.raises(WorkerError, match=r"ModuleNotFoundError: .*own_bound.*nothing from the current folder"):
        brackets(workers=2, bound=own)


def test_a_search_that_cannot_be_sent_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    class Local(Degree):
        pass

    with pytest.raises(WorkerError, match=r"work that cannot be sent to another process \(.*Local"):
        brackets(workers=2, bound=Local())
    assert capfd.readouterr().err == ""


def test_one_anchor_takes_one_process(alone: Brackets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certgcl.executors.local.Parallel", None)
    assert same(brackets([4], workers=3), alone.at(torch.tensor([4])))


@pytest.mark.parametrize("workers", [0, -1, 2.0, True, "2"])
def test_workers_are_counted(workers: Any) -> None:
    with pytest.raises(MethodError, match=f"workers={workers!r}: it is a number of processes"):
        BranchAndBound(workers=workers)
