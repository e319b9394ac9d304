"""The lines of FSTs in text form: a newline, one line an arc or final state, an empty line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.arrays import converted
from nnet3.base.kaldi_io.parse_numbers import parse_real
from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ModelFormatError

_FIRST_LINE = re.compile(rb"[ \t\r]*\n")
_EMPTY_LINE = re.compile(rb"\n[ \t\r]*(?:\n|\Z)")
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,10}")
_FIELDS_OF_ARCS = 3  # or more: with fewer it is a final state
_MOST_NUMBER = 2**31


class FstLines:
    """The fields of all lines: `arcs` (arcs, fields) and `ends` (ends, fields), words, empty where there is none."""

    def __init__(self, text: bytes, offset: int, numbers_of_fields: tuple[int, ...]):
        self.offset = offset  # of the text in its file
        lines = [line.split() for line in text.split(b"\n") if line]
        fields = np.array([len(line) for line in lines], np.int64)
        wrong = np.flatnonzero(~np.isin(fields, numbers_of_fields))
        if len(wrong):
            shown = b" ".join(lines[wrong[0]])[:60].decode("utf-8", "replace")
            expected = f"{', '.join(map(str, numbers_of_fields[:-1]))} or {numbers_of_fields[-1]}"
            message = f"line {wrong[0] + 1} of this FST has {fields[wrong[0]]} fields: expected {expected}: '{shown}'"
            raise ModelFormatError(message)
        self.fields = fields
        words = np.array([word for line in lines for word in line], object)
        table = np.full((len(fields), numbers_of_fields[-1]), b"", object)
        column = np.arange(len(words)) - np.repeat(np.cumsum(fields) - fields, fields)
        table[np.repeat(np.arange(len(fields)), fields), column] = words
        is_arc = fields >= _FIELDS_OF_ARCS
        self.arcs, self.ends = table[is_arc], table[~is_arc]
        first = self._states(table[:, 0], len(text))
        self.start = int(first[0]) if len(first) else -1
        self.src, self.ending = first[is_arc], first[~is_arc]
        if len(np.unique(self.ending)) < len(self.ending):
            raise ModelFormatError("the final cost of a state of this FST is said twice")
        self.dst = self._states(self.arcs[:, 1], len(text))
        self.num_states = 1 + int(max(first.max(initial=-1), self.dst.max(initial=-1)))

    @contextmanager
    def naming(self, reader: Reader) -> Iterator[None]:
        """Lets errors within it say where the FST begins."""
        try:
            yield
        except ModelFormatError as error:
            raise reader.error_at(self.offset, error.message) from None

    def by_state(self, values: npt.NDArray[Any], default: object) -> npt.NDArray[Any]:
        """Spreads values of the final states' lines, (ends, ...), over all states: (states, ...), default elsewhere."""
        table = np.full((self.num_states, *values.shape[1:]), default, values.dtype)
        table[self.ending] = values
        return table

    def whole_numbers(self, words: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Parses states or labels. ModelFormatError unless all are integers >= 0 that fit 31 bits."""
        found = words.tolist()
        bad = next((word for word in found if not _WHOLE_NUMBER.fullmatch(word) or int(word) >= _MOST_NUMBER), None)
        if bad is not None:
            shown = bad[:40].decode("utf-8", "replace")
            raise ModelFormatError(f"a state or label of an FST must be a whole number, got '{shown}'")
        return np.array(list(map(int, found)), np.int64)

    def costs(self, words: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Parses costs: float32 of the shape of `words`, 0 where a word is empty."""
        values = [parse_real(word or b"0") for word in words.reshape(-1).tolist()]
        if None in values:
            shown = words.reshape(-1)[values.index(None)][:40].decode("utf-8", "replace")
            raise ModelFormatError(f"a cost of an FST must be a number, got '{shown}'")
        return converted(np.array(values, np.float64), np.float32).reshape(words.shape)

    def _states(self, words: npt.NDArray[Any], most: int) -> npt.NDArray[np.int64]:
        numbers = self.whole_numbers(words)
        if numbers.max(initial=-1) >= most:
            raise ModelFormatError(f"state {numbers.max()} is more than an FST of {most} characters can have")
        return numbers


def read_lines(reader: Reader, numbers_of_fields: tuple[int, ...]) -> FstLines:
    """Reads lines up to the empty line; the number of fields of a line must be one of the given numbers."""
    begin = _FIRST_LINE.match(reader.data, reader.position)
    if begin is None:
        raise reader.error("expected an FST as text, which begins with a newline")
    start = begin.end()
    end = _EMPTY_LINE.search(reader.data, start - 1)
    text = reader.data[start : end.start() + 1] if end is not None else reader.data[start:]
    reader.position = end.end() if end is not None else len(reader.data)
    reader.ran_out |= end is None or end.end() == len(reader.data)
    try:
        return FstLines(text, start, numbers_of_fields)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None
