"""How many shards are computed at a time."""

from collections.abc import Callable

from certgcl.certify.sharding.batch_size import LONGEST, PATIENCE, BatchSize


def batches(seconds: Callable[[int], float], shards: int) -> list[int]:
    """The sizes of all batches, where so many shards together take ``seconds(shards)``."""
    size, sizes = BatchSize(), []
    while sum(sizes) < shards:
        sizes.append(min(size.at_once, shards - sum(sizes)))
        size.after(sizes[-1], seconds(sizes[-1]))
    return sizes


def test_fast_shards_are_done_twice_as_many_at_a_time_until_they_take_half_a_minute() -> None:
    sizes = batches(lambda shards: shards * 1.0, 400)
    assert sizes[:6] == [1, 2, 4, 8, 16, 32]
    assert max(sizes) < 2 * PATIENCE


def test_slow_shards_that_share_nothing_are_done_one_by_one() -> None:
    assert batches(lambda shards: shards * 50.0, 8) == [1, 2, 1, 1, 1, 1, 1]


def test_slow_shards_that_share_most_of_their_work_are_done_together() -> None:
    sizes = batches(lambda shards: 100 + shards * 0.5, 500)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 245]


def test_no_batch_takes_much_longer_than_ten_minutes() -> None:
    sizes = batches(lambda shards: 200 + shards * 10.0, 400)
    assert 200 + 10 * max(sizes) <= LONGEST


def test_a_batch_that_took_too_long_is_followed_by_smaller_ones() -> None:
    size = BatchSize(at_once=8)
    size.after(8, 2 * LONGEST)
    assert size.at_once == 4
    for _ in range(5):
        size.after(size.at_once, 2 * LONGEST)
    assert size.at_once == 1
