"""Plain tables: columns as wide as their contents, the last column folded, no blanks at the end of a line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LEAST_LAST = 24  # columns for the last one, however narrow the terminal


@dataclass(frozen=True)
class Column:
    """A title and a text for each row."""

    title: str
    texts: Sequence[str]
    right: bool = False  # justified


def format_table(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Yields the lines of a table at most `width` wide, if the columns but the last leave last_width."""
    others = columns[:-1]
    widths = [max(map(len, [column.title, *column.texts])) for column in others]
    indent = sum(widths) + 2 * len(widths)
    last_width = max(_LEAST_LAST, width - indent)
    titles = [column.title for column in columns]
    for texts in (titles, *zip(*(column.texts for column in columns), strict=True)):
        cells = [
            text.rjust(wide) if column.right else text.ljust(wide)
            for column, text, wide in zip(others, texts, widths, strict=False)
        ]
        folded = textwrap.wrap(texts[-1], last_width, break_on_hyphens=False) or [""]
        yield "  ".join([*cells, folded[0]]).rstrip()
        for line in folded[1:]:
            yield " " * indent + line
