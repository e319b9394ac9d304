"""Words are told apart by ASCII blanks alone."""

from __future__ import annotations

import pytest

from nnet3.base.text import BLANKS, is_word, words_of

OTHERS = ["\u00a0", "\u3000", "\u2028", "\u0085", "\x1c", "\ufeff"]


def test_the_blanks_are_those_of_c() -> None:
    assert words_of("") == words_of(BLANKS) == []
    assert words_of(" a\tb\n\vc\f\rd ") == ["a", "b", "c", "d"]
    assert not any(is_word(text) for text in ("", " ", "a ", *(f"a{blank}b" for blank in BLANKS)))


@pytest.mark.parametrize("other", OTHERS)
def test_other_blanks_are_parts_of_words(other: str) -> None:
    assert words_of(f"{other}a{other}b c{other}") == [f"{other}a{other}b", f"c{other}"]
    assert is_word(other)
