"""The search for drops on networks of every aggregation and depth, against the network itself on changed graphs."""

import time
from itertools import combinations, pairwise

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.attacks import Field, Search, SearchSpace
from certgcl.attacks.batch import FieldBatch, Scales
from certgcl.attacks.changes import apart_from_better, filled, promising_changes
from certgcl.attacks.field import Reach
from certgcl.attacks.relaxed import by_relaxation
from certgcl.attacks.single_changes import ChangedValues
from certgcl.changes.changes import BudgetLike
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.models.activations import Activation
from certgcl.models.aggregations import Aggregation, Local, Mean, Sum, SymmetricNorm
from certgcl.models.layer import Layer, Term
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear
from tests.toys import admissible_sets, random_graph, random_tensor, toy_graph, without

BUDGETS = [
    EdgeDropBudget(local=1),
    EdgeDropBudget(local=2),
    EdgeDropBudget(total=2),
    EdgeDropBudget(local=2, total=4),
    EdgeDropBudget(local=[k % 4 for k in range(14)]),
]
KINDS = [SymmetricNorm(), SymmetricNorm(0.0), SymmetricNorm(2.0), Mean(), Sum()]
GRAPH = toy_graph(
    nx.disjoint_union(
        nx.empty_graph(1),
        nx.compose(  # a node alone, a hub and much between
            nx.gnp_random_graph(13, 0.15, seed=2), nx.star_graph(6)
        ),
    )
)

kinds = pytest.mark.parametrize("kind", KINDS, ids=str)
budgets = pytest.mark.parametrize("budget", BUDGETS, ids=str)


def network_of(kind: Aggregation, depth: int, seed: int = 0, root: bool = False, slope: float = 0.2) -> GraphNetwork:
    """Convolutions of one kind; with root weights, all layers are read out."""
    widths = [3, *[4] * (depth - 1), 3]
    activation: Activation = TwoPieceLinear(torch.tensor(slope, dtype=torch.float64))
    layers = []
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        terms = [Term(number, random_tensor(inputs, outputs, seed=seed + 7 * number), kind)]
        if root:
            terms.append(Term(number, random_tensor(inputs, outputs, seed=seed + 7 * number + 1)))
        layers.append(Layer(tuple(terms), random_tensor(outputs, seed=seed + 7 * number + 2) / 2, activation))
    return GraphNetwork(tuple(layers), tuple(range(1, depth + 1)) if root else ())


def space_of(
    graph: Graph, budget: BudgetLike = 2, kind: Aggregation | None = None, depth: int = 2, **settings: bool
) -> SearchSpace:
    network = network_of(kind or SymmetricNorm(), depth, **settings)
    return SearchSpace(network, graph, EdgeDropBudget.of(budget).on(graph))


def field_of(space: SearchSpace, anchor: int, all_edges: bool = False) -> Field:
    field = space.field(anchor, all_edges)
    assert field is not None
    return field


def batch_of(space: SearchSpace, anchors: range | list[int]) -> FieldBatch:
    directions = random_tensor(space.graph.num_nodes, space.network.width, seed=3)
    return FieldBatch.of(space, [field_of(space, anchor) for anchor in anchors], directions[list(anchors)])


def value_at(space: SearchSpace, field: Field, positions: Tensor, direction: Tensor) -> float:
    """The network itself on the changed graph."""
    edges = tuple((i, j) for i, j in space.edges(field, positions).T.tolist())
    return float(space.network.embed(without(space.graph, edges))[field.anchor] @ direction)


def random_drops(batch: FieldBatch, seed: int) -> Tensor:
    """As many random edges as fit together, ``(B, E)``."""
    chance = random_tensor(*batch.ends.shape[:2], seed=seed)
    return filled(batch, torch.zeros_like(chance, dtype=torch.bool), chance, chance < 0.3)


def is_admissible(batch: FieldBatch, dropped: Tensor) -> bool:
    """Drops within all budgets, and none of the padding among them."""
    return bool(
        (batch.lost(dropped) <= batch.budget).all()
        and not dropped[:, -1].any()
        and (dropped.sum(dim=1) <= batch.space.drops.total).all()
    )


def changed(dropped: Tensor, changes: Tensor) -> Tensor:
    """Drops ``(B, E)`` once each of C sets of edges ``(B, C, F)`` has changed sides, ``(B, C, E)``."""
    after = dropped[:, None].repeat(1, changes.shape[1], 1)
    for part in changes.unbind(dim=2):
        after.scatter_(2, part[..., None], ~after.gather(2, part[..., None]))
    after[..., -1] = False  # padding
    return after


# -- fields ----------------------------------------------------------------------------------------


def test_reach_says_how_far_each_part_matters() -> None:
    assert Reach.of(network_of(SymmetricNorm(), 3)) == Reach((3, 2, 1, 0), 2, 3)
    assert Reach.of(network_of(Mean(), 3)) == Reach((3, 2, 1, 0), 2, 2)
    assert Reach.of(network_of(Sum(), 1)) == Reach((1, 0), 0, 0)
    assert Reach.of(network_of(Local(), 2)) == Reach((0, 0, 0), -1, -1)
    unused = network_of(SymmetricNorm(), 2)
    unused = GraphNetwork(
        (*unused.layers, Layer((Term(2, torch.eye(3, dtype=torch.float64)),), unused.layers[1].bias)), readout=(1,)
    )
    assert Reach.of(unused) == Reach((1, 0, -1, -1), 0, 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@kinds
def test_a_field_is_all_that_an_embedding_depends_on(kind: Aggregation, depth: int, root: bool, sparse: bool) -> None:
    """Pairs of its edges give the network's own value; all other edges of the graph do nothing."""
    graph = random_graph(nodes=12, density=0.2, sparse=sparse)
    space = space_of(graph, 2, kind, depth, root=root)
    for anchor in (3, 7):
        field, direction = field_of(space, anchor, all_edges=True), random_tensor(space.network.width, seed=anchor)
        batch = FieldBatch.of(space, [field], direction[None])
        for pair in list(combinations(range(len(field.slots)), 2))[::7]:
            dropped = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
            dropped[0, list(pair)] = True
            assert float(batch.values(dropped)) == pytest.approx(value_at(space, field, torch.tensor(pair), direction))
        others = torch.ones(len(graph.col), dtype=torch.bool)
        others[field.slots] = False
        others &= graph.row < graph.col
        view = without(graph, tuple((i, j) for i, j in graph.edge_index[:, others].T.tolist()))
        torch.testing.assert_close(space.network.embed(view)[anchor], space.network.embed(graph)[anchor])


def test_a_field_has_the_nodes_in_reach_and_the_edges_that_matter_there() -> None:
    graph = toy_graph(nx.path_graph(9))
    field = field_of(space_of(graph), 2, all_edges=True)
    assert field.nodes.tolist() == [2, 1, 3, 0, 4, 5]
    assert field.distance.tolist() == [0, 1, 1, 2, 2, 3]
    assert field.degree.tolist() == [2, 2, 2, 1, 2, 2]
    assert [{i, j} for i, j in field.nodes[field.edges].T.tolist()] == [{k, k + 1} for k in range(5)]
    mean = field_of(space_of(graph, kind=Mean()), 2, all_edges=True)  # at the last nodes nothing is counted
    assert mean.nodes.tolist() == [2, 1, 3, 0, 4]
    assert len(mean.slots) == 4


def test_of_edges_that_only_count_there_are_no_more_than_a_node_can_lose() -> None:
    """A path of three, and five leaves at its end: only their number matters."""
    graph = toy_graph(nx.Graph([(0, 1), (1, 2), *((2, leaf) for leaf in range(3, 8))]))
    space = space_of(graph, 2)
    every, enough = field_of(space, 0, all_edges=True), field_of(space, 0)
    assert (len(every.slots), len(enough.slots)) == (7, 4)
    assert set(enough.slots.tolist()) < set(every.slots.tolist())
    direction = random_tensor(3, seed=0)
    for drops in ([2], [2, 3]):
        values = [value_at(space, field, torch.tensor(drops), direction) for field in (every, enough)]
        assert values[0] == pytest.approx(values[1])


def test_large_fields_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(random_graph(nodes=12, density=0.4))
    messages = len(field_of(space, 0).row)
    monkeypatch.setattr("certgcl.attacks.field.LARGEST_FIELD", messages - 1)
    assert space.field(0) is None


# -- fields side by side ---------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
@kinds
def test_values_side_by_side_are_those_of_each_field(kind: Aggregation, depth: int) -> None:
    batch = batch_of(space_of(GRAPH, 2, kind, depth, root=True), range(14))
    for seed in range(3):
        dropped = random_drops(batch, seed)
        assert is_admissible(batch, dropped)
        expected = [
            value_at(batch.space, field, mask.nonzero()[:, 0], direction)
            for field, mask, direction in zip(batch.members, dropped, batch.direction, strict=True)
        ]
        torch.testing.assert_close(batch.values(dropped), torch.tensor(expected, dtype=torch.float64))
        some = torch.tensor([11, 0, 4])
        torch.testing.assert_close(batch.at(some).values(dropped[some]), batch.values(dropped)[some])


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@kinds
def test_values_after_changes_are_those_of_the_changed_drops(kind: Aggregation, depth: int, root: bool) -> None:
    """Random edges, with the edge that is nothing among them."""
    batch = batch_of(space_of(GRAPH, 2, kind, depth, root=root), range(14))
    chance = torch.Generator().manual_seed(0)
    pairs = torch.rand(14, 40, batch.nothing, generator=chance).topk(2, dim=2).indices
    padded = batch.ends[..., 0] == len(batch.node)
    pairs = pairs.masked_fill(padded.gather(1, pairs.flatten(1)).view(pairs.shape), batch.nothing)
    changes = torch.cat([pairs[..., :1], torch.full_like(pairs[..., :1], batch.nothing), pairs[..., 1:]], dim=2)
    dropped = random_drops(batch, 1)
    expected = torch.stack([batch.values(after) for after in changed(dropped, changes).unbind(dim=1)], dim=1)
    torch.testing.assert_close(ChangedValues(batch, dropped)(changes), expected)


def test_gains_are_exact_changes_to_first_order() -> None:
    """No kinks in the activations: what is left falls with the square of the degrees, or faster."""
    errors = []
    for nodes in (20, 40):
        graph = toy_graph(nx.complete_graph(nodes))
        space = SearchSpace(network_of(SymmetricNorm(), 2, slope=1.0), graph, EdgeDropBudget(local=4).on(graph))
        batch = batch_of(space, [0])
        dropped = random_drops(batch, 0)
        each = torch.arange(batch.nothing)[None, :, None]
        change = (ChangedValues(batch, dropped)(each) - batch.values(dropped)[:, None])[0]
        *gains, of_nothing = batch.gains(dropped)[0].split([len(change), 1])
        assert float(of_nothing) == 0.0
        own = batch.nearest[0, :-1] == 0
        errors.append([float((gains[0] - change)[part].abs().max()) for part in (own, ~own)])
        for part in (own, ~own):
            assert torch.corrcoef(torch.stack([gains[0][part], change[part]]))[0, 1] > 0.99
    assert all(large < small / 3 for small, large in zip(*errors, strict=True))


def test_without_mixing_no_edge_is_worth_anything() -> None:
    batch = batch_of(space_of(GRAPH, 2, Local(), 2), range(14))
    nothing = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
    assert not batch.gains(nothing).any()
    assert not batch.slopes(nothing.double())[1].any()
    assert batch.ends.shape[1] == 1


# -- relaxation ------------------------------------------------------------------------------------


@kinds
def test_slopes_of_the_relaxation_are_derivatives(kind: Aggregation) -> None:
    batch = batch_of(space_of(GRAPH, 2, kind, 2, root=True), range(14))
    shares = torch.rand(batch.ends.shape[:2], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step = random_tensor(*shares.shape, seed=1)
    step[:, -1] = 0
    values, slopes = batch.slopes(shares)
    ahead, behind = (batch.values(shares + sign * 1e-6 * step) for sign in (1, -1))
    torch.testing.assert_close((slopes * step).sum(dim=1), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(values, batch.values(shares))


@kinds
def test_scales_stay_finite_where_hardly_a_neighbour_is_left(kind: Aggregation) -> None:
    count = torch.tensor([0.0, 1e-12, 0.5, 1.0, 2.0], dtype=torch.float64)
    scales = Scales.of(kind, count)
    for relaxed, exact in (
        (scales.own, kind.own(count)),
        (scales.out, kind.out(count)),
        (scales.into, kind.into(count)),
    ):
        assert (relaxed.abs() <= 1.5).all()
        torch.testing.assert_close(relaxed[3:], exact[3:])


@kinds
@budgets
def test_relaxation_ends_at_admissible_drops_that_are_no_worse(kind: Aggregation, budget: EdgeDropBudget) -> None:
    batch = batch_of(space_of(GRAPH, budget, kind), range(14))
    nothing = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
    for start in (nothing, random_drops(batch, 2)):
        found = by_relaxation(batch, start, 8)
        assert is_admissible(batch, found)
        assert (batch.values(found) <= batch.values(start) + 1e-5).all()  # it is computed in float32


# -- changes ---------------------------------------------------------------------------------------


@budgets
def test_every_proposed_change_is_admissible_alone_and_with_others(budget: EdgeDropBudget) -> None:
    batch = batch_of(space_of(GRAPH, budget), range(14))
    everywhere = torch.ones(batch.ends.shape[:2], dtype=torch.bool)
    for seed in range(4):
        dropped = random_drops(batch, seed)
        changes = promising_changes(batch, dropped, everywhere, 200)
        after = changed(dropped, changes)
        assert all(is_admissible(batch, each) for each in after.unbind(dim=1))
        real = (after != dropped[:, None]).any(dim=2)
        assert real.any()
        assert not real[0].any()  # a node alone
        order = random_tensor(*changes.shape[:2], seed=seed).argsort(dim=1)
        apart = apart_from_better(batch, dropped, changes, order)
        together = dropped ^ ((after ^ dropped[:, None]) & apart[..., None]).any(dim=1)
        assert is_admissible(batch, together)
        assert apart.gather(1, order.argsort(dim=1)[:, :1]).all()  # the first is always among them


@budgets
def test_budgets_are_filled_with_the_best_first(budget: EdgeDropBudget) -> None:
    batch = batch_of(space_of(GRAPH, budget), range(14))
    dropped, gains = random_drops(batch, 1), random_tensor(*batch.ends.shape[:2], seed=9)
    found = filled(batch, dropped, gains, gains < 0)
    assert is_admissible(batch, found)
    assert not (dropped & ~found).any()
    assert not (found & ~dropped & (gains >= 0)).any()

    def fits(drops: Tensor) -> Tensor:
        left, total = batch.budget - batch.lost(drops), batch.space.drops.total - drops.sum(dim=1, keepdim=True)
        return (left[batch.ends] > 0).all(dim=2) & (total > 0) & ~drops & (gains < 0)

    assert not fits(found).any()
    best = torch.where(fits(dropped), gains, torch.inf).argmin(dim=1)
    assert torch.equal(
        found.gather(1, best[:, None])[:, 0], fits(dropped).any(dim=1) | dropped.gather(1, best[:, None])[:, 0]
    )


# -- the search ------------------------------------------------------------------------------------


def searched(space: SearchSpace, search: Search, directions: Tensor) -> list[Tensor]:
    return search(space, [field_of(space, anchor) for anchor in range(space.graph.num_nodes)], directions)


@pytest.mark.parametrize("depth", [1, 2, 3])
@kinds
def test_the_search_is_admissible_never_below_the_minimum_and_mostly_there(kind: Aggregation, depth: int) -> None:
    reached = []
    for seed, budget in enumerate((EdgeDropBudget(local=1), EdgeDropBudget(local=2), EdgeDropBudget(total=2))):
        graph = random_graph(nodes=7, density=0.3, seed=seed)
        space = space_of(graph, budget, kind, depth)
        directions = random_tensor(7, 3, seed=seed)
        sets = list(admissible_sets(graph, space.drops.local, space.drops.total))
        embeddings = torch.stack([space.network.embed(without(graph, each)) for each in sets])
        minimum, clean = (embeddings * directions).sum(dim=2).amin(dim=0), (embeddings[0] * directions).sum(dim=1)
        for anchor, found in enumerate(searched(space, Search(), directions)):
            field = field_of(space, anchor)
            assert {(i, j) for i, j in space.edges(field, found).T.tolist()} in map(set, sets)
            value = value_at(space, field, found, directions[anchor])
            assert minimum[anchor] - 1e-9 <= value <= clean[anchor] + 1e-9
            reached.append(value <= minimum[anchor] + 1e-9)
    assert sum(reached) >= 0.9 * len(reached)


def test_nothing_to_search_or_to_drop_is_nothing_found() -> None:
    space = space_of(GRAPH)
    assert Search()(space, [], torch.empty(0, 3, dtype=torch.float64)) == []
    (alone,) = Search()(space, [field_of(space, 0)], torch.ones(1, 3, dtype=torch.float64))
    assert alone.numel() == 0
    kept = space_of(GRAPH, 0)
    assert all(found.numel() == 0 for found in searched(kept, Search(), random_tensor(14, 3, seed=0)))


@budgets
def test_fields_together_are_searched_as_one_by_one(budget: EdgeDropBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    space, directions = space_of(GRAPH, budget), random_tensor(14, 3, seed=3)
    quick = Search(relaxed=3, tried=(6,))
    together = searched(space, quick, directions)
    monkeypatch.setattr("certgcl.attacks.descent.MAX_SIZE", 0)  # a batch for each
    assert [found.tolist() for found in together] == [found.tolist() for found in searched(space, quick, directions)]


def test_a_search_is_reproducible_and_draws_no_random_numbers_of_others() -> None:
    space, directions, found = space_of(GRAPH), random_tensor(14, 3, seed=3), []
    for seed in (1, 2):
        state = torch.manual_seed(seed).get_state()
        found.append([each.tolist() for each in searched(space, Search(), directions)])
        assert torch.equal(torch.get_rng_state(), state)
    assert found[0] == found[1]


def test_more_restarts_are_never_worse_and_improved_drops_neither() -> None:
    graph = random_graph(nodes=12, density=0.45)
    space, directions, values = space_of(graph, 2), random_tensor(12, 3, seed=3), []
    for restarts in (0, 1, 3):
        found = searched(space, Search(0, restarts, tried=(4,)), directions)
        values.append(
            [value_at(space, field_of(space, anchor), each, directions[anchor]) for anchor, each in enumerate(found)]
        )
    fewer, more = torch.tensor(values[:-1]), torch.tensor(values[1:])
    assert (more <= fewer + 1e-12).all()
    assert (more < fewer - 1e-9).any()
    for anchor in range(12):
        field = field_of(space, anchor)
        start = torch.arange(1)
        better = Search().improved(space, field, directions[anchor], start)
        assert value_at(space, field, better, directions[anchor]) <= (
            value_at(space, field, start, directions[anchor]) + 1e-12
        )


def test_a_search_ends_when_its_time_is_over() -> None:
    space = space_of(GRAPH)
    fields = [field_of(space, anchor) for anchor in range(14)]
    found = Search()(space, fields, random_tensor(14, 3, seed=3), end=time.monotonic() - 1)
    assert all(each.numel() == 0 for each in found)
