"""Every public call with hostile arguments answers, or raises an error of certgcl's own."""

from pathlib import Path

import pytest

import certgcl
from certgcl import bounds
from tests.public.fuzz import Call, Target, chosen_calls, hostile_values, run
from tests.public.targets import public_calls

CALLS = 3000
WITHOUT_ARGUMENTS = {"Interval", "BoundMethod", "BoundResult", "METHODS", "SEARCHES"}  # no call, or the library's own


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own: a hostile string is a fine name for a file."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_every_call_answers_with_the_valid_arguments(elsewhere: Path) -> None:
    for target in public_calls(elsewhere / "world"):
        target.function()(**target.arguments())


def test_no_hostile_argument_ends_in_a_raw_error(elsewhere: Path) -> None:
    values = hostile_values(elsewhere / "odd")
    outcome = run(chosen_calls(public_calls(elsewhere / "world"), values, CALLS), values)
    shown = "\n".join(outcome.raw[:50])
    assert not outcome.raw, f"{len(outcome.raw)} raw errors in {outcome.calls} calls:\n{shown}"
    assert outcome.calls == CALLS
    assert outcome.answers > CALLS // 50, "calls that are always refused try nothing"
    assert outcome.refusals > CALLS // 2


def test_every_public_name_is_called(elsewhere: Path) -> None:
    names = {target.name for target in public_calls(elsewhere / "world")}
    called = {part for name in names for part in name.replace(",", ".").split(".")}
    modules = {"bounds", "errors", "presets", "types", "__version__"}
    results = {
        "CollectiveCertificate",
        "Evidence",
        "ExportedProblem",
        "FoundChanges",
        "FoundDrops",
        "Verification",
    }  # which the library alone makes
    assert set(certgcl.__all__) - modules - results <= called
    assert set(bounds.__all__) - WITHOUT_ARGUMENTS <= called


def test_a_raw_error_is_noted_with_its_call(elsewhere: Path) -> None:
    def fragile(count: int) -> int:
        return count + 1

    target = Target("fragile", lambda: fragile, lambda: {"count": 1})
    values = hostile_values(elsewhere / "odd")
    calls = [Call(target, (("count", value),)) for value in ("1", "None", "abc")]
    outcome = run(iter(calls), values)
    assert (outcome.answers, outcome.refusals) == (1, 0)
    assert [line.split(":")[0] for line in outcome.raw] == ["fragile(count=<None>)", "fragile(count=<abc>)"]


def test_the_calls_are_the_same_every_time(elsewhere: Path) -> None:
    values, targets = hostile_values(elsewhere / "odd"), public_calls(elsewhere / "world")
    first, second = ([str(call) for call in chosen_calls(targets, values, CALLS)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 0.95 * CALLS
