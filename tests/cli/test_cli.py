import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import Result

import certgcl
from certgcl.certify.sharding import ShardProgress
from certgcl.cli.progress import ShardBar, describe
from certgcl.runtime import progress_bar
from tests.cli.running import plain, run
from tests.toys import random_graph, toy_network, without

GRAPH, WEIGHTS = random_graph(nodes=40, density=0.1), toy_network()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    certgcl.save_graph("graph", GRAPH)
    WEIGHTS.save("encoder.npz")


def certify(*more: str, budget: str = "2", out: str = "out") -> Result:
    return run("certify", "--graph", "graph", "--weights", "encoder.npz", "--budget", budget, "--out", out, *more)


# -- certify and merge -----------------------------------------------------------------------------


def test_certify_writes_the_certificate_and_says_what_it_found() -> None:
    result = certify("--shards", "3")
    expected = certgcl.node_compactness(WEIGHTS, GRAPH, 2)
    written = f"\nwritten to {Path('out') / 'certificate.npz'}\n"
    assert result.exit_code == 0
    assert result.stdout == f"{expected.with_curve(WEIGHTS, GRAPH)}{written}"
    written_first = Path("out/certificate.npz").read_bytes()
    torch.testing.assert_close(certgcl.Certificate.load("out/certificate.npz").lower, expected.lower)
    again = run("merge", "out")
    assert Path("out/certificate.npz").read_bytes() == written_first
    assert (again.exit_code, again.stdout) == (0, f"{expected}{written}")


def test_json_is_one_object() -> None:
    result = certify("--shards", "3", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    expected = certgcl.node_compactness(WEIGHTS, GRAPH, 2)
    summary = found.pop("certificate")
    assert found == {
        "out": "out",
        "shards": 3,
        "computed": [0, 1, 2],
        "kept": [],
        "missing": [],
        "fingerprint": json.loads(Path("out/manifest.json").read_text())["fingerprint"],
        "seconds": found["seconds"],
    }
    assert summary["positive"] == int(expected.positive.sum())
    assert summary["nodes"] == 40
    assert summary["lower_min"] == pytest.approx(float(expected.lower.min()))
    assert json.loads(certify("--json").stdout)["kept"] == [0, 1, 2]
    curve = expected.with_curve(WEIGHTS, GRAPH).curve
    assert curve is not None
    assert summary["half_lost"] == {"rate": curve.half_rate, "count": curve.half_count}
    assert json.loads(run("merge", "out", "--json").stdout) == summary | {"half_lost": None}


def test_the_budget_curve_can_be_left_out_or_drawn_from_few_nodes() -> None:
    assert json.loads(certify("--sample", "0", "--json").stdout)["certificate"]["half_lost"] is None
    assert "(3 of 40 nodes, method degree)" in certify("--sample", "3").stdout


def test_large_graphs_have_a_budget_curve_only_if_it_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["certgcl.cli.certify"], "QUICK", 1)
    assert "half lost" not in certify().stdout
    assert "half lost" in certify("--sample", "3").stdout


def test_options_reach_the_bounds() -> None:
    view = without(GRAPH, ((0, 36),))
    certgcl.save_graph("view", view)
    Path("nodes.txt").write_text("7 3\n12\n")
    result = certify(
        "--total",
        "3",
        "--method",
        "crown",
        "--view",
        "view",
        "--nodes",
        "nodes.txt",
        "--dtype",
        "float32",
        "--order",
        "given",
        budget="0.4",
    )
    assert result.exit_code == 0, result.stderr
    found = certgcl.Certificate.load("out/certificate.npz")
    expected = certgcl.node_compactness(
        WEIGHTS,
        GRAPH,
        certgcl.EdgeDropBudget.from_drop_rate(0.4, total=3),
        method="crown",
        view=view,
        nodes=[7, 3, 12],
        dtype=torch.float32,
    )
    assert found.nodes.tolist() == [7, 3, 12]
    assert found.total_budget == 3
    assert torch.equal(found.lower, expected.lower)


@pytest.mark.parametrize("nodes", ["4:9", "nodes.npy"])
def test_nodes_may_be_a_range_or_an_array(nodes: str) -> None:
    np.save("nodes.npy", np.arange(4, 9))
    assert json.loads(certify("--nodes", nodes, "--json").stdout)["certificate"]["nodes"] == 5
    assert certgcl.Certificate.load("out/certificate.npz").nodes.tolist() == [4, 5, 6, 7, 8]


# -- several workers -------------------------------------------------------------------------------


def test_workers_share_a_folder(tmp_path: Path) -> None:
    """Two processes at once, one told by --shard, one by torchrun's variables."""
    environment = {**os.environ, "PYTHONPATH": str(Path(certgcl.__file__).parents[1])}
    command = [
        sys.executable,
        "-m",
        "certgcl",
        "certify",
        "--graph",
        "graph",
        "--weights",
        "encoder.npz",
        "--budget",
        "2",
        "--out",
        "out",
        "--shards",
        "5",
        "--json",
    ]
    workers = [
        subprocess.Popen([*command, *more], env={**environment, **extra}, stdout=subprocess.PIPE, text=True)
        for more, extra in ((["--shard", "0/2"], {}), ([], {"RANK": "1", "WORLD_SIZE": "2"}))
    ]
    found = [json.loads(worker.communicate()[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert [part["computed"] for part in found] == [[0, 2, 4], [1, 3]]
    assert [part["certificate"] for part in found] == [None, None]
    assert not Path("out/certificate.npz").exists()
    assert run("merge", "out").exit_code == 0
    torch.testing.assert_close(
        certgcl.Certificate.load("out/certificate.npz").lower, certgcl.node_compactness(WEIGHTS, GRAPH, 2).lower
    )


def test_a_worker_says_what_is_left() -> None:
    first = certify("--shards", "4", "--shard", "1/2")
    assert first.stdout == "2 shards computed, 0 were finished before; 2 of 4 left to other workers\n"
    early = run("merge", "out")
    assert early.exit_code == 1
    assert "2 missing (0, 2) of 4 shards" in early.stderr
    second = certify("--shards", "4", "--shard", "0/2")
    assert second.stdout == "2 shards computed, 0 were finished before; all 4 are finished: certgcl merge out\n"


def test_torchrun_says_which_worker_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert json.loads(certify("--shards", "5", "--json").stdout)["computed"] == [2]
    assert json.loads(certify("--shards", "5", "--shard", "0/2", "--json").stdout)["computed"] == [0, 4]
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert json.loads(certify("--json").stdout)["certificate"]["nodes"] == 40


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--budget", "many"), "neither a number of edges"),
        (("--budget", "-1"), "neither a number of edges"),
        (("--budget", "1.5"), "neither a number of edges"),
        (("--budget", "nan"), "neither a number of edges"),
        (("--shard", "2/2"), "is not k/n with k from 0 to n - 1"),
        (("--shard", "1"), "is not k/n"),
        (("--method", "magic"), "is not one of"),
        (("--nodes", "some"), "neither a range 0:1000 nor a file"),
        (("--graph", "none"), "does not exist"),
        (("--dtype", "float16"), "float16"),
        (("--shards", "0"), "--shards"),
        (("--total", "-1"), "--total"),
        (("--out", "encoder.npz"), "is a file"),
        (("--unknown",), "--unknown"),
    ],
)
def test_wrong_usage_ends_with_2(change: tuple[str, ...], message: str) -> None:
    result = certify(*change)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
    assert result.stdout == ""
    assert not Path("out").exists()


def test_a_wrong_rank_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = certify()
    assert result.exit_code == 2
    assert "RANK and WORLD_SIZE" in plain(result.stderr)


@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_ends_with_1_and_its_way_out(as_json: bool) -> None:
    assert certify("--shards", "2").exit_code == 0
    result = certify(*["--json"] * as_json, budget="1")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "ShardError\n  found:   out with the shards of another question, which differs in budget ("
    )
    assert "\n  rule:    a folder holds the answer to one question\n  remedy:  Choose another folder" in result.stderr
    assert "Traceback" not in result.output
    if as_json:
        error = json.loads(result.stdout)["error"]
        assert list(error) == ["type", "found", "rule", "remedy"]
    else:
        assert result.stdout == ""


def test_other_errors_have_no_traceback_either() -> None:
    WEIGHTS.save("graph.npz")
    wrong = run("certify", "--graph", "graph.npz", "--weights", "encoder.npz", "--budget", "1", "--out", "out")
    assert (wrong.exit_code, "GraphError" in wrong.stderr) == (1, True)
    swapped = run("certify", "--graph", "graph", "--weights", "graph/x.npy", "--budget", "1", "--out", "out")
    assert (swapped.exit_code, "EncoderError" in swapped.stderr) == (1, True)
    Path("file").touch()
    blocked = certify(out="file/out")
    assert (blocked.exit_code, "NotADirectoryError" in blocked.stderr) == (1, True)


def test_ctrl_c_ends_with_130_and_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(bar: ShardBar, progress: ShardProgress) -> None:
        if progress.shards_done == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ShardBar, "__call__", interrupt)
        result = certify("--shards", "4")
    assert result.exit_code == 130
    assert "Finished shards are kept in out; run the same command again to continue" in result.stderr
    assert json.loads(certify("--json").stdout)["kept"] == [0, 1]


def test_help_has_examples_and_counts_from_zero() -> None:
    assert run("--help").exit_code == 0
    shown = plain(run("certify", "--help", env={"COLUMNS": "200"}).stdout)
    assert "certgcl certify --graph cora --weights encoder.npz --budget 2 --out result" in shown
    assert "K counted from 0" in shown
    assert "certgcl merge result" in plain(run("merge", "--help").stdout)
    assert run("--version").stdout == f"{certgcl.__version__}\n"
    assert run().exit_code == 2


# -- progress --------------------------------------------------------------------------------------


def test_time_left_is_that_of_the_nodes_computed() -> None:
    assert describe(ShardProgress(0, 4, 0, 4000, 0), 0.0) == "0/4 shards, 0/4,000 nodes"
    assert describe(ShardProgress(2, 4, 2000, 4000, 1000), 60.0) == "2/4 shards, 2,000/4,000 nodes, 0:02:00 left"
    assert describe(ShardProgress(4, 4, 4000, 4000, 1000), 60.0) == "4/4 shards, 4,000/4,000 nodes"


def test_a_short_run_shows_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with ShardBar() as bar:
        bar(ShardProgress(1, 2, 10, 20, 10))
    assert capfd.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress_bar, "_APPEARS_AFTER", 0.0)
    for shown in (True, False):
        with ShardBar(shown) as bar:
            bar(ShardProgress(1, 2, 10, 20, 10))
            time.sleep(0.2)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("1/2 shards, 10/20 nodes" in err) == shown


def test_a_log_gets_a_line_now_and_then(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "_LINE_EVERY", -1.0)
    with ShardBar() as bar:
        bar(ShardProgress(0, 2, 0, 20, 0))
        bar(ShardProgress(2, 2, 20, 20, 10))
    assert capfd.readouterr() == ("", "0/2 shards, 0/20 nodes\n2/2 shards, 20/20 nodes\n")
