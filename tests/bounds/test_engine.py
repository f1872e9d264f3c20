"""Small graphs are bounded without kernels, so that nothing is compiled for them; large ones with kernels."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import certgcl
from certgcl.bounds import compiled
from certgcl.bounds.engine import engine_for
from certgcl.bounds.propagation import limits
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder

CPU = torch.device("cpu")


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it; other tests ask for kernels at every size."""
    monkeypatch.delenv(compiled.SETTING, raising=False)


def network_for(graph: Graph, hidden: int = 4) -> certgcl.GraphNetwork:
    return GCNEncoder(graph.num_features, hidden, 3).double().network()


def kernels_used(graph: Graph, hidden: int = 4) -> bool:
    with engine_for(network_for(graph, hidden), graph):
        return compiled.usable(CPU)


@pytest.mark.usefixtures("auto")
def test_kernels_are_used_from_a_size_on(graph: Graph) -> None:
    assert not kernels_used(graph)
    assert kernels_used(graph, hidden=compiled.WORTHWHILE // graph.col.numel())
    assert compiled.usable(CPU)


@pytest.mark.parametrize(("setting", "used"), [("always", True), ("never", False), ("auto", False), ("", False)])
def test_the_environment_decides_first(setting: str, used: bool, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.SETTING, setting)
    assert kernels_used(graph) is used


def test_an_unknown_setting_is_refused(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.SETTING, "sometimes")
    with pytest.raises(InputError, match="CERTGCL_KERNELS='sometimes' in the environment: it is one of auto, always"):
        certgcl.node_compactness(network_for(graph), graph, 1)


@pytest.mark.usefixtures("auto")
def test_an_outer_choice_stands(graph: Graph) -> None:
    with compiled.for_work(compiled.WORTHWHILE):
        assert kernels_used(graph)
    with compiled.switched_off():
        assert not kernels_used(graph, hidden=compiled.WORTHWHILE // graph.col.numel())


@pytest.mark.usefixtures("auto")
def test_a_choice_is_one_threads_own(graph: Graph) -> None:
    seen: list[bool] = []
    with engine_for(network_for(graph), graph):
        other = threading.Thread(target=lambda: seen.append(compiled.usable(CPU)))
        other.start()
        other.join()
    assert seen == [True]


@pytest.mark.usefixtures("auto")
def test_small_work_takes_one_thread_and_gives_the_others_back(graph: Graph) -> None:
    before = torch.get_num_threads()
    with engine_for(network_for(graph), graph):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("auto")
@pytest.mark.parametrize("method", ["degree", "degree-fast", "degree-cheap", "crown"])
@pytest.mark.parametrize("depth", [2, 3])
def test_both_paths_give_the_same_bound(method: str, depth: int, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric.nn import GCN

    torch.manual_seed(depth)
    model = GCN(graph.num_features, 4, depth, 3).double().eval()
    small = certgcl.node_compactness(model, graph, 1, method=method)
    monkeypatch.setenv(compiled.SETTING, "always")
    by_kernels = certgcl.node_compactness(model, graph, 1, method=method)
    assert ((small.lower - by_kernels.lower).abs() <= small.rounding + by_kernels.rounding).all()


@pytest.mark.usefixtures("auto")
@pytest.mark.parametrize(
    ("model_name", "depth"), [("GIN", 2), ("GIN", 3), ("GraphSAGE", 2), ("GraphSAGE", 3), ("GCN", 3)]
)
def test_gradients_are_computed_again_by_the_path_of_the_bound(
    model_name: str, depth: int, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_geometric.nn

    def gradient() -> torch.Tensor:
        torch.manual_seed(0)
        model = getattr(torch_geometric.nn, model_name)(graph.num_features, 4, depth, 3).double()
        certgcl.CompactnessRegularizer(budget=1)(model, graph, graph, graph).backward()
        return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])

    whole = gradient()
    monkeypatch.setattr(limits, "MAX_STORED", 0)  # nothing is stored, and so all of it is computed again
    asked, usable = list[bool](), compiled.usable
    monkeypatch.setattr(compiled, "usable", lambda device: asked.append(usable(device)) or usable(device))
    assert torch.allclose(gradient(), whole, rtol=1e-9, atol=1e-12)
    assert asked
    assert not any(asked)


def test_a_first_certificate_and_training_step_compile_nothing(tmp_path: Path) -> None:
    program = """
import sys, certgcl
data = certgcl.load_dataset("karate")
method = certgcl.GRACE(hidden=8, epochs=1, regularizer=certgcl.CompactnessRegularizer(kappa=0.4)).fit(data)
certgcl.node_compactness(method, data, budgets=2)
print(any(name.startswith("certgcl.bounds.compiled.kernels") for name in sys.modules))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment.pop(compiled.SETTING, None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "False"
    assert not list(tmp_path.iterdir())
