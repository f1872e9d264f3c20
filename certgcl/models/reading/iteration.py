"""The elements that a loop over a value visits."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from certgcl.models.layers.formula import Position
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import modules_in
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.values import Built, Stream, depends_on_inputs

MODULE_LISTS = (nn.ModuleList, nn.Sequential)
SEQUENCES = (tuple, list, Built, range)


def iterate(value: Any, place: Position) -> Iterator[Any]:
    """An iterator over a sequence, a list of modules, or the rest of an iterator created in the run."""
    if type(value) is Stream:
        return value.items
    if is_a(value, *MODULE_LISTS):
        return iter(modules_in(value))
    if is_a(value, *SEQUENCES):
        return iter(value)
    if type(value) is dict:
        return iter(tuple(value))
    if depends_on_inputs(value):
        raise refusal("a loop over something that depends on the inputs", place)
    raise refusal(f"a loop over a {type(value).__name__}", place)
