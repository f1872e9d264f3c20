"""A method from the options of the command line: a preset, and the user's changes to it."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import typer

from certgcl.changes.changes import BudgetLike
from certgcl.errors import InputError
from certgcl.learning.methods import GRAPH_METHODS, METHODS, ContrastiveMethod
from certgcl.learning.presets import Preset
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.schedules import Ramp

NO_REGULARIZER = "none"


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """``name=value`` one by one; values as in Python, and anything that is not a Python literal is a string."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--set")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    return settings


def default_budget(preset: Preset | None) -> BudgetLike | Ramp | None:
    """The budget of a regularizer for which none is given."""
    return preset.budget if preset else CompactnessRegularizer.budget


def build_method(name: str, preset: Preset | None, regularizer: str, given: Mapping[str, Any]) -> ContrastiveMethod:
    """The method ``name`` as in the preset, except for the given settings, which are its own or those of the
    regularizer."""
    kind = (METHODS | GRAPH_METHODS)[name]
    own = [setting.name for setting in fields(kind) if setting.init and setting.name != "regularizer"]
    term = [setting.name for setting in fields(CompactnessRegularizer) if setting.init and setting.name != "method"]
    plain = regularizer == NO_REGULARIZER
    allowed = own if plain else own + term
    for unknown in [setting for setting in given if setting not in allowed]:
        raise InputError(
            f"setting {unknown!r}",
            f"{kind.__name__}{' without' if plain else ' with'} a regularizer has {', '.join(allowed)}",
            "Fix the name, or choose another --regularizer",
        )
    settings = (preset.settings() if preset else {}) | {setting: given[setting] for setting in own if setting in given}
    terms = (preset.regularizer_settings() if preset else {}) | {
        setting: given[setting] for setting in term if setting in given
    }
    return kind(**settings, regularizer=None if plain else CompactnessRegularizer(method=regularizer, **terms))
