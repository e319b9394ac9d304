"""Words of a line, as C and Kaldi tell them apart: by ASCII blanks alone."""

from __future__ import annotations

import re

BLANKS = " \t\n\v\f\r"
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")


def words_of(line: str) -> list[str]:
    """Returns the words of a line. Other blanks of Unicode, such as U+00A0 and U+3000, are parts of words."""
    stripped = line.strip(BLANKS)
    return _BLANKS.split(stripped) if stripped else []


def is_word(text: str) -> bool:
    """Returns true for a text of one word."""
    return text != "" and _BLANKS.search(text) is None
