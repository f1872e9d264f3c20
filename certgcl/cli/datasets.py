"""``certgcl datasets``: the graphs that have a name."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from certgcl.cli.options import DataRootOption, JsonFlag
from certgcl.cli.results import reported_errors, show
from certgcl.cli.text_tables import aligned
from certgcl.graphs.datasets import DATASETS, GRAPH_SETS, DatasetInfo, GraphSetInfo
from certgcl.graphs.datasets.paper import cache_folder, missing_files

REMARK = (
    "Files are looked for in --data-root, or else in CERTGCL_DATA and the cache. Without --data-root, missing ones are "
    "downloaded, except those of sets."
)
COUNTS = ("graphs", "nodes", "edges", "features", "classes")


def datasets(data_root: DataRootOption = None, as_json: JsonFlag = False) -> None:
    """List the graphs and sets of graphs that --dataset knows, and say where their files are.

    Files that are missing are downloaded when they are needed, except those of sets.

    **Examples**

        certgcl datasets

        certgcl datasets --data-root data --json
    """
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        graphs = [_row(info, data_root) | {"kind": info.kind} for info in DATASETS.values()]
        sets = [_row(info, data_root) for info in GRAPH_SETS.values()]
        text = f"{_text('dataset', graphs)}\n\n{_text('set of graphs', sets)}\n\n{REMARK}"
        show(as_json, {"datasets": graphs, "sets": sets}, text)


def _row(info: DatasetInfo | GraphSetInfo, root: Path | None) -> dict[str, Any]:
    named = os.environ.get("CERTGCL_DATA")
    folders = [root] if root is not None else [*([Path(named).expanduser()] if named else []), cache_folder()]
    found = next((str(folder) for folder in folders if not missing_files(folder, info)), None)
    return asdict(info) | {"found": found if info.files else None}


def _text(kind: str, rows: list[dict[str, Any]]) -> str:
    shown = [
        {kind: row["name"]}
        | {name: "?" if row[name] is None else f"{row[name]:,}" for name in COUNTS if name in row}
        | {"files": "bundled" if not row["folder"] else "missing" if row["found"] is None else "found"}
        for row in rows
    ]
    width = max(len(row["name"]) for row in rows)
    described = "\n".join(f"{row['name']:<{width}}  {row['description']}" for row in rows)
    return f"{aligned(shown)}\n\n{described}"
