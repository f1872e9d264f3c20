"""The training runs that are compared: without a regularizer, with the paper's heuristic, and with compactness itself,
both on the clean graph (the control) and in the worst case."""

from typing import Any

from certgcl.errors import InputError
from certgcl.learning.presets import Preset
from certgcl.learning.regularizer import CompactnessRegularizer

VARIANTS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    # All nodes, unscaled, at the drop rate of the views, as in the released code.
    "released": {"method": "released", "scale": None, "anchors": -1, "every": 1, "budget": None},
    "clean": {"budget": 0},
    "one edge": {"budget": 1},
    "certified": {"budget": None},  # the drop rate of the views
    "kept": {"budget": 0.8, "objective": "kept"},
}

DRAWN = ("plain", "released", "clean", "certified")
"""The variants of the paper's experiments, and the control."""


def regularizer(variant: str, preset: Preset, **changes: Any) -> CompactnessRegularizer | None:
    """The regularizer of a variant as in the preset, except for ``changes``; None for the plain method."""
    if variant not in VARIANTS:
        raise InputError(f"variant {variant!r}", f"variants are {', '.join(VARIANTS)}", "Pick one")
    settings = VARIANTS[variant]
    if settings is None:
        return None
    return CompactnessRegularizer(**preset.regularizer_settings() | settings | changes)
