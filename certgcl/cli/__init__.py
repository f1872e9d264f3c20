"""``certgcl`` on the command line: one file per command."""

from certgcl.cli.audit import audit
from certgcl.cli.certify import certify
from certgcl.cli.datasets import datasets
from certgcl.cli.demo import demo
from certgcl.cli.evaluate import evaluate
from certgcl.cli.explore import explore
from certgcl.cli.merge import merge
from certgcl.cli.report import report
from certgcl.cli.reproduce import app as reproduce
from certgcl.cli.train import train
from certgcl.cli.verify import verify
from certgcl_command import new_app

app = new_app()
for _command in (train, evaluate, certify, merge, verify, audit, report, datasets, demo, explore):
    app.command()(_command)
app.add_typer(reproduce)


def main() -> None:
    """The entry point of ``python -m certgcl``, and of the ``certgcl`` script once it knows the command."""
    app()
