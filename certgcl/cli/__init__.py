"""``certgcl`` on the command line: one file per command."""

import typer

from certgcl._version import __version__
from certgcl.cli.audit import audit
from certgcl.cli.certify import certify
from certgcl.cli.datasets import datasets
from certgcl.cli.demo import demo
from certgcl.cli.evaluate import evaluate
from certgcl.cli.merge import merge
from certgcl.cli.report import report
from certgcl.cli.reproduce import app as reproduce
from certgcl.cli.train import train
from certgcl.cli.verify import verify

app = typer.Typer(name="certgcl", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
                  pretty_exceptions_show_locals=False)
for _command in (train, evaluate, certify, merge, verify, audit, report, datasets, demo):
    app.command()(_command)
app.add_typer(reproduce)


@app.callback()
def about(
    version: bool = typer.Option(False, "--version", is_eager=True, help="Print the version and stop.",
                                 callback=lambda asked: _print_version() if asked else None),
) -> None:
    """Certified node compactness for graph contrastive learning."""


def _print_version() -> None:
    typer.echo(__version__)
    raise typer.Exit


def main() -> None:
    """The entry point of the ``certgcl`` script and of ``python -m certgcl``."""
    app()
