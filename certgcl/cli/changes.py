"""The options that name other changes than dropped edges."""

from typing import Annotated, TypeAlias

import typer

from certgcl.changes.changes import Changes
from certgcl.changes.edge_additions import EdgeFlipBudget
from certgcl.changes.feature_changes import FeatureBudget
from certgcl.cli.options import read_budget, read_drops
from certgcl.errors import BudgetError

AddedOption: TypeAlias = Annotated[
    int | None, typer.Option("--added", min=0, help="Edges that may be added at each node, between any two nodes.")
]
FlippedOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--flipped", min=0, help="Edges that may be dropped or added at each node, together; with --budget 0."
    ),
]
MaskedOption: TypeAlias = Annotated[
    int | None, typer.Option("--masked", min=0, help="Features of each node that may become 0.")
]
ColumnsOption: TypeAlias = Annotated[
    int | None, typer.Option("--columns", min=0, help="Columns of features that may become 0 at all nodes.")
]
BoxOption: TypeAlias = Annotated[
    float | None, typer.Option("--box", min=0, help="How far every feature may move, up or down.")
]


def read_changes(
    budget: str,
    total: int | None,
    added: int | None,
    flipped: int | None,
    masked: int | None,
    columns: int | None,
    box: float | None,
) -> Changes:
    """The changes that the options name together; a total of flips is for both kinds of them."""
    drops = read_budget(budget, total)
    kinds = {"masked": masked, "columns": columns, "box": box}
    asked = {name: value for name, value in kinds.items() if value is not None}
    try:
        features = FeatureBudget(**asked) if asked else None  # type: ignore[arg-type]
        flips = None if flipped is None else EdgeFlipBudget(local=flipped, total=total)
        nothing_dropped = flips is not None and read_drops(budget) == 0
        return Changes(None if nothing_dropped else drops, features, additions=added, flips=flips)
    except BudgetError as error:
        raise typer.BadParameter(str(error), param_hint="--added, --flipped, --masked, --columns, --box") from error


def folder_suffix(**given: float | None) -> str:
    """The ending of a folder's name if changes other than drops are requested."""
    return "".join(f"-{name}-{value:g}" for name, value in given.items() if value is not None)
