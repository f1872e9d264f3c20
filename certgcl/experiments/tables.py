"""Rows of numbers: the measurements of an experiment, from which its CSV file and its figure are made."""

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from certgcl.files.atomic import write_atomically

Row: TypeAlias = dict[str, Any]
DIGITS = 6


def rounded(rows: Iterable[Row]) -> list[Row]:
    """Six digits, more than any measurement has; the figure then shows exactly what is in the file."""
    return [
        {name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    """One line per row, under all names that occur; missing values are empty cells."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, lambda stream: stream.write(text.getvalue().encode()))
    return path


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that agree in some columns, in the order in which they first appear."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def column(rows: Iterable[Row], name: str) -> list[Any]:
    """The values that exist."""
    return [row[name] for row in rows if row.get(name) is not None]


def over_norm(rows: Iterable[Row], name: str) -> list[float]:
    """A score divided by the mean norm of the embeddings, so that larger embeddings alone gain nothing."""
    return [row[name] / row["norm"] for row in rows if row.get(name) is not None]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; 0 for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
