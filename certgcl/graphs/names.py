"""The user's names of nodes, kept with the numbers 0 to N - 1 that all computations use."""

import difflib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from certgcl.arguments import is_whole, shown
from certgcl.errors import GraphError

_MOST_COMPARED = 100_000  # names with which a misspelt one is compared


@dataclass(frozen=True)
class NodeNames:
    """The names of all nodes in the order of their numbers, all different."""

    all: tuple[Hashable, ...]

    @classmethod
    def of(cls, names: Any, num_nodes: int) -> "NodeNames | None":
        """Names for ``num_nodes`` nodes; None if they are the numbers themselves."""
        if names is None or isinstance(names, cls):
            given: Any = names
        else:
            given = _listed(names)
            if given is None:
                raise GraphError(f"names={shown(names)}", "they are a list, one for each node", "Pass list(names)")
            given = cls(given)
        if given is None or given._are_numbers():
            return None
        if len(given.all) != num_nodes:
            raise GraphError(
                f"{len(given.all)} names for {num_nodes} nodes",
                "there is one name for each node",
                "Name all nodes in the order of the rows of x",
            )
        return given

    def __post_init__(self) -> None:
        try:
            hash(self.all)
        except TypeError as error:
            raise GraphError(
                f"names {shown(self.all)} ({error})", "names must be hashable, like strings and numbers", "Use strings"
            ) from error
        if len(self.numbers) != len(self.all):
            seen: set[Hashable] = set()
            twice = next(name for name in self.all if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise GraphError(f"two nodes with the name {shown(twice)}", "names must be unique", "Rename one")

    def _are_numbers(self) -> bool:
        return all(is_whole(name) and name == number for number, name in enumerate(self.all))

    @cached_property
    def numbers(self) -> dict[Hashable, int]:
        """The number of each name."""
        return {name: number for number, name in enumerate(self.all)}

    def __len__(self) -> int:
        return len(self.all)

    def at(self, numbers: Iterable[int]) -> list[Hashable]:
        """The names of some nodes."""
        return [self.all[number] for number in numbers]

    def find(self, names: Iterable[Any]) -> list[int]:
        """The numbers of some names; one that no node has raises ``GraphError`` with the names nearest to it."""
        return [self._number(name) for name in names]

    def _number(self, name: Any) -> int:
        try:
            return self.numbers[name]
        except (KeyError, TypeError):
            near = difflib.get_close_matches(
                str(name) if isinstance(name, Hashable) else "", map(str, self.all[:_MOST_COMPARED]), n=3
            )
            raise GraphError(
                f"node {shown(name)}",
                "no node has this name",
                f"Nearest are {', '.join(near)}"
                if near
                else f"Names are such as {', '.join(map(shown, self.all[:3]))}",
            ) from None

    def __repr__(self) -> str:
        return f"NodeNames({shown(list(self.all))})"


def names_among(nodes: Any) -> Sequence[Any] | None:
    """``nodes`` as a list if there is a name in it, which no number, mask or tensor is; None otherwise."""
    given = None if isinstance(nodes, Tensor) or _is_numeric(nodes) else _listed(nodes)
    if given is None or all(isinstance(node, (Tensor, bool, np.bool_)) or is_whole(node) for node in given):
        return None
    return given


def _is_numeric(nodes: Any) -> bool:
    return isinstance(nodes, np.ndarray) and nodes.dtype.kind not in "UTO"


def _listed(names: Any) -> tuple[Any, ...] | None:
    """A list, a tuple, a vector of numpy, or an index or a column of pandas."""
    if type(names).__module__.partition(".")[0] == "pandas" and hasattr(names, "to_numpy"):
        names = names.to_numpy()
    if isinstance(names, np.ndarray):
        return tuple(names.tolist()) if names.ndim == 1 else None
    return tuple(names) if isinstance(names, (list, tuple)) else None
