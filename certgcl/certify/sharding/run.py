"""Certificates of large graphs, computed and written shard by shard: resumable, and on several machines at once.

Shards repeat the work on the neighbours that they share, on graphs with hubs most of it. So several are computed at a
time (:mod:`certgcl.certify.sharding.batch_size`); each is a file of its own all the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import callback, path
from certgcl.bounds import BoundMethod
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.sharding.batch_size import Pace
from certgcl.certify.sharding.manifest import MANIFEST, Manifest, ShardOrder, ShardPlan
from certgcl.changes.changes import BudgetLike
from certgcl.errors import CertificateError, InputError, LockedError, ShardError
from certgcl.files.atomic import remove_leftovers
from certgcl.files.locks import locked
from certgcl.graphs.graph import GraphLike
from certgcl.models.reading import ModelLike, Reading
from certgcl.runtime.out_of_memory import SMALLER, told_when_out_of_memory

MERGED = "certificate.npz"


@dataclass(frozen=True)
class ShardProgress:
    """How far a run is; given to ``progress`` when it starts and after every shard."""

    shards_done: int
    shards: int
    nodes_done: int
    nodes: int
    nodes_computed: int  # the rest was there already

    def after(self, size: int, kept: bool) -> "ShardProgress":
        """The same with one more shard done."""
        return ShardProgress(self.shards_done + 1, self.shards, self.nodes_done + size, self.nodes,
                             self.nodes_computed + (0 if kept else size))


@dataclass(frozen=True)
class ShardRun:
    """What a run did: the shards it computed, and those it found finished."""

    folder: Path
    manifest: Manifest
    computed: list[int]
    kept: list[int]

    @property
    def missing(self) -> list[int]:
        """The shards of the whole plan that have no file yet."""
        return [shard for shard in range(self.manifest.shards)
                if not (self.folder / self.manifest.file_name(shard)).exists()]


@told_when_out_of_memory()
def certify_shards(model: ModelLike, graph: GraphLike, budgets: BudgetLike, out: str | Path, *,
                   method: str | BoundMethod = "degree", view: GraphLike | None = None,
                   directions: Tensor | None = None, nodes: Tensor | Sequence[int] | None = None,
                   dtype: torch.dtype = torch.float64, shards: int | None = None, order: ShardOrder = "near",
                   only: Sequence[int] | None = None, worker: tuple[int, int] | None = None,
                   memory_limit: int | None = None, reproducible: bool | None = None, reading: Reading = "traced",
                   progress: Callable[[ShardProgress], object] | None = None) -> ShardRun:
    """:func:`certgcl.node_compactness` in shards, each a certificate in a file of its own in the folder ``out``.

    A shard is written whole or not at all, and one that is there is kept: after a kill, call again with the same
    arguments. Processes on several machines may share the folder. ``merge_shards(out)`` makes one certificate of it.

    A shard is computed by one process at a time. One that another process is at is left for last; if it is not
    finished then, ``LockedError`` says who is at it, and all other shards are done.

    Args:
        out: the folder; made if needed. One that holds shards of another question is refused.
        directions: if given, what is bounded instead of compactness, as in :func:`certgcl.linear_bounds`.
        shards: how many; by default as many as the folder was made for, or one for about two thousand nodes.
        order: ``"near"`` brings neighbours to the same shard, which saves work; ``"given"`` cuts ``nodes`` as they
            stand. The merged certificate has the nodes as given in either case.
        only: the shards to do; all by default.
        worker: ``(k, n)`` to do only the shards with ``shard % n == k``.
        reproducible: compute every shard by itself and by one thread, so that its file is the same to the last bit
            whichever process writes it (same kind of processor, same versions; the manifest names them, and others are
            refused). By default as the folder was made, else not: then several shards are computed at a time, by
            all threads, and what stood together shows in the last bits.
        progress: called when the run starts and after every shard.

    Other arguments as in :func:`certgcl.node_compactness`.

    Example::

        run = certgcl.certify_shards(encoder, data, 2, "out")
        certificate = certgcl.merge_shards("out")
    """
    folder = path(out, "out", ShardError)
    callback(progress, "progress")
    if directions is not None and view is not None:
        raise InputError("directions= beside view=", "a view is where the directions of compactness come from",
                         "Leave one out")
    if directions is None:
        question = Question.compactness(model, graph, budgets, method=method, view=view, dtype=dtype,
                                        reading=reading)
    else:
        question = Question.linear(model, graph, budgets, directions, method=method, dtype=dtype, reading=reading)
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
    run = ShardRun(folder, manifest, [], [])
    report = progress or (lambda _: None)
    state = ShardProgress(0, len(chosen), 0, sum(map(plan.size, chosen)), 0)
    report(state)
    waiting, elsewhere, pace = chosen, list[int](), Pace()
    while waiting or elsewhere:
        last = not waiting  # all others are done
        at_once = 1 if question.reproducible else pace.at_once
        batch = {shard: plan.nodes(shard) for shard in (elsewhere[:1] if last else waiting[:at_once])}
        waiting, elsewhere = waiting[at_once:], elsewhere[1:] if last else elsewhere
        with ExitStack() as claims:
            missing, held = _claimed(claims, folder, manifest, batch, last)
            elsewhere += held
            begun = time.monotonic()
            made = _certificates(question, missing, len(anchors), memory_limit)
            if made:
                pace.after(len(made), time.monotonic() - begun)
            for shard, here in batch.items():
                if shard in held:
                    continue
                if shard in made:
                    made[shard].save(folder / manifest.file_name(shard), _notes(manifest, shard))
                (run.computed if shard in made else run.kept).append(shard)
                state = state.after(len(here), shard not in made)
                report(state)
    return run


def _claimed(claims: ExitStack, folder: Path, manifest: Manifest, batch: Mapping[int, Tensor],
             last: bool) -> tuple[dict[int, Tensor], list[int]]:
    """Of a batch, the shards that are missing and locked for us now, and those that another process is computing.

    Raises:
        LockedError: there are such shards, and nothing else is left to do.
    """
    missing, held = {}, []
    for shard, here in batch.items():
        if _is_finished(folder, manifest, shard, here):
            continue
        name = manifest.file_name(shard)
        try:
            claims.enter_context(locked(folder, name, what=f"{folder / name}", needed=False, remedy="Run the same "
                                        "again when it is through; finished shards are kept"))
        except LockedError:
            if last:
                raise
            held.append(shard)
            continue
        if not _is_finished(folder, manifest, shard, here):  # it may be since the lock was free
            missing[shard] = here
    return missing, held


def _certificates(question: Question, shards: Mapping[int, Tensor], anchors: int,
                  memory_limit: int | None) -> dict[int, Certificate]:
    """Of the nodes of some shards, all computed at once.

    Args:
        anchors: of all shards that there are.
    """
    if not shards:
        return {}
    nodes = torch.cat(list(shards.values()))
    certificate = _in_its_time(question, len(nodes) / anchors).certify(nodes, memory_limit)
    places = torch.arange(len(nodes), device=nodes.device).split([len(here) for here in shards.values()])
    return {shard: certificate.at(here) for shard, here in zip(shards, places, strict=True)}


def _in_its_time(question: Question, share: float) -> Question:
    """The question with a share of the time that all shards of a search have together; the answer is to the whole."""
    bound = question.bound.with_share_of_time(share)
    if bound is question.bound:
        return question
    timed = replace(question, bound=bound)
    timed.__dict__["evidence"] = question.evidence
    return timed


@told_when_out_of_memory(SMALLER)
def merge_shards(out: str | Path) -> Certificate:
    """One certificate of all shards in a folder, anchors in the order asked for; it is written there too.

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
            part = _load(folder, manifest, shard)
            if parts and torch.equal(part.local_budget, parts[0].local_budget):
                part = replace(part, local_budget=parts[0].local_budget)  # one for all: it is as long as the graph
            parts.append(part)
        except FileNotFoundError:
            faults["missing"].append(shard)
        except (CertificateError, ShardError):
            faults["damaged or foreign"].append(shard)
    found = [f"{len(which)} {fault} ({_listed(which)})" for fault, which in faults.items() if which]
    if found:
        raise ShardError(f"{folder} with {' and '.join(found)} of {manifest.shards} shards",
                         "every shard must be there and whole",
                         "Certify again with the same settings: finished shards are kept")
    held = torch.cat([part.nodes for part in parts])
    if not torch.equal(held.sort().values, anchors.sort().values):
        raise ShardError(f"{folder} with shards of other nodes than it should hold", "shards and manifest belong "
                         "together", "Certify again with the same settings: shards that fit are kept")
    rank = torch.argsort(torch.argsort(anchors))
    certificate = Certificate.joined(parts).at(torch.argsort(held)[rank])
    certificate.save(folder / MERGED, {"fingerprint": manifest.fingerprint})
    return certificate


def _notes(manifest: Manifest, shard: int) -> dict[str, Any]:
    return {"fingerprint": manifest.fingerprint, "shard": shard, "shards": manifest.shards}


def _load(folder: Path, manifest: Manifest, shard: int) -> Certificate:
    file = folder / manifest.file_name(shard)
    certificate, notes = Certificate.load_with_notes(file)
    if notes != _notes(manifest, shard) or not manifest.is_about(certificate):
        raise ShardError(f"{file} with the answer to another question", "a shard belongs to its manifest",
                         "Certify again")
    return certificate


def _is_finished(folder: Path, manifest: Manifest, shard: int, nodes: Tensor) -> bool:
    try:
        return torch.equal(_load(folder, manifest, shard).nodes, nodes.cpu())
    except (FileNotFoundError, CertificateError, ShardError):
        return False


def _listed(shards: list[int], most: int = 10) -> str:
    shown = ", ".join(map(str, shards[:most]))
    return shown if len(shards) <= most else f"{shown} and {len(shards) - most} more"
