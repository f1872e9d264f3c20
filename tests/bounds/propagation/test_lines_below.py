"""Lines that stop at ranges: the kernel gives what descends layer by layer, for all functionals at once."""

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import compiled
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.levels import in_portions
from certgcl.bounds.propagation.lines_below import brief_lines, joined, lines_at
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.changes.changes import AdmissibleChanges
from certgcl.models import GraphNetwork, Layer, Mean, Sum, SymmetricNorm, Term, TwoPieceLinear
from certgcl.models.activations import SlopeRule
from certgcl.models.aggregations import Aggregation

RULES: list[tuple[SlopeRule, ...]] = [("adaptive",), ("adaptive", "flat", "parallel")]
LEAKY = TwoPieceLinear(torch.tensor(0.2, dtype=torch.float64))


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(source: int, aggregation: Aggregation, local: str) -> Layer:
    """With no term of the node alone, one of its own weight, or one that shares the weight as in a GIN."""
    weight = random(5, 5, seed=source)
    mixed = Term(source, weight, aggregation)
    own = {"none": (), "own": (Term(source, random(5, 5, seed=10 + source)),), "shared": (Term(source, weight),)}
    return Layer((mixed, *own[local]), random(5, seed=20 + source), LEAKY)


def ranges_of(aggregation: Aggregation, local: str, rules: tuple[SlopeRule, ...]) -> NetworkRanges:
    pairs = torch.randint(0, 14, (2, 30), generator=torch.Generator().manual_seed(3))
    on = Graph.cleaned((random(14, 5, seed=4), pairs))
    model = GraphNetwork(tuple(layer(source, aggregation, local) for source in range(3)))
    settings = Settings(rules, "mixed", 6, None, functional=True)
    changes = AdmissibleChanges(EdgeDropBudget(2).on(on))
    found = NetworkRanges(model, on, changes, torch.arange(on.num_nodes), settings)
    NetworkBound(found)
    return found.by_node()


@pytest.mark.parametrize("rules", RULES, ids=["one rule", "three rules"])
@pytest.mark.parametrize("local", ["none", "own", "shared"])
@pytest.mark.parametrize("aggregation", [SymmetricNorm(), SymmetricNorm(0.0), Sum(), Mean()], ids=repr)
def test_the_kernel_gives_the_lines_of_all_cells(
    aggregation: Aggregation, local: str, rules: tuple[SlopeRule, ...]
) -> None:
    half = random(3, 5, seed=7)
    with torch.no_grad():
        ranges = ranges_of(aggregation, local, rules)
        ball = ranges.balls[1]
        term = ranges.network.layers[2].terms[0]
        mix = Mix(term, Functionals(torch.cat([half, -half])[None, None], paired=True))
        found = brief_lines(ranges, mix, ball)
        assert found is not None
        assert found.leaves is not None
        places = torch.arange(len(ball.cells.row))
        with compiled.switched_off():
            assert brief_lines(ranges, mix, ball) is None
            parts = [lines_at(ranges, Cells(ball, some), {2: mix.functionals}) for some in places.split(5)]
    expected = joined(parts)
    assert expected.leaves is not None
    assert found.scales == expected.scales
    torch.testing.assert_close(found.constant, expected.constant)
    for one, other in zip(found.leaves, expected.leaves, strict=True):
        torch.testing.assert_close(one, other)


def test_portions_are_in_order_and_add_up_to_the_limit() -> None:
    places, size = torch.arange(10, 20), torch.tensor([1, 2, 3, 9, 1, 1, 1, 1, 1, 1])
    portions = in_portions(places, size, 5)
    assert torch.equal(torch.cat(portions), places)
    for portion in portions:
        assert int(size[portion[1:] - 10].sum()) <= 5
    assert len(in_portions(places[:0], size[:0], 5)) == 0
