"""A hook of mkdocs: pages with mathematics load MathJax, which is copied into the site from a Python package.

MathJax draws formulas as SVG from its own outlines, so a page needs no fonts and no network. See
``docs/decisions/mathematics.md``.
"""

from importlib.metadata import files
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

SCRIPTS = ("tools/mathjax_settings.js", "tools/mathjax.js")


def on_files(site: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the script to the files of the site."""
    site.append(File.generated(config, SCRIPTS[-1], abs_src_path=str(mathjax())))
    return site


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load it where there is something to typeset."""
    if 'class="arithmatex"' not in output:
        return output
    tags = "".join(f'<script src="{get_relative_url(script, page.url)}"></script>' for script in SCRIPTS)
    return output.replace("</body>", f"{tags}</body>")


def mathjax() -> Path:
    """The one file of MathJax that reads LaTeX and draws SVG."""
    [script] = (file for file in files("sphinx-mathjax-offline") or () if file.name == "tex-svg-full.js")
    return Path(str(script.locate()))
