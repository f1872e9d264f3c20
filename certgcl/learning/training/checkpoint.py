"""The state of a training run in one file: written completely or not at all, read without pickle, checked when written
and when read."""

import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.errors import CheckpointError
from certgcl.files.atomic import load_tensors, refusing, save_tensors

_FORMAT = "certgcl-checkpoint-2"
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything that a training run needs to continue as if it had never stopped.

    Args:
        epochs_done: how many epochs are complete.
        session: the state of the session after them.
        random: the state of the global generators after them; empty if the session has its own.
        history: the checksum of their records, see :meth:`certgcl.learning.training.history.History.checksum`.
    """

    epochs_done: int
    session: dict[str, Any]
    random: dict[str, Any]
    history: str = ""

    @classmethod
    def of(
        cls, epochs_done: int, session: dict[str, Any], history: str = "", global_generators: bool = True
    ) -> "Checkpoint":
        """The state of a session, and of the global generators as they are now, if it draws from them."""
        return cls(epochs_done, session, random_state() if global_generators else {}, history)

    def save(self, path: Path) -> None:
        """Replace ``path`` by this state; whatever happens, either the old or the new file exists."""
        check_plain(self.session)
        save_tensors(
            path,
            {
                "format": _FORMAT,
                "epochs_done": self.epochs_done,
                "session": self.session,
                "random": self.random,
                "history": self.history,
            },
        )

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """The state in a file, its tensors on the CPU.

        Raises:
            CheckpointError: the file is damaged, or no checkpoint.
        """
        with refusing(
            path,
            CheckpointError,
            f"it must be a whole file in the format {_FORMAT}",
            "Bring it back from a copy, or start again in another folder",
        ):
            content = load_tensors(path)
            if not isinstance(content, dict) or content["format"] != _FORMAT:
                raise ValueError("another format")
            return cls(content["epochs_done"], content["session"], content["random"], content["history"])


# -- contents -----------------------------------------------------------------------------


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values in nested dicts and lists, each with its name: ``model.weight``, ``optimizer.param_groups.0.lr``."""
    if type(value) in (dict, OrderedDict):
        items = value.items()
    elif type(value) in (list, tuple):
        items = enumerate(value)
    else:
        yield name, value
        return
    for key, item in items:
        yield from leaves(item, f"{name}.{key}" if name else str(key))


def check_plain(state: dict[str, Any]) -> None:
    """Raise an error for values that ``torch.load(weights_only=True)`` could not read back, before a run depends on
    them."""
    for name, leaf in leaves(state):
        # By the exact type: numpy's float64 is a float too, but is pickled differently.
        if not isinstance(leaf, Tensor) and type(leaf) not in _PLAIN:
            raise CheckpointError(
                f"a {type(leaf).__module__}.{type(leaf).__name__} at {name} in the session's state",
                "a checkpoint holds tensors, numbers, strings, lists and dicts only",
                "Convert it in state_dict(), and back in load_state_dict()",
            )


def first_non_finite(state: dict[str, Any]) -> str | None:
    """The name of a tensor with NaN or infinite values, if there is one."""
    return next(
        (name for name, leaf in leaves(state) if isinstance(leaf, Tensor) and not bool(torch.isfinite(leaf).all())),
        None,
    )


def device_of(state: dict[str, Any]) -> str:
    """The device of the tensors, ignoring those that optimizers keep on the CPU."""
    devices = {str(leaf.device) for _, leaf in leaves(state) if isinstance(leaf, Tensor)}
    return ", ".join(sorted(devices - {"cpu"})) or "cpu"


# -- the global generators -------------------------------------------------------------------------


def random_state() -> dict[str, Any]:
    """The global generators of torch (the CPU and every CUDA device), numpy and Python."""
    numpy_state: Any = np.random.get_state()  # noqa: NPY002  (the global generator is the one to keep)
    kind, keys, *rest = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, torch.tensor(keys.astype(np.int64)), *rest),
        "python": random.getstate(),
    }


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the generators; devices that no longer exist are left out."""
    torch.set_rng_state(state["torch"])
    for device, cuda in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(cuda, device)
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(state["python"])
