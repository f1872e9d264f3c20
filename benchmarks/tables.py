"""``python -m benchmarks.tables [--check]``: write the tables of docs/performance.md from benchmarks/results/*.json.

What stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->`` is replaced by the report of
``benchmarks/results/NAME.json``, so that the page says what was measured. ``--check`` only tells whether it does.
"""

import argparse
import json
import re
from pathlib import Path

from benchmarks.report import report

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PART = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def rewritten(page: str) -> str:
    """The page with every part for which there are results brought up to date."""

    def part(match: re.Match[str]) -> str:
        file = RESULTS / f"{match[2]}.json"
        body = report(json.loads(file.read_text())) if file.exists() else "Not measured yet."
        return f"{match[1]}{body}\n{match[3]}"

    return PART.sub(part, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the page is not up to date")
    check = parser.parse_args().check
    page = PAGE.read_text()
    wanted = rewritten(page)
    if check and wanted != page:
        raise SystemExit("docs/performance.md is not what benchmarks/results/ says: run python -m benchmarks.tables")
    if not check:
        PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
