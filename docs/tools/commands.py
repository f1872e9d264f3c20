"""A hook of mkdocs: the page of the command line is written from the commands themselves."""

import re
from typing import Any

import typer.main
from typer.cli import get_docs_for_click

from certgcl.cli import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of every command where the mark is."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="certgcl")
    text = text.partition("**Commands**")[2].partition("\n## ")  # what certgcl itself does stands above
    commands = text[1] + text[2]
    return re.sub(r"\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```", r"**Usage**: `\1`", commands).strip()
