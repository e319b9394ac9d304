"""Pieces of HTML for notebooks. All texts are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right"'


def folded(title: str, text: str, *, is_open: bool = False) -> str:
    """Returns lines of text as they are, which fold under a title.

    >>> folded("program", "m1 < m2")
    '<details><summary>program</summary><pre>m1 &lt; m2</pre></details>'
    """
    return f"<details{' open' * is_open}><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], num_left: int = 1) -> str:
    """Returns a table; the first `num_left` columns stand at the left of their cells, the others at the right.

    >>> table(["a"], [["<"], ["b"]]).count("<tr>")
    3
    """
    body = "".join(f"<tr>{_cells('td', row, num_left)}</tr>" for row in rows)
    return f"<table><thead><tr>{_cells('th', heads, num_left)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, texts: Sequence[str], num_left: int) -> str:
    return "".join(
        f"<{tag}{_LEFT if column < num_left else _RIGHT}>{escape(text)}</{tag}>" for column, text in enumerate(texts)
    )
