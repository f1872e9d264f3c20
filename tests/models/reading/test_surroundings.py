"""What a model's source does not show: patches of torch and PyG, modes, global hooks, and the source itself."""

import importlib.util
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import APPNP, MLP, BatchNorm, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.conv import appnp as appnp_module
from torch_geometric.nn.conv import gcn_conv
from torch_geometric.nn.conv import sg_conv as sgc_module

from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from tests.encoders import Layers, Net, assert_reads, prepared, refusal, slopes

SOURCE = """import torch
from torch import nn
from torch_geometric.nn import GCNConv


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(5, 4), GCNConv(4, 3)

    def forward(self, x, edge_index):
        return self.conv2(torch.relu(self.conv1(x, edge_index)), edge_index)
"""


def evil(*given: Any, **named: Any) -> Any:
    return given[0]


PATCHES = [
    (torch, "relu"),
    (F, "relu"),
    (F, "linear"),
    (Tensor, "relu"),
    (Tensor, "__add__"),
    (nn.Module, "__call__"),
    (nn.Module, "_call_impl"),
    (nn.ReLU, "forward"),
    (GCNConv, "forward"),
    (GCNConv, "message"),
    (GCNConv, "propagate"),
    (GCNConv, "aggregate"),
    (GCNConv, "update"),
    (GCNConv, "normalize"),
    (SumAggregation, "forward"),
    (gcn_conv, "gcn_norm"),
    (gcn_conv, "scatter"),
    (torch._C._nn, "leaky_relu"),
    (GCNEncoder, "forward"),
]


@pytest.mark.parametrize("model", [Net, lambda: GCNEncoder(5, 4, 3)], ids=["traced", "GCNEncoder"])
@pytest.mark.parametrize(("owner", "name"), PATCHES, ids=[f"{owner.__name__}.{name}" for owner, name in PATCHES])
def test_a_patch_of_torch_or_pyg_is_noticed(
    owner: Any, name: str, model: Callable[[], nn.Module], graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = prepared(model())
    assert_reads(subject, graph)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, evil, raising=False)
        message = refusal(subject, graph)
    assert f"{name} replaced since certgcl was imported" in message
    assert_reads(subject, graph)


def everything() -> nn.Module:
    """A model with all known convolutions and parts."""

    def forward(net: Layers, x: Tensor, e: Tensor) -> Tensor:
        h = net.elu(net.norm(net.sage(x, e)))
        h = net.gin(h, e) + net.graph(h, e)
        return net.prop(net.head(net.sgc(h, e)), e)

    return prepared(
        Layers(
            forward,
            sage=SAGEConv(5, 4),
            norm=BatchNorm(4),
            elu=nn.ELU(),
            gin=GINConv(MLP([4, 3, 3])),
            graph=GraphConv(4, 3),
            sgc=SGConv(3, 3),
            head=nn.Linear(3, 2),
            prop=APPNP(2, 0.1),
        )
    )


MORE_PATCHES = [
    *(
        (kind, name)
        for kind in (SAGEConv, GINConv, GraphConv, SGConv, APPNP)
        for name in ("forward", "message", "propagate", "collect", "aggregate")
    ),
    (MeanAggregation, "forward"),
    (nn.ELU, "forward"),
    (nn.BatchNorm1d, "forward"),
    (nn.BatchNorm1d, "_check_input_dim"),
    (BatchNorm, "forward"),
    (nn.Linear, "forward"),
    (F, "elu"),
    (torch._C._nn, "elu"),
    (F, "batch_norm"),
    (torch, "batch_norm"),
    (Tensor, "__sub__"),
    (Tensor, "__truediv__"),
    (sgc_module, "gcn_norm"),
    (appnp_module, "gcn_norm"),
    (SAGEConv, "root_weight"),
    (GINConv, "eps"),
]


@pytest.mark.parametrize(
    ("owner", "name"), MORE_PATCHES, ids=[f"{owner.__name__}.{name}" for owner, name in MORE_PATCHES]
)
def test_a_patch_of_any_layer_is_noticed(owner: Any, name: str, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = everything()
    assert_reads(model, graph)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, evil, raising=False)
        message = refusal(model, graph)
    assert f"{name} replaced since certgcl was imported" in message
    assert_reads(model, graph)


def test_the_code_of_a_function_may_not_be_exchanged(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = prepared(Net())
    with monkeypatch.context() as patch:
        patch.setattr(gcn_conv.gcn_norm, "__code__", evil.__code__)
        message = refusal(model, graph)
    assert "gcn_norm replaced" in message


@contextmanager
def function_mode() -> Iterator[None]:
    with TorchFunctionMode():
        yield


@contextmanager
def dispatch_mode() -> Iterator[None]:
    with TorchDispatchMode():
        yield


@contextmanager
def global_hook() -> Iterator[None]:
    handle = register_module_forward_hook(lambda module, given, output: output)
    yield
    handle.remove()


@contextmanager
def global_pre_hook() -> Iterator[None]:
    handle = register_module_forward_pre_hook(lambda module, given: None)
    yield
    handle.remove()


@pytest.mark.parametrize("around", [function_mode, dispatch_mode, global_hook, global_pre_hook])
def test_nothing_is_read_under_modes_and_global_hooks(around: Callable[[], Any], graph: Graph) -> None:
    for model in (prepared(Net()), prepared(GCNEncoder(5, 4, 3))):
        with around():
            refusal(model, graph)
        assert_reads(model, graph)


def test_a_default_device_is_no_reason_to_refuse(graph: Graph) -> None:
    with torch.device("cpu"):
        assert_reads(prepared(Net()), graph)


# -- the source ------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module imported from a file of its own."""
    path = tmp_path / "written_model.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("written_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "written_model", module)
    spec.loader.exec_module(module)
    return module


def test_a_model_in_a_file_is_read(written: Any, graph: Graph) -> None:
    assert_reads(prepared(written.Net()), graph)


@pytest.mark.parametrize(("old", "new"), [("torch.relu", "torch.tanh"), ("class Net", "\n\nclass Net")])
def test_a_file_edited_since_its_import_is_refused(old: str, new: str, written: Any, graph: Graph) -> None:
    path = Path(written.__file__)
    path.write_text(SOURCE.replace(old, new), encoding="utf-8")
    message = refusal(prepared(written.Net()), graph)
    assert "a source that is not what runs" in message
    assert 'reading="probed"' in message
    assert "certgcl.models.GraphNetwork" in message


def test_a_file_that_is_gone_is_refused(written: Any, graph: Graph) -> None:
    Path(written.__file__).unlink()
    assert "no source" in refusal(prepared(written.Net()), graph)


def test_a_comment_below_does_not_matter(written: Any, graph: Graph) -> None:
    Path(written.__file__).write_text(SOURCE + "# later\n", encoding="utf-8")
    assert_reads(prepared(written.Net()), graph)


def test_code_without_a_source_is_refused_and_read_where_it_is_registered(graph: Graph) -> None:
    names: dict[str, Any] = {"__name__": "cell"}
    exec(compile(SOURCE, "<cell 1>", "exec"), names)
    assert "no source" in refusal(prepared(names["Net"]()), graph)
    linecache.cache["<cell 1>"] = len(SOURCE), None, SOURCE.splitlines(keepends=True), "<cell 1>"  # as notebooks do
    assert_reads(prepared(names["Net"]()), graph)


def test_a_source_that_lies_is_refused(graph: Graph) -> None:
    names: dict[str, Any] = {"__name__": "cell"}
    exec(compile(SOURCE.replace("torch.relu", "torch.tanh"), "<cell 2>", "exec"), names)
    linecache.cache["<cell 2>"] = len(SOURCE), None, SOURCE.splitlines(keepends=True), "<cell 2>"
    assert "a source that is not what runs" in refusal(prepared(names["Net"]()), graph)


def test_lambdas_on_one_line_are_told_apart(graph: Graph) -> None:
    first, second = (lambda p: F.leaky_relu(p, 0.5)), (lambda p: F.leaky_relu(p, 0.25))
    weights = assert_reads(prepared(Net(between=first, after=second)), graph)
    assert slopes(weights) == [[0.5] * 4, [0.25] * 3]


def test_wrappers_are_refused_with_the_way_out(graph: Graph) -> None:
    assert "Pass model._orig_mod" in refusal(torch.compile(prepared(Net())), graph)
    refusal(nn.DataParallel(prepared(Net())), graph)
    with torch.no_grad():
        refusal(torch.jit.trace(prepared(GCNEncoder(5, 4, 3)), (graph.x, graph.edge_index)), graph)
