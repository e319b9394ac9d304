"""The nearest known word to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], *, similarity: float = 0.6) -> str:
    """A hint such as "did you mean 'tdnn1.affine'?", or "" when nothing known is near `word`."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=similarity)
    return f"did you mean '{lowered[near[0]]}'?" if near else ""
