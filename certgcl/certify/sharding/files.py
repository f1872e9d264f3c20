"""The files of shards: their notes, and the check that a file is complete and belongs to this run."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from certgcl.certify.certificate import Certificate
from certgcl.certify.sharding.manifest import Manifest
from certgcl.errors import CertificateError, ShardError


def save_shard(folder: Path, manifest: Manifest, shard: int, certificate: Certificate) -> None:
    """Write a shard completely or not at all."""
    certificate.save(folder / manifest.file_name(shard), _notes(manifest, shard))


def load_shard(folder: Path, manifest: Manifest, shard: int) -> Certificate:
    file = folder / manifest.file_name(shard)
    certificate, notes = Certificate.load_with_notes(file)
    if notes != _notes(manifest, shard) or not manifest.is_about(certificate):
        raise ShardError(
            f"{file} with the answer to another question", "a shard belongs to its manifest", "Certify again"
        )
    return certificate


def is_finished(folder: Path, manifest: Manifest, shard: int, nodes: Tensor, proof: bool) -> bool:
    """Whether a shard is there and complete; with a proof, if one is requested."""
    try:
        there = load_shard(folder, manifest, shard)
        return torch.equal(there.nodes, nodes.cpu()) and (there.proof is not None or not proof)
    except (FileNotFoundError, CertificateError, ShardError):
        return False


def listed(shards: list[int], most: int = 10) -> str:
    shown = ", ".join(map(str, shards[:most]))
    return shown if len(shards) <= most else f"{shown} and {len(shards) - most} more"


def _notes(manifest: Manifest, shard: int) -> dict[str, Any]:
    return {"fingerprint": manifest.fingerprint, "shard": shard, "shards": manifest.shards}
