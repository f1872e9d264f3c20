"""``python -m benchmarks.tables [--check]``: write the tables of pages of docs/ from benchmarks/results/.

What stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->`` is replaced by the report of
``benchmarks/results/NAME.json``, or by the tables of the runs in ``NAME.jsonl``: the page says what was measured.
``--check`` only reports whether it does.
"""

import argparse
import json
import re
from pathlib import Path

from benchmarks import bound_against_attack, presets_tried, training_tables
from benchmarks.report import report

RESULTS = Path(__file__).parent / "results"
PAGES = [
    Path(__file__).parents[1] / "docs" / name
    for name in (
        "performance.md",
        "results.md",
        "brackets.md",
        "comparison.md",
        "decisions/two_engines.md",
        "howto/clusters.md",
        "howto/large_graphs.md",
        "howto/training.md",
    )
]
PART = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def rewritten(page: str) -> str:
    """The page with every part for which there are results brought up to date."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}{_measured(match[2])}\n{match[3]}"

    return PART.sub(part, page)


def _measured(name: str) -> str:
    one, runs = RESULTS / f"{name}.json", RESULTS / f"{name}.jsonl"
    if one.exists():
        return report(json.loads(one.read_text()))
    if runs.exists():
        rows = [json.loads(line) for line in runs.read_text().splitlines()]
        written = {
            "bound_against_attack": bound_against_attack.table,
            "objectives_tried": training_tables.tried,
            "presets_tried": presets_tried.table,
        }
        return written[name](rows) if name in written else "\n\n".join(training_tables.tables(rows))
    return "Not measured yet."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the page is not up to date")
    check = parser.parse_args().check
    for path in PAGES:
        page = path.read_text()
        wanted = rewritten(page)
        if check and wanted != page:
            raise SystemExit(f"docs/{path.name} is not what benchmarks/results/ says: run python -m benchmarks.tables")
        if not check:
            path.write_text(wanted)


if __name__ == "__main__":
    main()
