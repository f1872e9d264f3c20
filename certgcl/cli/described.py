"""The commands as data, from which the ``certgcl`` script answers ``-h`` and completes arguments without loading torch.

``python -m certgcl.cli.described`` rewrites ``commands.json`` after a command or an option has changed.
"""

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

FILE = Path(__file__).with_name("commands.json")
_ASKED = ("help", "metavar", "min", "max", "file_okay", "dir_okay")  # for help and completion


def describe(app: typer.Typer) -> dict[str, Any]:
    """Every command with its help and parameters; a group with its commands."""
    found: dict[str, Any] = {}
    for command in app.registered_commands:
        assert command.callback is not None
        found[command.name or command.callback.__name__] = {
            "help": inspect.getdoc(command.callback),
            "parameters": _parameters(command.callback),
        }
    for group in app.registered_groups:
        assert group.typer_instance is not None
        inner = group.typer_instance
        found[str(inner.info.name)] = {"help": inner.info.help, "commands": describe(inner)}
    return found


def _parameters(callback: Any) -> list[dict[str, Any]]:
    hints = get_type_hints(callback, include_extras=True)
    return [
        _parameter(name, hints[name], given.default) for name, given in inspect.signature(callback).parameters.items()
    ]


def _parameter(name: str, hint: Any, default: Any) -> dict[str, Any]:
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    info = next(note for note in notes if isinstance(note, ParameterInfo))
    assert isinstance(info, OptionInfo | ArgumentInfo)
    plain = {"name": name, "type": _word(kind), "option": isinstance(info, OptionInfo)}
    if default is not inspect.Parameter.empty:
        plain["default"] = str(default) if isinstance(default, Path) else default
    flags = [*([info.default] if isinstance(info.default, str) else []), *(info.param_decls or ())]
    usual = vars(typer.Option())
    return (
        plain
        | ({"flags": flags} if flags else {})
        | ({"values": info.autocompletion("")} if info.autocompletion else {})
        | {key: getattr(info, key) for key in _ASKED if getattr(info, key) != usual[key]}
    )


def _word(kind: Any) -> str:
    """A type in the notation that the script knows: ``int``, ``Path?`` for one or none, ``near|given`` for a choice."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    parts = [part for part in get_args(kind) if part is not type(None)]
    if type(None) in get_args(kind):
        return f"{_word(parts[0])}?"
    return f"list[{_word(parts[0])}]" if get_origin(kind) is list else str(kind.__name__)


def written(app: typer.Typer) -> str:
    """The content that the file must have."""
    return json.dumps(describe(app), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    from certgcl.cli import app

    FILE.write_text(written(app), encoding="utf-8")
