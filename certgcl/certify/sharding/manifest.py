"""What a folder of shards is about: the question, the assignment of anchors to shards, and the files that record
both."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.arguments import choice, is_whole, items, shown, whole
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.evidence import Fact, differences, fingerprint, has_repr
from certgcl.errors import InputError, MethodError, ShardError
from certgcl.files.atomic import refusing, save_sealed_json, write_atomically
from certgcl.files.digest import digest
from certgcl.files.strict_json import read_sealed
from certgcl.files.untrusted import mapped_array
from certgcl.graphs.graph import Graph
from certgcl.graphs.ordering import nearby_order
from certgcl.runtime.reproducible import arithmetic

MANIFEST, NODES = "manifest.json", "nodes.npy"
ARITHMETIC = "arithmetic"  # the part that only reproducible shards have
ShardOrder = Literal["near", "given"]
_FORMAT = "certgcl-shards-2"
_NODES_PER_SHARD = 2048  # unless the user specifies the number of shards


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """Which anchors belong to which shard: the same on every machine.

    Args:
        anchors: all of them; every shard is a run of these, all of equal length up to one.
        shards: how many.
        order: how ``anchors`` were ordered.
    """

    anchors: Tensor
    shards: int
    order: ShardOrder

    @classmethod
    def of(cls, graph: Graph, anchors: Tensor, shards: int | None = None, order: ShardOrder = "near") -> "ShardPlan":
        """A plan with that many shards, or with about two thousand anchors in each.

        Args:
            order: ``"near"`` puts neighbours into the same shard, which saves work; ``"given"`` keeps the order of the
                anchors.
        """
        count = len(anchors)
        shards = -(-count // _NODES_PER_SHARD) if shards is None else shards
        if not is_whole(shards) or not 1 <= int(shards) <= count:
            raise InputError(
                f"shards={shown(shards)} for {count} anchors",
                "a shard has at least one anchor",
                f"Give a number from 1 to {count}, or none",
            )
        shards = int(shards)
        choice(order, "order", ("near", "given"))
        if order == "near":
            rank = torch.argsort(nearby_order(graph))
            anchors = anchors[torch.argsort(rank[anchors])]
        return cls(anchors, shards, order)

    def nodes(self, shard: int) -> Tensor:
        return self.anchors[self._start(shard) : self._start(shard + 1)]

    def size(self, shard: int) -> int:
        return self._start(shard + 1) - self._start(shard)

    def _start(self, shard: int) -> int:
        return shard * len(self.anchors) // self.shards

    def choose(self, only: Sequence[int] | None = None, worker: tuple[int, int] | None = None) -> list[int]:
        """The shards in ``only`` (all by default) that worker k of n does: those with ``shard % n == k``."""
        numbered = f"shards are numbered 0 to {self.shards - 1}"
        listed = list(only) if isinstance(only, range) and len(only) <= self.shards else only
        chosen = (
            range(self.shards)
            if listed is None
            else tuple(
                whole(shard, "shard", 0, numbered, "Fix the list", most=self.shards - 1)
                for shard in items(listed, "only", f"it is a list of shards, and {numbered}", "Leave it out for all")
            )
        )
        if len(set(chosen)) < len(chosen):
            raise InputError(f"only={shown(only)}", "every shard is done once", "Fix the list")
        rule = "workers are numbered from 0, as torchrun's RANK: k of n"
        numbers = (0, 1) if worker is None else items(worker, "worker", rule, "Pass (0, 2) for the first of two")
        if len(numbers) != 2 or not all(map(is_whole, numbers)):
            raise InputError(f"worker={shown(worker)}", rule, "Pass (0, 2) for the first of two")
        k, n = map(int, numbers)
        if not 0 <= k < n:
            raise InputError(
                f"worker {shown(k)} of {shown(n)}",
                rule,
                f"The last of {shown(n)} is {shown(n - 1)}" if n > 0 else "There is at least one",
            )
        return [shard for shard in chosen if shard % n == k]


@dataclass(frozen=True)
class Manifest:
    """What the shards in a folder depend on; two manifests with one fingerprint make the same shards."""

    parts: dict[str, Fact]
    shards: int

    @classmethod
    def of(cls, question: Question, anchors: Tensor, plan: ShardPlan) -> "Manifest":
        """The manifest of a plan for anchors in the user's order."""
        if not has_repr(question.bound):
            raise MethodError(
                f"a method of type {type(question.bound).__name__} without a repr of its own",
                "results are told apart by the repr of their method",
                "Make it a dataclass",
            )
        last_digits = {ARITHMETIC: Fact(arithmetic())} if question.reproducible else {}
        return cls(
            question.evidence.parts
            | {
                "reading": Fact(question.encoder.reading),
                "precision": Fact(question.precision),
                "nodes": Fact(f"{len(anchors)} of {question.graph.num_nodes}", digest(anchors)),
                "shards": Fact(
                    f"{plan.shards}, {'neighbours together' if plan.order == 'near' else 'in the order given'}"
                ),
            }
            | last_digits,
            plan.shards,
        )

    @property
    def reproducible(self) -> bool:
        """Whether every process writes the same files."""
        return ARITHMETIC in self.parts

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.parts)

    def file_name(self, shard: int) -> str:
        return f"shard-{shard:05d}-of-{self.shards:05d}.npz"

    def claim(self, folder: Path, anchors: Tensor) -> None:
        """Write manifest and anchors to ``folder``, or check that those already there are the same.

        If several processes start at once, one writes and all compare.
        """
        path = folder / MANIFEST
        if not path.exists():
            versions = {
                "certgcl": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            }
            content = {"format": _FORMAT, "fingerprint": self.fingerprint, **asdict(self), "versions": versions}
            save_sealed_json(path, content, replace=False)
        different = differences(Manifest.read(folder).parts, self.parts)
        if different:
            raise ShardError(
                f"{folder} with the shards of another question, which differs in {', '.join(different)}",
                "a folder holds the answer to one question",
                "Choose another folder, or delete this one",
            )
        if not (folder / NODES).exists():
            write_atomically(folder / NODES, lambda stream: np.save(stream, anchors.cpu().numpy()))

    def is_about(self, certificate: Certificate) -> bool:
        """Whether a certificate answers the question of this manifest, at any nodes."""
        parts = certificate.evidence.parts | {
            "reading": Fact(certificate.reading),
            "precision": Fact(certificate.precision),
        }
        return parts == {name: self.parts.get(name) for name in parts}

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        with _reading(folder) as path:
            content = read_sealed(path, _FORMAT)
            manifest = cls({name: Fact(**part) for name, part in content["parts"].items()}, int(content["shards"]))
            if manifest.shards < 1:
                raise ValueError(f"{manifest.shards} shards")
            if content["fingerprint"] != manifest.fingerprint:
                raise ValueError("another fingerprint")
        return manifest

    def read_anchors(self, folder: Path) -> Tensor:
        """The anchors in the user's order."""
        path = folder / NODES
        remedy = "Delete it and certify again: finished shards are kept"
        if not path.exists():
            raise ShardError(f"{folder} without {NODES}", "a folder of shards names their nodes", remedy)
        with refusing(path, ShardError, "it must be the nodes that the manifest names", remedy):
            anchors = torch.from_numpy(mapped_array(path).copy())
            if digest(anchors) != self.parts["nodes"].sha256:
                raise ValueError("other nodes")
        return anchors


def read_versions(folder: Path) -> dict[str, str]:
    """The versions that a folder of shards was begun with."""
    with _reading(folder) as path:
        return {str(name): str(version) for name, version in read_sealed(path, _FORMAT)["versions"].items()}


@contextmanager
def _reading(folder: Path) -> Iterator[Path]:
    """The manifest of a folder; anything wrong with it raises the same error."""
    path = folder / MANIFEST
    if not path.exists():
        raise ShardError(
            f"{folder} without {MANIFEST}",
            "a folder of shards says what they are",
            "Make one with certgcl.certify_shards or `certgcl certify`",
        )
    with refusing(
        path,
        ShardError,
        f"it must be a file in the format {_FORMAT}",
        "Delete it and certify again: shards that fit are kept",
    ):
        yield path
