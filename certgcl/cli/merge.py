"""``certgcl merge``: one certificate of all shards."""

from pathlib import Path
from typing import Annotated

import typer

from certgcl.certify.sharding import MERGED, merge_shards
from certgcl.cli.certify import summary
from certgcl.cli.options import JsonFlag
from certgcl.cli.results import reported_errors, show


def merge(
    folder: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The folder passed to certify as --out.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Check that all shards of a folder are there and complete, and join them into certificate.npz.

    **Example**

        certgcl merge result
    """
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        certificate = merge_shards(folder)
        show(as_json, summary(folder, certificate), f"{certificate}\nwritten to {folder / MERGED}")
