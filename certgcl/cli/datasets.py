"""``certgcl datasets``: the graphs that have a name."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from certgcl.cli.options import DataRootOption, JsonFlag
from certgcl.cli.results import outcome, show
from certgcl.cli.text_tables import aligned
from certgcl.graphs.datasets import DATASETS, DatasetInfo
from certgcl.graphs.datasets.paper import cache_folder, missing_files

COUNTS = ("nodes", "edges", "features", "classes")


def datasets(data_root: DataRootOption = None, as_json: JsonFlag = False) -> None:
    """List the graphs that --dataset knows, and say where their files are; those without are downloaded when needed.

    **Examples**

        certgcl datasets

        certgcl datasets --data-root data --json
    """
    with outcome(as_json, "Nothing is lost; run the same command again"):
        rows = [_row(info, data_root) for info in DATASETS.values()]
        show(as_json, {"datasets": rows}, _text(rows))


def _row(info: DatasetInfo, root: Path | None) -> dict[str, Any]:
    named = os.environ.get("CERTGCL_DATA")
    folders = [root] if root is not None else [*([Path(named).expanduser()] if named else []), cache_folder()]
    found = next((str(folder) for folder in folders if not missing_files(folder, info)), None)
    return asdict(info) | {"kind": info.kind, "found": found if info.files else None}


def _text(rows: list[dict[str, Any]]) -> str:
    shown = [
        {"dataset": row["name"]}
        | {name: "?" if row[name] is None else f"{row[name]:,}" for name in COUNTS}
        | {"files": "bundled" if row["kind"] == "embedded" else "missing" if row["found"] is None else "found"}
        for row in rows
    ]
    width = max(len(row["name"]) for row in rows)
    described = "\n".join(f"{row['name']:<{width}}  {row['description']}" for row in rows)
    return f"{aligned(shown)}\n\n{described}\n\nMissing files are searched in --data-root, or downloaded."
