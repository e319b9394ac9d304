"""The site: `make docs` builds it from the pages of this folder and from docstrings, which are Markdown."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nnet3.version import __version__
from tools import verbs_page

project = "nnet3"
version = release = __version__
copyright = "the authors of nnet3, Apache 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
html_theme = "furo"
html_title = "nnet3"
html_static_path = ["site"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
default_role = "literal"  # `name` in docstrings
autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
suppress_warnings = ["ref.python"]  # `type` of annotations is no attribute of that name


def literal_blocks(lines: list[str]) -> list[str]:
    """Marks indented lines after a blank one as code, as Markdown does; those that go on with a list stay."""
    marked: list[str] = []
    in_list = in_code = False
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            in_list, in_code = bool(re.match(r"[*-] ", line)), False
        after_blank = number > 0 and not lines[number - 1].strip()
        if line.strip() and indent >= 4 and after_blank and not in_list and not in_code:
            marked += [".. code-block:: text" if not re.search(r"[=(]", line) else ".. code-block:: python", ""]
            in_code = True
        marked.append(line)
    return marked


def _as_restructured(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [_escaped(line) for line in literal_blocks(lines)]


def _escaped(line: str) -> str:
    """Escapes what is no markup in Markdown, outside of code: |x| and x_."""
    if line.startswith("    "):
        return line
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"\||_(?!\w)", r"\\\g<0>", part) for part in parts)


def _with_help(app: Any, name: str, source: list[str]) -> None:
    if name == "verbs":
        source[0] = verbs_page.page(with_help=True)


def setup(app: Any) -> None:
    for language in ("xconfig", "config"):
        app.add_lexer(language, TextLexer)
    app.connect("source-read", _with_help)
    app.connect("autodoc-process-docstring", _as_restructured)
