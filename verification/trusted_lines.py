"""How much of the checker is to be trusted: lines of code by file, without comments, docstrings and empty lines.

``python -m verification.trusted_lines``. The core must be right for a proof to be right; what reads files must be right
for it to be a proof about these files; the rest chooses and reports, and whatever it does proves nothing false.
"""

import ast
import io
import tokenize
from pathlib import Path

CHECKER = Path(__file__).parent / "checker"
READING = ("claim.py", "files.py")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines that have code on them."""
    described = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - described)


def lines_by_part() -> dict[str, dict[str, int]]:
    """Of every file: the core, what reads, and the rest."""
    parts: dict[str, dict[str, int]] = {"core": {}, "reading": {}, "choosing and reporting": {}}
    for path in sorted(CHECKER.rglob("*.py")):
        count = code_lines(path.read_text())
        part = "core" if path.parent.name == "core" else "reading" if path.name in READING else "choosing and reporting"
        if count:
            parts[part][path.name] = count
    return parts


def main() -> None:
    for part, files in lines_by_part().items():
        print(f"{part}: {sum(files.values())} lines of code")
        print("\n".join(f"    {name:<20}{count:>5}" for name, count in files.items()))


if __name__ == "__main__":
    main()
