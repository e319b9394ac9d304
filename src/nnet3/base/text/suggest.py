"""The known word nearest to a misspelt word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_WORDS = re.compile("[a-z]+|[0-9]+")


def did_you_mean(word: str, known: Iterable[str], *, similarity: float = 0.6) -> str:
    """Returns a hint such as "did you mean 'tdnn1.affine'?", or "" when nothing known is near `word`."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=similarity)
    return f"did you mean '{lowered[near[0]]}'?" if near else ""


def misspelt(key: str, given: Iterable[str]) -> str:
    """Returns a hint about a missing key: "is it the misspelt 'dm'?", or "" where no given key is near `key`.

    Keys are compared word by word: an output-dim is no misspelt input-dim, and input-x-dim is none of input-y-dim.
    """
    near = [other for other in given if _is_misspelt(key, other)]
    return f"is it the misspelt '{near[0]}'?" if near else ""


def _is_misspelt(key: str, other: str) -> bool:
    words, others = _WORDS.findall(key.lower()), _WORDS.findall(other.lower())
    if len(words) != len(others):  # a hyphen is missing, or is too many
        return _similarity("".join(words), "".join(others)) > 0.9
    return all(_similarity(*pair) > 0.65 for pair in zip(words, others, strict=True))


def _similarity(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, word, other).ratio()
