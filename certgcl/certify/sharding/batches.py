"""Which shards are computed next: several at a time, skipping those that are finished or that another process is
computing."""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.sharding.batch_size import BatchSize
from certgcl.certify.sharding.files import is_finished
from certgcl.certify.sharding.manifest import Manifest, ShardPlan
from certgcl.errors import LockedError
from certgcl.executors import Executor, Needs, Piece
from certgcl.files.locks import locked
from certgcl.runtime.reproducible import PART

PARTS_PER_WORKER = 4  # share of the remaining shards, so that all workers finish at about the same time


@dataclass(frozen=True, eq=False)
class ShardBatch:
    """Shards that are computed together.

    Args:
        nodes: of each shard.
        share: of the time that a search has for all shards.
        memory_limit: in bytes, for the bounds.
    """

    nodes: dict[int, Tensor]
    share: float
    memory_limit: int | None


class Batches:
    """The shards of a run that are still to be done, given out as pieces of work.

    A shard that is given out is locked until :meth:`release`. Pieces may be taken in a different thread from the one
    that handles answers.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        plan: ShardPlan,
        question: Question,
        executor: Executor,
        memory_limit: int | None,
    ) -> None:
        self._folder, self._manifest, self._plan, self._question = folder, manifest, plan, question
        self._executor, self._memory_limit = executor, memory_limit
        self._claims: dict[int, ExitStack] = {}
        self.elsewhere: dict[int, LockedError] = {}  # shards that another process is computing
        self.kept: deque[int] = deque()  # shards that were found finished
        self.size = BatchSize()

    def pieces(self, shards: list[int], *, together: bool = True) -> Iterator[Piece]:
        """Batches of some shards, of a size that pays off; those that another process is computing go to
        ``elsewhere``.

        Args:
            together: if False, one at a time, to find out which one fails.
        """
        waiting, workers = list(shards), self._executor.workers
        while waiting:
            most = -(-len(waiting) // (PARTS_PER_WORKER * workers)) if workers > 1 else len(waiting)
            number = min(self.size.at_once, most) if together and not self._question.reproducible else 1
            batch, waiting = waiting[:number], waiting[number:]
            nodes = {shard: here for shard in batch for here in [self._plan.nodes(shard)] if self._claim(shard, here)}
            if nodes:
                yield self._piece(nodes, workers)

    def release(self, shard: int) -> None:
        self._claims.pop(shard).close()

    def release_all(self) -> None:
        for shard in list(self._claims):
            self.release(shard)

    def _claim(self, shard: int, nodes: Tensor) -> bool:
        """Whether it is missing, and now locked by us."""
        if self._finished(shard, nodes):
            self.kept.append(shard)
            return False
        name, claim = self._manifest.file_name(shard), ExitStack()
        try:
            claim.enter_context(
                locked(
                    self._folder,
                    name,
                    what=f"{self._folder / name}",
                    needed=False,
                    remedy="Run the same command again when it has finished; finished shards are kept",
                )
            )
        except LockedError as error:
            self.elsewhere[shard] = error
            return False
        if self._finished(shard, nodes):  # it may have been finished before we got the lock
            claim.close()
            self.kept.append(shard)
            return False
        self._claims[shard] = claim
        return True

    def _finished(self, shard: int, nodes: Tensor) -> bool:
        return is_finished(self._folder, self._manifest, shard, nodes, self._question.proof)

    def _piece(self, nodes: dict[int, Tensor], workers: int) -> Piece:
        """The piece of work with the memory that its method estimates, or what a worker has if that is less: parts fit
        into that."""
        anchors, question = torch.cat(list(nodes.values())), self._question
        share = min(1.0, workers * len(anchors) / len(self._plan.anchors))
        room = self._executor.memory
        if room is None:
            return Piece(tuple(nodes), ShardBatch(nodes, share, self._memory_limit))
        limit = self._memory_limit or (None if question.reproducible else room)
        needed = min(question.estimated_bytes(anchors), limit or PART)
        return Piece(tuple(nodes), ShardBatch(nodes, share, limit), Needs(needed))


def certified(question: Question, batch: ShardBatch) -> dict[int, Certificate]:
    """The task of a worker: the certificates of some shards, all computed at once, without the budgets."""
    nodes = torch.cat(list(batch.nodes.values()))
    certificate = question.in_its_time(batch.share).certify(nodes, batch.memory_limit)
    none = nodes[:0].cpu()
    certificate = replace(certificate, local_budget=none, requested_budget=none)  # one entry per node of the graph
    places = torch.arange(len(nodes), device=nodes.device).split([len(here) for here in batch.nodes.values()])
    return {shard: certificate.at(here) for shard, here in zip(batch.nodes, places, strict=True)}
