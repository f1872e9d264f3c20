from pathlib import Path

import numpy as np
import pytest

import certgcl
from certgcl.certify.certificate import Certificate
from tests.certify.certificates import rewritten
from tests.cli.running import json_of, plain, run
from tests.toys import random_graph, toy_network, without

GRAPH, WEIGHTS = random_graph(nodes=30, density=0.1), toy_network()
VERIFY = ("verify", "result", "--graph", "graph", "--weights", "encoder.npz")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    certgcl.save_graph("graph", GRAPH)
    certgcl.save_graph("other", without(GRAPH, (tuple(GRAPH.edge_index[:, 0].tolist()),)))
    WEIGHTS.save("encoder.npz")
    toy_network(seed=1).save("other.npz")
    json_of("certify", *VERIFY[2:], "--budget", "1", "--method", "optimized", "--out", "result")


def test_a_folder_or_a_file_is_verified() -> None:
    expected = Certificate.load("result/certificate.npz").verify(WEIGHTS, GRAPH)
    result = run(*VERIFY)
    assert (result.exit_code, result.stdout) == (0, f"{expected}\n")
    assert json_of("verify", "result/certificate.npz", *VERIFY[2:]) == expected.to_dict()
    assert json_of(*VERIFY, "--nodes", "3:9")["ok"] is True


@pytest.mark.parametrize(
    ("changed", "named"), [({"--weights": "other.npz"}, "weights"), ({"--graph": "other"}, "edges")]
)
def test_another_model_or_graph_ends_with_3(changed: dict[str, str], named: str) -> None:
    options = {"--graph": "graph", "--weights": "encoder.npz"} | changed
    result = run("verify", "result", *(word for option in options.items() for word in option))
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT verified")
    assert f"WRONG  {named}" in result.stdout


def test_values_that_are_wrong_end_with_3() -> None:
    path = Path("result/certificate.npz")
    with np.load(path) as file:
        nominal = file["nominal"] + 1
    rewritten(path, honest=True, nominal=nominal)
    result = run(*VERIFY, "--json")
    assert result.exit_code == 3
    assert '"name": "clean values", "ok": false' in result.stdout
    rewritten(path, nominal=nominal + 1)
    damaged = run(*VERIFY)
    assert (damaged.exit_code, "CertificateError" in damaged.stderr) == (1, True)


def test_a_second_view_is_an_option() -> None:
    words = ("--graph", "graph", "--weights", "encoder.npz")
    json_of("certify", *words, "--budget", "1", "--view", "other", "--out", "viewed")
    assert run("verify", "viewed", *words).exit_code == 3
    assert json_of("verify", "viewed", *words, "--view", "other")["ok"] is True


def test_a_certificate_of_a_run() -> None:
    json_of(
        "train",
        "--dataset",
        "karate",
        "--epochs",
        "2",
        "--regularizer",
        "none",
        "--set",
        "hidden=4",
        "--certify",
        "--out",
        "run",
    )
    assert json_of("verify", "run", "--run", "run")["ok"] is True
    assert run("verify", "result", "--run", "run").exit_code == 3


def test_wrong_usage_and_help() -> None:
    assert run("verify", "nowhere", *VERIFY[2:]).exit_code == 2
    assert run("verify", "result").exit_code == 2
    assert run("verify", "result", "--weights", "encoder.npz").exit_code == 2
    assert run(*VERIFY, "--nodes", "some").exit_code == 2
    unknown = run(*VERIFY, "--nodes", "29:31")
    assert (unknown.exit_code, "only nodes of the certificate" in unknown.stderr) == (1, True)
    assert run("verify", "graph", *VERIFY[2:]).exit_code == 1
    assert "certgcl verify result --graph cora --weights encoder.npz" in plain(
        run("verify", "--help", env={"COLUMNS": "200"}).stdout
    )


def test_bounds_are_proved_by_the_checker() -> None:
    json_of("certify", *VERIFY[2:], "--budget", "1", "--out", "proved", "--proof")
    found = json_of("verify", "proved", *VERIFY[2:], "--proof", "--nodes", "0:8")
    assert found["ok"] is True
    assert found["checks"][-1]["name"] == "bounds"
    assert "8 of 8 nodes proved by verification.checker" in found["checks"][-1]["detail"]


def test_a_bound_that_is_not_proved_ends_with_3() -> None:
    json_of("certify", *VERIFY[2:], "--budget", "1", "--out", "forged", "--proof")
    path = Path("forged/certificate.npz")
    with np.load(path) as file:
        nominal = file["nominal"]
    rewritten(path, honest=True, lower=nominal)
    assert run("verify", "forged", *VERIFY[2:]).exit_code == 0, "which is what digests cannot see"
    result = run("verify", "forged", *VERIFY[2:], "--proof", "--branches", "0", "--nodes", "0:8")
    assert result.exit_code == 3
    assert "WRONG  bounds" in result.stdout
