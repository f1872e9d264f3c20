"""The ``certgcl`` script: help, completion and version answer at once, everything else after torch is loaded.

It is a module outside the package, because ``import certgcl`` loads torch and PyG and cannot defer that: models are
later compared with the functions of both as they were at that moment. The commands are described in
``certgcl/cli/commands.json``, which a test compares with the commands themselves.
"""

import inspect
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # of click, or of typer's own copy of it
_LIGHT = {"-h", "--help", "--version", "--show-completion", "--install-completion"}
_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}


class _LoadTheLibrary(Exception):
    """The arguments are a command to be run, not a request for help."""


class Commands(TyperGroup):
    """Commands that also report usage errors as JSON if ``--json`` is among the arguments."""

    as_json = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        self.as_json = "--json" in args
        with self._told():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with self._told():
            return super().invoke(ctx)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Prints one JSON object on stdout for wrong usage, in addition to the usual text on stderr and exit code 2."""
        try:
            yield
        except _USAGE_ERROR as error:
            if self.as_json:
                words = str(getattr(error, "format_message", error.__str__)())
                typer.echo(json.dumps({"error": {"type": "UsageError", "found": words, "remedy": "See --help"}}))
            raise


def new_app() -> typer.Typer:
    """``certgcl`` without its commands."""
    app = typer.Typer(
        name="certgcl",
        cls=Commands,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def about(
        version: bool = typer.Option(
            False,
            "--version",
            is_eager=True,
            help="Print the version and stop.",
            callback=lambda asked: _print_version() if asked else None,
        ),
    ) -> None:
        """Certified node compactness for graph contrastive learning.

        Exit codes: 0 for success; 1 for a failure; 2 for wrong usage; 3 if audit finds a violation, or verify something
        wrong; 130 after Ctrl-C.
        """

    return app


def suggesting(values: Sequence[str]) -> Callable[[str], list[str]]:
    """What a shell suggests for the beginning of one of these words."""

    def suggest(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return suggest


def main() -> None:
    """The entry point of the ``certgcl`` script."""
    words = sys.argv[1:]
    if not words or not _LIGHT.isdisjoint(words) or "_CERTGCL_COMPLETE" in os.environ:
        try:
            return described()()
        except _LoadTheLibrary:  # an -h among them was the value of an option
            pass
    from certgcl.cli import main as run

    return run()


def described() -> typer.Typer:
    """All commands with their options, only for help: none of them can be run."""
    app = new_app()
    _add(app, json.loads((_package() / "cli" / "commands.json").read_text(encoding="utf-8")))
    return app


def _add(app: typer.Typer, commands: dict[str, Any]) -> None:
    for name, about in commands.items():
        if "commands" in about:
            group = typer.Typer(name=name, help=about["help"], no_args_is_help=True, rich_markup_mode="markdown")
            _add(group, about["commands"])
            app.add_typer(group)
        else:
            app.command(name, help=about["help"])(_callback(about["parameters"]))


def _callback(parameters: list[dict[str, Any]]) -> Any:
    """A function whose signature has these parameters."""

    def call(**_: Any) -> None:
        raise _LoadTheLibrary

    found = [_parameter(**parameter) for parameter in parameters]
    call.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in found}
    return call


def _parameter(
    *,
    name: str,
    type: str,
    option: bool,
    default: Any = inspect.Parameter.empty,
    flags: Any = (),
    values: Sequence[str] = (),
    **asked: Any,
) -> inspect.Parameter:
    if values:
        asked["autocompletion"] = suggesting(values)
    info = typer.Option(*flags, **asked) if option else typer.Argument(**asked)
    annotation: Any = Annotated[_type(type), info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _type(word: str) -> Any:
    if word.endswith("?"):
        return _type(word[:-1]) | None
    if word.startswith("list["):
        return list[_type(word[5:-1])]  # type: ignore[misc]
    return _TYPES[word] if word in _TYPES else Literal[tuple(word.split("|"))]


def _package() -> Path:
    package = find_spec("certgcl")  # found, not loaded
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent


def _print_version() -> None:
    typer.echo(runpy.run_path(str(_package() / "_version.py"))["__version__"])
    raise typer.Exit
