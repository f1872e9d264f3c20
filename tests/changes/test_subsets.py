"""Numbers of sets of changes."""

from itertools import combinations

from certgcl.changes.subsets import ENOUGH, number_of_subsets


def test_small_numbers_are_exact() -> None:
    for items in range(7):
        for most in range(9):
            assert number_of_subsets(items, most) == sum(
                1 for size in range(most + 1) for _ in combinations(range(items), size)
            )


def test_very_many_sets_are_not_counted_to_the_end() -> None:
    """A minute for the pairs of a graph with 400 nodes, when they were."""
    assert number_of_subsets(10**6, 10**6) > ENOUGH
    assert number_of_subsets(61, 61) == 2**61
