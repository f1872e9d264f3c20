"""A hook of mkdocs: the tutorial and each how-to as a notebook, made from the page.

Code becomes cells, and what the page shows below a block is its output. ``tests/public/test_docs.py`` runs the pages
and compares these outputs, so a notebook is as true as its page and needs no run of its own.
"""

import json
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def is_notebook(path: str) -> bool:
    """Whether the page at a path is one to work through."""
    return path == "tutorial.md" or path.startswith("howto/")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the notebooks to the files of the site."""
    for page in list(files.documentation_pages()):
        if is_notebook(page.src_uri):
            files.append(File.generated(config, notebook_path(page.src_uri), content=notebook(page.content_string)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to the notebook below the title."""
    path = page.file.src_uri
    if not is_notebook(path):
        return markdown
    title, rest = markdown.split("\n", 1)
    link = get_relative_url(notebook_path(path), page.url)
    return f'{title}\n\n<a href="{link}" download>This page as a notebook</a>\n{rest}'


def notebook_path(path: str) -> str:
    return f"notebooks/{path.rpartition('/')[2].removesuffix('.md')}.ipynb"


def notebook(markdown: str) -> str:
    """The page in the format of Jupyter."""
    cells: list[dict[str, Any]] = []
    end, ran = 0, 0
    for match in FENCE.finditer(markdown):
        language, code = match[1], match[2]
        between = markdown[end : match.start()].strip()
        shows = language == "text" and not between and cells and cells[-1]["cell_type"] == "code"
        if between:
            cells.append(_words(between, len(cells)))
        if shows:
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": code.splitlines(keepends=True)}]
        elif language in ("python", "sh"):
            ran += 1
            cells.append(_code(code if language == "python" else _commands(code), len(cells), ran))
        else:
            cells.append(_words(match[0], len(cells)))
        end = match.end()
    if markdown[end:].strip():
        cells.append(_words(markdown[end:].strip(), len(cells)))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1)


def _commands(code: str) -> str:
    """Lines for a shell, as a notebook runs them."""
    lines = code.replace("\\\n", " ").splitlines()
    return "".join(f"%{line}\n" if line.startswith("pip ") else f"!{line}\n" for line in lines if line.strip())


def _words(text: str, number: int) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(code: str, number: int, ran: int) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {},
        "execution_count": ran,
        "outputs": [],
        "source": code.rstrip("\n").splitlines(keepends=True),
    }
