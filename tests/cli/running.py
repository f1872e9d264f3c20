"""The command line in one process, for the tests of its commands."""

import json
import re
from typing import Any

from typer.testing import CliRunner, Result

from certgcl.cli import app


def run(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(app, list(arguments), **settings)


def json_of(*arguments: str) -> dict[str, Any]:
    """What a command that succeeds prints with ``--json``: one object, and nothing else."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def plain(text: str) -> str:
    """Without the colours and boxes of the help and of usage errors."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())
