"""Config lines in a form in which an expansion of ours and one of Kaldi's scripts are equal."""

from __future__ import annotations

import re


def clean_lines(text: str) -> list[str]:
    """Lines without comments and irregular blanks."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.startswith("#"))
    return [line for line in lines if line]
