"""How a command ends: its result on stdout, errors on stderr, and the exit code."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from certgcl.errors import CertgclError
from certgcl.runtime.out_of_memory import SMALLER, out_of_memory

FAILED, FOUND, INTERRUPTED = 1, 3, 130  # 2 is wrong usage; FOUND is an answer, not a failure


@contextmanager
def reported_errors(as_json: bool, after_interrupt: str) -> Iterator[None]:
    """Turn an error of certgcl or of the file system into a message without a traceback, Ctrl-C into advice."""
    try:
        with out_of_memory("the command", SMALLER):
            yield
    except KeyboardInterrupt:
        _fail(as_json, INTERRUPTED, {"type": "KeyboardInterrupt", "found": "interrupted", "remedy": after_interrupt})
    except CertgclError as error:
        _fail(
            as_json,
            FAILED,
            {"type": type(error).__name__, "found": error.found, "rule": error.rule, "remedy": error.remedy},
        )
    except OSError as error:
        _fail(as_json, FAILED, {"type": type(error).__name__, "found": str(error)})


def _fail(as_json: bool, code: int, error: dict[str, str]) -> None:
    shown = dict(error)
    kind = shown.pop("type")
    typer.echo(printable("\n".join([kind, *(f"  {name + ':':<8} {text}" for name, text in shown.items())])), err=True)
    if as_json:
        typer.echo(json.dumps({"error": error}))
    raise typer.Exit(code)


def show(as_json: bool, result: Mapping[str, Any], text: str) -> None:
    """The result, as one JSON object or as text."""
    typer.echo(json.dumps(result) if as_json else printable(text))


def printable(text: str) -> str:
    """The text, with file names that are not UTF-8 escaped."""
    return text.encode(errors="backslashreplace").decode()
