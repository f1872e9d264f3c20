"""Certificates of large graphs, computed and written shard by shard: resumable, and on several machines at once.

Shards repeat the work on the neighbours that they share, which on graphs with hubs is most of it. So several are
computed together (:mod:`certgcl.certify.sharding.batch_size`), but each is still a file of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from certgcl.arguments import callback, flag, path
from certgcl.bounds import BoundMethod
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.halos import HaloQuestion
from certgcl.certify.sharding.batches import Batches, certified
from certgcl.certify.sharding.files import listed, load_shard, save_shard
from certgcl.certify.sharding.manifest import MANIFEST, Manifest, ShardOrder, ShardPlan
from certgcl.changes.changes import BudgetLike
from certgcl.errors import CertificateError, InputError, ShardError
from certgcl.executors import Done, Executor, ExecutorLike, Piece, ThisProcess, get_executor
from certgcl.files.atomic import remove_leftovers
from certgcl.files.locks import locked
from certgcl.graphs.graph import GraphLike
from certgcl.graphs.stored import StoredGraph
from certgcl.models.reading import ModelLike, Reading
from certgcl.runtime.out_of_memory import SMALLER, told_when_out_of_memory

MERGED = "certificate.npz"
MOST_ERRORS = 3  # of failed shards, in one message


@dataclass(frozen=True)
class ShardProgress:
    """The progress of a run; passed to ``progress`` when it starts and after every shard."""

    shards_done: int
    shards: int
    nodes_done: int
    nodes: int
    nodes_computed: int  # the rest existed already

    def after(self, size: int, kept: bool) -> "ShardProgress":
        """The same with one more shard done."""
        return ShardProgress(
            self.shards_done + 1,
            self.shards,
            self.nodes_done + size,
            self.nodes,
            self.nodes_computed + (0 if kept else size),
        )


@dataclass(frozen=True)
class ShardRun:
    """The result of a run: the shards that it computed, and those that were finished before."""

    folder: Path
    manifest: Manifest
    computed: list[int]
    kept: list[int]

    @property
    def missing(self) -> list[int]:
        """The shards of the whole plan that have no file yet."""
        return [
            shard
            for shard in range(self.manifest.shards)
            if not (self.folder / self.manifest.file_name(shard)).exists()
        ]


@told_when_out_of_memory()
def certify_shards(
    model: ModelLike,
    graph: GraphLike | StoredGraph,
    budgets: BudgetLike,
    out: str | Path,
    *,
    method: str | BoundMethod = "degree",
    view: GraphLike | None = None,
    directions: Tensor | None = None,
    nodes: Tensor | Sequence[int] | None = None,
    dtype: torch.dtype = torch.float64,
    shards: int | None = None,
    order: ShardOrder = "near",
    only: Sequence[int] | None = None,
    worker: tuple[int, int] | None = None,
    memory_limit: int | None = None,
    reproducible: bool | None = None,
    reading: Reading = "traced",
    executor: ExecutorLike = None,
    proof: bool = False,
    progress: Callable[[ShardProgress], object] | None = None,
) -> ShardRun:
    """:func:`certgcl.node_compactness` in shards, each a certificate in a file of its own in the folder ``out``.

    A shard is written completely or not at all, and finished ones are kept: after a kill, call again with the same
    arguments. Processes on several machines may share the folder. ``merge_shards(out)`` makes one certificate of it.

    A shard is computed by one process at a time. One that another process is computing is left for last; if it is still
    unfinished then, ``LockedError`` names that process, and all other shards are done.

    Args:
        graph: anything that :meth:`certgcl.Graph.of` accepts; or a :class:`certgcl.StoredGraph`, from which every part
            of the anchors loads the nodes that it depends on, within the memory limit.
        out: the folder; created if needed. One that holds shards of another question raises an error.
        directions: if given, what is bounded instead of compactness, as in :func:`certgcl.linear_bounds`.
        shards: their number; by default the number that the folder was made for, or one shard for about two thousand
            nodes.
        order: ``"near"`` puts neighbours into the same shard, which saves work; ``"given"`` keeps the order of
            ``nodes``. The merged certificate has the nodes as given in either case.
        only: the shards to do; all by default.
        worker: ``(k, n)`` to do only the shards with ``shard % n == k``.
        reproducible: compute every shard separately and by one thread, so that its file is the same to the last bit
            whichever process writes it (same kind of processor, same versions; the manifest names them, and others
            raise an error). By default as the folder was made, otherwise off: then several shards are computed
            together, by all threads, and the last bits depend on which ones.
        executor: where shards are computed: ``"here"`` (the default, with all threads of this process),
            ``"processes"`` of this machine, ``"ray"``, or an instance of :class:`certgcl.LocalProcesses` or
            :class:`certgcl.RayCluster`. Shards come back to this process, the only one that writes to the folder. A
            shard that fails permanently is named in a ``ShardError``; all others are kept.
        proof: as in :func:`certgcl.node_compactness`; finished shards without one are computed again.
        progress: called when the run starts and after every shard.

    Other arguments as in :func:`certgcl.node_compactness`.

    Example::

        run = certgcl.certify_shards(encoder, data, 2, "out")
        certificate = certgcl.merge_shards("out")
    """
    folder = path(out, "out", ShardError)
    callback(progress, "progress")
    if directions is not None and view is not None:
        raise InputError(
            "directions= with view=", "a view is where the directions of compactness come from", "Leave one out"
        )
    place = get_executor(executor)
    if isinstance(graph, StoredGraph):
        if flag(proof, "proof"):
            raise InputError("proof=True with a graph on disk", "the checker takes the whole graph", "Load the graph")
        if directions is not None or view is not None:
            raise InputError(
                f"{'view' if directions is None else 'directions'}= with a graph on disk",
                "its halos are compared with the graph itself",
                "Leave it out, or load the graph",
            )
        question: Question = HaloQuestion.about(model, graph, budgets, method=method, dtype=dtype, reading=reading)
        order = "given"  # in the order of its node numbers
    elif directions is None:
        question = Question.compactness(
            model, graph, budgets, method=method, view=view, dtype=dtype, proof=flag(proof, "proof"), reading=reading
        )
    else:
        question = Question.linear(
            model, graph, budgets, directions, method=method, dtype=dtype, proof=flag(proof, "proof"), reading=reading
        )
    anchors = question.anchors(nodes)
    there = Manifest.read(folder) if (folder / MANIFEST).exists() else None
    if shards is None and there is not None:
        shards = there.shards
    if reproducible or (reproducible is None and there is not None and there.reproducible):
        question = question.made_reproducible()
    plan = ShardPlan.of(question.graph, anchors, shards, order)
    chosen = plan.choose(only, worker)
    manifest = Manifest.of(question, anchors, plan)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    manifest.claim(folder, anchors)
    run = _Run(folder, manifest, plan, progress or (lambda _: None), chosen)
    run.go(question, place, memory_limit)
    return ShardRun(folder, manifest, run.computed, run.kept)


class _Run:
    """A run in progress: what is done, and what failed."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        plan: ShardPlan,
        report: Callable[[ShardProgress], object],
        chosen: list[int],
    ) -> None:
        self.computed: list[int] = []
        self.kept: list[int] = []
        self._folder, self._manifest, self._plan, self._report, self._chosen = folder, manifest, plan, report, chosen
        self._state = ShardProgress(0, len(chosen), 0, sum(map(plan.size, chosen)), 0)
        self._failed: dict[int, Exception] = {}
        report(self._state)

    def go(self, question: Question, executor: Executor, memory_limit: int | None) -> None:
        """Do all shards: those of a failed batch again one by one, and last those that other processes are
        computing."""
        batches = Batches(self._folder, self._manifest, self._plan, question, executor, memory_limit)
        try:
            self._stream(batches, question, executor, batches.pieces(self._chosen))
            again = sorted(self._failed)
            if again:
                self._failed.clear()
                self._stream(batches, question, executor, batches.pieces(again, together=False))
            late, batches.elsewhere = sorted(batches.elsewhere), {}
            self._stream(batches, question, executor, batches.pieces(late, together=False))
        finally:
            batches.release_all()
        if self._failed:
            raise self._failure()
        for error in batches.elsewhere.values():
            raise error

    def _stream(self, batches: Batches, question: Question, executor: Executor, pieces: Iterator[Piece]) -> None:
        first = next(pieces, None)  # without shards, nothing needs to be computed or sent
        if first is not None:
            if isinstance(question, HaloQuestion) and question.totals is None:
                question = question.with_totals(executor)
            shared = question if isinstance(executor, ThisProcess) else question.for_workers()
            begun = time.monotonic()
            with closing(executor.stream(certified, shared, chain([first], pieces))) as answers:
                for done in answers:
                    self._note_kept(batches)
                    if done.error is None:
                        batches.size.after(len(done.key), (time.monotonic() - begun) * executor.workers)
                    self._note(batches, question, done)
                    begun = time.monotonic()
        self._note_kept(batches)

    def _note(self, batches: Batches, question: Question, done: Done) -> None:
        """Write the shards of an answer, each completely or not at all, or record that they failed."""
        for shard in done.key:
            if done.error is not None:
                self._failed[shard] = done.error
            else:
                whole = replace(
                    done.result[shard],
                    local_budget=question.changes.drops.local,
                    requested_budget=question.changes.drops.requested,
                )
                save_shard(self._folder, self._manifest, shard, whole)
                self.computed.append(shard)
                self._advance(shard, kept=False)
            batches.release(shard)

    def _note_kept(self, batches: Batches) -> None:
        while batches.kept:
            shard = batches.kept.popleft()
            self.kept.append(shard)
            self._advance(shard, kept=True)

    def _advance(self, shard: int, *, kept: bool) -> None:
        self._state = self._state.after(self._plan.size(shard), kept)
        self._report(self._state)

    def _failure(self) -> Exception:
        """All shards that failed on their own, with the errors of the first few."""
        shards = sorted(self._failed)
        shown = "; ".join(
            f"shard {shard}: {type(self._failed[shard]).__name__}: {self._failed[shard]}"
            for shard in shards[:MOST_ERRORS]
        )
        error = ShardError(
            f"{len(shards)} of {self._manifest.shards} shards that failed ({listed(shards)})",
            f"every shard needs an answer, and these have errors instead ({shown})",
            "Fix the cause and run the same command again: all other shards are kept",
        )
        error.__cause__ = self._failed[shards[0]]
        return error


@told_when_out_of_memory(SMALLER)
def merge_shards(out: str | Path) -> Certificate:
    """One certificate of all shards in a folder, anchors in the requested order; it is also written there.

    Raises:
        ShardError: shards are missing, damaged, or made for another question; all are named.
        LockedError: another process is merging them at this moment.
    """
    folder = path(out, "out", ShardError)
    manifest = Manifest.read(folder)
    with locked(folder, MERGED, what=f"{folder / MERGED}", needed=False):
        return _merged(folder, manifest)


def _merged(folder: Path, manifest: Manifest) -> Certificate:
    anchors = manifest.read_anchors(folder)
    remove_leftovers(folder)
    parts: list[Certificate] = []
    faults: dict[str, list[int]] = {"missing": [], "damaged or foreign": []}
    for shard in range(manifest.shards):
        try:
            part = load_shard(folder, manifest, shard)
            if parts and torch.equal(part.local_budget, parts[0].local_budget):
                part = replace(part, local_budget=parts[0].local_budget)  # shared: one entry per node
            parts.append(part)
        except FileNotFoundError:
            faults["missing"].append(shard)
        except (CertificateError, ShardError):
            faults["damaged or foreign"].append(shard)
    found = [f"{len(which)} {fault} ({listed(which)})" for fault, which in faults.items() if which]
    if found:
        raise ShardError(
            f"{folder} with {' and '.join(found)} of {manifest.shards} shards",
            "every shard must be there and whole",
            "Certify again with the same settings: finished shards are kept",
        )
    held = torch.cat([part.nodes for part in parts])
    if not torch.equal(held.sort().values, anchors.sort().values):
        raise ShardError(
            f"{folder} with shards of other nodes than it should hold",
            "shards and manifest belong together",
            "Certify again with the same settings: shards that fit are kept",
        )
    rank = torch.argsort(torch.argsort(anchors))
    certificate = Certificate.joined(parts).at(torch.argsort(held)[rank])
    certificate.save(folder / MERGED, {"fingerprint": manifest.fingerprint})
    return certificate
