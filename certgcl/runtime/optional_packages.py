"""Optional packages, imported only when they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager

from certgcl.errors import InputError


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Imports of packages that an extra of certgcl installs; a missing one raises an error that says how to get it.

    Example::

        with needing("plots", "drawing figures"):
            from matplotlib.figure import Figure
    """
    try:
        yield
    except ImportError as reason:
        raise InputError(
            f"{what} without a package it needs ({reason})",
            f"it is part of the extra {extra}",
            f'Run `pip install "certgcl[{extra}]"`',
        ) from reason
