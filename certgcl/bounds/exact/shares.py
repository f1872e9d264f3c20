"""The anchors of a search in shares that run at the same time."""

from collections.abc import Callable
from contextlib import closing

import torch
from torch import Tensor

from certgcl.bounds.engine import engine_for
from certgcl.bounds.exact.anchors import AnchorSearch, Brackets
from certgcl.executors import Executor, Piece


def searched(
    search: AnchorSearch, number: int, executor: Executor, progress: Callable[[int, int], object] | None = None
) -> Brackets:
    """The brackets of a search whose anchors are dealt out in turn, so that every share has easy and hard ones.

    There are as many shares as can run at the same time: with a time limit, all have to start at once.
    """
    places = search.order().tolist()
    shares = [torch.tensor(places[start::number]) for start in range(number)]
    finished, parts = 0, dict[int, Brackets]()
    with closing(executor.stream(_search, search, [Piece(*each) for each in enumerate(shares)])) as answers:
        for done in answers:
            parts[done.key], closed = done.value()  # the first failure ends it
            finished += closed
            if progress is not None:
                progress(finished, len(places))
    return Brackets.joined([parts[share] for share in range(number)]).at(torch.argsort(torch.cat(shares)))


def _search(search: AnchorSearch, share: Tensor) -> tuple[Brackets, int]:
    """The brackets of one share, and how many of its anchors are finished."""
    seen = [0]
    with engine_for(search.network, search.graph):
        found = search.at(share).run(lambda finished, _: seen.append(finished))
    return found, seen[-1]
