"""The trainings that are compared: without a regularizer, with the paper's heuristic, with the certified bound."""

from typing import Any

from certgcl.errors import InputError
from certgcl.learning.presets import Preset
from certgcl.learning.regularizer import CompactnessRegularizer

VARIANTS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "released": {"method": "released", "scale": None, "anchors": -1, "every": 1},  # all nodes, unscaled, as in the code
    "certified": {"method": "degree-fast"},
}


def regularizer(variant: str, preset: Preset, **changes: Any) -> CompactnessRegularizer | None:
    """The regularizer of a variant as in the preset, but for ``changes``; None for the plain method."""
    if variant not in VARIANTS:
        raise InputError(f"variant {variant!r}", f"variants are {', '.join(VARIANTS)}", "Pick one")
    settings = VARIANTS[variant]
    if settings is None:
        return None
    return CompactnessRegularizer(**preset.regularizer_settings() | settings | changes)
