"""Tables of certificates as pandas frames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    import pandas as pd


def long_frame(columns: dict[str, list[Any]], directions: int | None, who: Sequence[str]) -> "pd.DataFrame":
    """A row for each entry; with several directions, a row for each entry and direction, where columns without
    directions repeat their value.

    Args:
        who: the columns that name an entry, which come first.
    """
    with needing("pandas", "a frame"):
        import pandas as pd

    if directions is None:
        return pd.DataFrame(columns)
    flat = {
        name: [value for row in column for value in (row if isinstance(row, list) else [row] * directions)]
        for name, column in columns.items()
    }
    first = {name: flat.pop(name) for name in who if name in flat}
    entries = len(columns[who[0]])
    return pd.DataFrame(first | {"direction": list(range(directions)) * entries} | flat)
