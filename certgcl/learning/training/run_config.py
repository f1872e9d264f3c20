"""The settings of a training run and where it started: ``config.json``, by which a resumed run recognises its
folder."""

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric

from certgcl._version import __version__
from certgcl.errors import CheckpointError, InputError
from certgcl.files.atomic import refusing, save_sealed_json
from certgcl.files.strict_json import read_sealed
from certgcl.learning.training.checkpoint import leaves

_FORMAT = "certgcl-run-2"
_MEND = "Bring it back from a copy, or start again in another folder"
_EPOCHS = "epochs"  # the only setting that may change: a run may be continued for longer


def plain_config(config: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """The settings after a round trip through JSON, including the number of epochs."""
    try:
        return {**json.loads(json.dumps(dict(config), allow_nan=False)), _EPOCHS: epochs}
    except (TypeError, ValueError) as reason:
        raise InputError(
            f"a config that is not JSON ({reason})",
            "its values are written to config.json, and compared",
            "Use finite numbers, strings, lists and dicts",
        ) from reason


def write_config(path: Path, config: dict[str, Any], device: str) -> None:
    """Record the settings of a run that starts now, with the versions and the machine it runs on."""
    save_sealed_json(
        path,
        {
            "format": _FORMAT,
            "config": config,
            "versions": versions(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"threads": torch.get_num_threads(), "device": device},
        },
    )


def versions() -> dict[str, str]:
    """The versions of the packages that a training run depends on."""
    return {
        "certgcl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch-geometric": torch_geometric.__version__,
        "numpy": np.__version__,
    }


def read_config(path: Path) -> dict[str, Any]:
    """The contents written by :func:`write_config`: ``config``, ``versions``, ``started`` and ``machine``.

    Raises:
        CheckpointError: the file is missing, or cannot be read.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} without {path.name}", "a run folder contains its settings", _MEND)
    with refusing(path, CheckpointError, f"it must be a file in the format {_FORMAT}", _MEND):
        content = read_sealed(path, _FORMAT)
        for part in ("config", "versions", "machine"):
            if not isinstance(content[part], dict):
                raise ValueError(f"{part} {content[part]!r}")
        datetime.fromisoformat(content["started"])
    return content


def compare_config(path: Path, config: dict[str, Any]) -> None:
    """Raise an error for settings other than those in the file; a new number of epochs is recorded there.

    Raises:
        CheckpointError: the settings differ (all that do are named), or the file cannot be read.
    """
    content = read_config(path)
    there, here = dict(leaves(content["config"])), dict(leaves(config))
    different = [
        f"{name} ({_shown(there, name)} there, {_shown(here, name)} here)"
        for name in sorted({*there, *here} - {_EPOCHS})
        if _shown(there, name) != _shown(here, name)
    ]
    if different:
        raise CheckpointError(
            f"{path.parent} with a run of another config, which differs in {', '.join(different)}",
            "a run is resumed with the settings it began with, except for epochs",
            "Use those, or start again in another folder",
        )
    if _shown(there, _EPOCHS) != _shown(here, _EPOCHS):
        save_sealed_json(path, {**content, "config": config})


def _shown(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name], ensure_ascii=False) if name in settings else "nothing"
