"""What tests of model files share: writing to bytes, comparing texts by value, cutting a file at each byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from tests.call_count import count_calls


def to_bytes(write: Callable[[Writer], None], binary: bool = True) -> bytes:
    """What `write` writes, header included."""
    writer = Writer(binary)
    writer.header()
    write(writer)
    return writer.getvalue()


def assert_same_text(actual: str, expected: str, tolerance: float = 2e-6) -> None:
    """Equal lines of equal words, but for the digits of numbers."""
    mine, theirs = actual.splitlines(), expected.splitlines()
    assert len(mine) == len(theirs)
    for number, (line, wanted) in enumerate(zip(mine, theirs, strict=True), start=1):
        words, wanted_words = line.split(), wanted.split()
        assert len(words) == len(wanted_words), f"line {number}"
        for word, wanted_word in zip(words, wanted_words, strict=True):
            if word != wanted_word:
                value = float(wanted_word)
                assert abs(float(word) - value) <= tolerance * abs(value), f"line {number}: {word}, not {wanted_word}"


def assert_every_cut_is_found(contents: bytes, read: Callable[[Reader], Any], essential: int) -> None:
    """Each of the first `essential` bytes is one that a file cannot end before; that is found out in few calls."""

    def attempt(length: int) -> None:
        with pytest.raises(ModelFormatError):
            read(Reader(contents[:length]))

    most = count_calls(lambda: read(Reader(contents))) + 500  # to say what is wrong
    for length in range(essential):
        assert count_calls(attempt, length, warm_up=False) < most, f"cut to {length} bytes"


def change(text: str, old: str, new: str) -> str:
    """`text` with the first `old` replaced, which must be there."""
    assert old in text
    return text.replace(old, new, 1)
