"""Every script in ``examples/`` runs, and says what it found."""

import runpy
from pathlib import Path

import pytest

FOUND = {
    "beyond_dropped_edges": "certified lower bounds of 20 graphs",
    "certified_accuracy": "certified",
    "certify_my_model": "certified lower bounds at 400 of 400 nodes",
    "choose_a_budget": "proved up to a rate of",
    "four_methods": "costa   certified",
    "fragile_nodes": "reached without",
    "large_graph_shards": "certified lower bounds at 1797 of 1797 nodes",
    "lightning_loop": "certified lower bounds at 400 of 400 nodes",
    "my_own_encoder": "certified lower bounds at 34 of 34 nodes",
    "own_loop": "certified lower bounds at 100 of 1797 nodes",
}
EXAMPLES = {script.stem: script for script in (Path(__file__).parents[2] / "examples").glob("*.py")}


def test_every_example_is_here() -> None:
    assert set(EXAMPLES) == set(FOUND)


LIGHTNING = pytest.param("lightning_loop", marks=pytest.mark.filterwarnings("default"))  # it warns of torch's future


@pytest.mark.parametrize("name", [LIGHTNING if name == "lightning_loop" else name for name in FOUND])
def test_an_example_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name == "lightning_loop":
        pytest.importorskip("lightning", reason="the example is for those who use PyTorch Lightning")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    assert FOUND[name] in capsys.readouterr().out
