"""Networks of any kind against exact arithmetic, without any tolerance: bounds, forward passes, and modules as run."""

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from flint import arb
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import APPNP, BatchNorm, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.models import GCN, GIN, MLP, GraphSAGE

import certgcl
import certgcl.bounds.rounding.forward_error
import certgcl.bounds.rounding.slack
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.largest_mixing import LargestMixing
from certgcl.bounds.rounding.slack import Sizes
from certgcl.models import Activation, GraphNetwork, TwoPieceLinear
from verification.audit import LEDGER
from verification.exact_arithmetic import ExactNetwork, surely_below, surely_positive
from verification.network_audit import PARAMETERS, certify_network, library_graph, library_network
from verification.network_case import Array, Mixing, NetworkCase, PlainActivation, PlainLayer, PlainTerm
from verification.networks import RELU, Builder, network_case, network_cases

SOME = settings(max_examples=max(6, settings().max_examples // 2), suppress_health_check=[HealthCheck.filter_too_much])
SCALES = (1.0, 1e-3, 1e3, 1e-30, 1e30)
PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@st.composite
def small_cases(draw: st.DrawFn, scales: tuple[float, ...] = SCALES) -> NetworkCase:
    """Few enough edges for Arb, and features and weights anywhere between under- and overflow."""
    case = draw(network_cases(max_depth=3).filter(lambda case: len(case.edges) <= 5))
    x, *factors = (draw(st.sampled_from(scales)) for _ in range(1 + len(case.layers)))
    layers = tuple(
        replace(
            layer,
            terms=tuple(
                replace(term, weight=term.weight * factor) if term.weight.ndim == 2 else term for term in layer.terms
            ),
        )
        for layer, factor in zip(case.layers, factors, strict=True)
    )
    return replace(case, x=case.x * x, layers=layers)


# -- bounds ------------------------------------------------------------------------------------------


def gcn(graph: nx.Graph, depth: int, seed: int, shift: float) -> NetworkCase:
    return network_case(graph, "GCN", depth, Builder(np.random.default_rng(seed), RELU, 3, features=3, shift=shift))


def each_scaled(case: NetworkCase, *factors: float) -> NetworkCase:
    """Without biases, and the matrices of every layer times a factor."""
    layers = tuple(
        replace(
            layer,
            bias=0 * layer.bias,
            terms=tuple(replace(term, weight=term.weight * factor) for term in layer.terms),
        )
        for layer, factor in zip(case.layers, factors, strict=True)
    )
    return replace(case, layers=layers, x=case.x.astype(np.float32).astype(np.float64))


def with_loops(case: NetworkCase, weight: float) -> NetworkCase:
    layers = tuple(
        replace(layer, terms=tuple(replace(term, loop=weight) for term in layer.terms)) for layer in case.layers
    )
    return replace(case, layers=layers)


# W2 W3 is too small for float64, in a range that W4 turns into a million times the slack, if losses of functionals are
# ignored.
UNDERFLOW = each_scaled(gcn(nx.lollipop_graph(3, 1), 4, 3, 0.0), 1e150, 1e-150, 1e-172, 1e172).with_budget(1)
# A node that loses all neighbours takes rounding errors of their sum a million times.
SMALL_LOOPS = with_loops(gcn(nx.star_graph(3), 3, 3, 0.15), 1e-12).with_budget(None)


@SOME
@given(
    small_cases(),
    st.sampled_from(["degree", "degree-fast", "crown", "interval"]),
    st.sampled_from([torch.float64, torch.float32]),
)
@example(UNDERFLOW, "degree", torch.float64)
@example(SMALL_LOOPS, "degree", torch.float64)
def test_bounds_hold_in_exact_arithmetic(case: NetworkCase, method: str, dtype: torch.dtype) -> None:
    check_bounds(case, method, dtype)


def check_bounds(case: NetworkCase, method: str, dtype: torch.dtype) -> None:
    case = replace(case, directions=case.directions.astype(np.float32).astype(np.float64))
    try:
        certificate = certify_network(case, method, dtype)
    except certgcl.errors.BoundError:
        return
    exact, tally = ExactNetwork(case), LEDGER.tallies[f"networks, exact arithmetic, bounds in {str(dtype)[6:]}"]
    tally.cases += 1
    tally.nodes += case.nodes
    for node in range(case.nodes):
        least = exact.minimum(node, [arb(value) for value in case.directions[node].tolist()])
        lower, rounding = float(certificate.lower[node]), float(certificate.rounding[node])
        wrong = surely_below(least + rounding, lower) or (
            bool(certificate.positive_in_exact_arithmetic[node]) and not surely_positive(least)
        )
        tally.violations += wrong
        assert not wrong, f"{case.kind}: node {node} certified at {lower} - {rounding}, the exact minimum is {least}"


SLACK_MUTANTS: dict[str, tuple[object, str, object, NetworkCase]] = {
    "products of functionals taken to be never too small": (
        certgcl.bounds.rounding.slack.ForwardError,
        "of",
        lambda *args, bounds, real=certgcl.bounds.rounding.slack.ForwardError.of: real(*args, bounds=False),
        UNDERFLOW,
    ),
    "scales taken to be those of edges that are kept": (LargestMixing, "spread", lambda *_: 1.0, SMALL_LOOPS),
}


@pytest.mark.parametrize("name", SLACK_MUTANTS)
def test_a_slack_without_one_of_its_parts_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong, case = SLACK_MUTANTS[name]
    row = "networks, exact arithmetic, bounds in float64"
    check_bounds(case, "degree", torch.float64)
    monkeypatch.setattr(owner, attribute, wrong)
    before = replace(LEDGER.tallies[row])
    with pytest.raises(AssertionError, match="certified at"):
        check_bounds(case, "degree", torch.float64)
    LEDGER.tallies[row] = before  # what a mutant does is no violation of the library


# -- runs --------------------------------------------------------------------------------------------


def plain(
    network: GraphNetwork, graph: nx.Graph, x: Tensor, local: int | list[int] | None = None, total: int | None = None
) -> NetworkCase:
    """A network of the library as a case of the audit, number by number."""
    layers = tuple(
        PlainLayer(
            tuple(
                PlainTerm(
                    term.source,
                    numbers(term.weight),
                    MIXED[term.aggregation.name],
                    getattr(term.aggregation, "loop", 1.0),
                )
                for term in layer.terms
            ),
            numbers(layer.bias),
            plain_activation(layer.activation),
        )
        for layer in network.layers
    )
    return NetworkCase(graph, numbers(x), layers, network.readout, np.zeros((len(graph), 0)), local, total)


def plain_activation(activation: Activation | None) -> PlainActivation | None:
    if activation is None:
        return None
    if isinstance(activation, TwoPieceLinear):
        return PlainActivation(activation.name, numbers(activation.slope))
    return PlainActivation(activation.name, activation.settings().get(PARAMETERS.get(activation.name, ""), 1.0))


def numbers(tensor: Tensor) -> Array:
    found: Array = tensor.detach().double().numpy()
    return found


MIXED: dict[str, Mixing] = {
    "local": "local",
    "symmetric": "symmetric",
    "diffusion": "symmetric",
    "mean": "mean",
    "sum": "sum",
}
Run = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def check_run(name: str, case: NetworkCase, network: GraphNetwork, run: Run) -> bool:
    """``|run - exact|`` against ``Sizes.run``, channel by channel on every admissible graph; whether it was finite."""
    graph = library_graph(case)
    problem = ChangeProblem(graph, certgcl.EdgeDropBudget(case.local, case.total).on(graph), torch.arange(case.nodes))
    allowed = Sizes.of(network, problem, torch.float64).run.nan_to_num(nan=torch.inf, posinf=torch.inf)
    exact, tally = ExactNetwork(case), LEDGER.tallies[name]
    order = torch.Generator().manual_seed(0)
    tally.cases += 1
    tally.nodes += case.nodes
    for drops, view in zip(exact.drops, exact.views, strict=True):
        kept = [edge for edge in case.edges if edge not in drops]
        edges = torch.tensor([*kept, *((v, u) for u, v in kept)], dtype=torch.long).reshape(-1, 2).T
        output = run(graph.x, edges[:, torch.randperm(edges.shape[1], generator=order)]).double()
        for node, expected in enumerate(view):
            for found, true, error in zip(output[node].tolist(), expected, allowed[node].tolist(), strict=True):
                wrong = error != np.inf and (not np.isfinite(found) or bool(abs(arb(found) - true) > arb(error)))
                tally.violations += wrong
                assert not wrong, f"{name}: node {node} without {drops} is {found}, not {true} to within {error}"
    return bool(allowed.isfinite().all())


@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=str)
@SOME
@given(case=small_cases())
def test_networks_run_within_their_error(precision: torch.dtype, case: NetworkCase) -> None:
    network = library_network(case).to(precision)
    assume(all(bool(tensor.isfinite().all()) for _, tensor in network.named_tensors()))
    network = replace(network, precision=precision)
    check_run(
        f"networks, as run in {str(precision)[6:]}",
        plain(network, case.graph, torch.from_numpy(case.x), case.local, case.total),
        network,
        lambda x, edges: network.embed(certgcl.Graph.of((x, edges))),
    )


class Steps(nn.Module):
    """Modules one after the other, those that mix nodes with the edges."""

    def __init__(self, *steps: nn.Module) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for step in self.steps:
            x = (
                step(x, edge_index)
                if isinstance(step, (GCNConv, SAGEConv, GraphConv, GINConv, SGConv, APPNP))
                else (step(x))
            )
        return x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = GCNConv(3, 4), GCNConv(4, 4), nn.Linear(7, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index).relu()
        return self.third(torch.cat([x, 0.3 * h + self.second(h, edge_index)], dim=1))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GCN(3, 4, 3, 2),
    "GCN, BatchNorm, jk": lambda: GCN(3, 4, 2, 2, norm="batch_norm", jk="cat"),
    "GCN, ELU": lambda: GCN(3, 4, 2, 2, act="elu"),
    "GCN, GELU": lambda: GCN(3, 4, 2, 2, act="gelu"),
    "GCN, tanh": lambda: GCN(3, 4, 2, 2, act="tanh"),
    "GCN, sigmoid": lambda: GCN(3, 4, 2, 2, act="sigmoid"),
    "GCN, SiLU": lambda: GCN(3, 4, 2, 2, act="silu"),
    "GCN, softplus": lambda: GCN(3, 4, 2, 2, act="softplus"),
    "GCN, no self-loops": lambda: Steps(
        GCNConv(3, 4, add_self_loops=False), nn.ReLU(), GCNConv(4, 2, add_self_loops=False)
    ),
    "SAGE": lambda: GraphSAGE(3, 4, 3, 2),
    "SAGE sum": lambda: GraphSAGE(3, 4, 2, 2, aggr="sum"),
    "SAGE without root": lambda: Steps(SAGEConv(3, 4, root_weight=False), nn.PReLU(), SAGEConv(4, 2)),
    "GraphConv": lambda: Steps(GraphConv(3, 4), nn.ReLU(), GraphConv(4, 2, aggr="mean")),
    "GIN": lambda: GIN(3, 4, 2, 2),
    "GIN, BatchNorm": lambda: GIN(3, 4, 2, 2, norm="batch_norm"),
    "GIN, eps": lambda: Steps(
        GINConv(MLP([3, 4, 4], norm="batch_norm"), train_eps=True, eps=0.37),
        nn.ELU(),
        GINConv(nn.Linear(4, 2), eps=-0.9),
    ),
    "SGC": lambda: Steps(SGConv(3, 2, K=3)),
    "SGC of one step": lambda: Steps(SGConv(3, 2, K=1)),
    "APPNP": lambda: Steps(nn.Linear(3, 4), nn.Tanh(), APPNP(3, 0.2)),
    "a matrix after APPNP": lambda: Steps(APPNP(2, 0.1), nn.Linear(3, 2)),
    "BatchNorm of features": lambda: Steps(BatchNorm(3), GCNConv(3, 2)),
    "residual": Residual,
}


def module(name: str, precision: torch.dtype, seed: int, scale: float) -> nn.Module:
    """With statistics and parameters of all sizes and signs."""
    torch.manual_seed(seed)
    made = MODULES[name]().eval()
    with torch.no_grad():
        for part in made.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_(mean=5)
                part.running_var.uniform_(0.01, 2)
                part.weight.normal_()
        for parameter in made.parameters():
            parameter.mul_(scale) if parameter.dim() == 2 else parameter.add_(0.1 * torch.randn_like(parameter))
    return made.to(precision)


GRAPH = nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3)])
GRAPH.add_node(4)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_modules_run_within_their_error(name: str, precision: torch.dtype) -> None:
    finite = 0
    for seed, scale, size in ((0, 1.0, 1.0), (1, 1.0, 100.0), (2, 30.0, 1e-3), (3, 1e-3, 1.0), (4, 1.0, 3e4)):
        model, x = module(name, precision, seed, scale), size * torch.randn(5, 3)
        x[seed % 5] = 0
        try:
            network = certgcl.read_network(model, certgcl.Graph.from_networkx(GRAPH, x))
        except (certgcl.errors.EncoderError, certgcl.errors.GraphError):
            if precision != torch.float16:  # which overflows on the clean graph already
                raise
            continue
        assert network.precision == precision
        finite += check_run(
            f"modules, as run in {str(precision)[6:]}",
            plain(network, GRAPH, x),
            network,
            lambda x, edges, model=model: model(x.to(precision), edges),
        )
    assert finite >= (4 if precision in (torch.float32, torch.float64) else 1)


def runs_of_float32() -> None:
    for name in ("GCN", "SAGE", "GIN", "SGC"):
        test_modules_run_within_their_error(name, torch.float32)


def test_roundings_that_are_not_counted_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of a rounding instead of those of a layer and its sums."""
    monkeypatch.setattr(
        certgcl.bounds.rounding.forward_error.Growth,
        "__call__",
        lambda self, counts: 0.01 * torch.full(counts.shape, torch.finfo(self.precision).eps),
    )
    before = replace(LEDGER.tallies["modules, as run in float32"])
    with pytest.raises(AssertionError, match="to within"):
        runs_of_float32()
    LEDGER.tallies["modules, as run in float32"] = before  # what a mutant does is no violation of the library
