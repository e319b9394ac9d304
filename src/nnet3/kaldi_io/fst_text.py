"""The text form of FSTs: one line an arc (`src dst ilabel olabel [cost]`) or final state (`state [cost]`).

A newline comes first and an empty line ends it; costs that are not said are 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.fst import Fst

if TYPE_CHECKING:
    from nnet3.kaldi_io.reader import Reader
    from nnet3.kaldi_io.writer import Writer

_FIRST_LINE = re.compile(rb"[ \t\r]*\n")
_EMPTY_LINE = re.compile(rb"\n[ \t\r]*(?:\n|\Z)")
_NUMBER_OF_FIELDS = (1, 2, 4, 5)
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,10}")
# Templates of five arguments each; %.0s takes one and prints nothing
_ARC, _FREE_ARC = "%d\t%d\t%d\t%d\t%.7g\n", "%d\t%d\t%d\t%d%.0s\n"
_FINAL, _FREE_FINAL, _NOT_FINAL = "%d%.0s%.0s%.0s\t%.7g\n", "%d%.0s%.0s%.0s%.0s\n", "%d%.0s%.0s%.0s%.0s\tInfinity\n"


def read_text_fst(reader: Reader) -> Fst:
    """The FST whose text begins here."""
    begin = _FIRST_LINE.match(reader.data, reader.position)
    if begin is None:
        raise reader.error("expected an FST as text, which begins with a newline")
    start = begin.end()
    end = _EMPTY_LINE.search(reader.data, start - 1)
    text = reader.data[start : end.start() + 1] if end is not None else reader.data[start:]
    reader.position = end.end() if end is not None else len(reader.data)
    reader.ran_out |= end is None or end.end() == len(reader.data)
    try:
        return _parse(text)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None


def _parse(text: bytes) -> Fst:
    words = text.split()
    if not words:
        return Fst.empty()
    lines = text.split(b"\n")
    fields = np.array([len(line.split()) for line in lines if line], np.int64)
    if not np.isin(fields, _NUMBER_OF_FIELDS).all():
        line = int(np.argmin(np.isin(fields, _NUMBER_OF_FIELDS)))
        shown = lines[line][:60].decode("utf-8", "replace")
        raise ModelFormatError(
            f"line {line + 1} of this FST has {fields[line]} fields: expected 1, 2, 4 or 5: '{shown}'"
        )
    table = np.zeros((len(fields), 5), "S32")  # (lines, fields), empty where there is none
    if max(map(len, words)) > table.itemsize:
        raise ModelFormatError(f"'{max(words, key=len)[:40].decode('utf-8', 'replace')}' is no number in an FST")
    column = np.arange(len(words)) - np.repeat(np.cumsum(fields) - fields, fields)
    table[np.repeat(np.arange(len(fields)), fields), column] = words
    is_arc = fields >= 4
    first = _states(table[:, 0], len(text))
    arcs, ends = table[is_arc], table[~is_arc]
    dst = _states(arcs[:, 1], len(text))
    final = np.full(1 + max(first.max(), dst.max(initial=0)), np.inf, np.float32)
    final[first[~is_arc]] = _costs(ends[:, 1])
    labels = _whole_numbers(arcs[:, 2]), _whole_numbers(arcs[:, 3])
    olabel = None if np.array_equal(*labels) else labels[1]
    return Fst.from_arcs(int(first[0]), final, first[is_arc], dst, labels[0], _costs(arcs[:, 4]), olabel)


def _states(words: np.ndarray, most: int) -> np.ndarray:
    numbers = _whole_numbers(words)
    if len(numbers) and numbers.max() >= most:
        raise ModelFormatError(f"state {numbers.max()} is more than an FST of {most} characters can have")
    return numbers


def _whole_numbers(words: np.ndarray) -> np.ndarray:
    try:
        numbers = words.astype(np.int64)
    except (ValueError, OverflowError):
        numbers = np.array([-1])
    text = b"".join(words.tolist())
    if text.translate(None, b"0123456789") or (len(words) and not 0 <= numbers.min() <= numbers.max() < 2**31):
        bad = next(w for w in words.tolist() if not _WHOLE_NUMBER.fullmatch(w) or int(w) >= 2**31)
        raise ModelFormatError(
            f"a state or label of an FST must be a whole number, got '{bad.decode('utf-8', 'replace')}'"
        )
    return numbers


def _costs(words: np.ndarray) -> np.ndarray:
    """float32; 0 where nothing is said."""
    said = np.where(words == b"", b"0", words)
    try:
        with np.errstate(over="ignore"):
            return said.astype(np.float64).astype(np.float32)
    except ValueError as error:
        raise ModelFormatError(f"a cost of this FST is not a number: {error}") from None


def write_text_fst(writer: Writer, fst: Fst) -> None:
    """The lines of the start state come first."""
    states, arcs = np.arange(fst.num_states), np.arange(fst.num_arcs)
    said = (fst.final < np.inf) | (np.diff(fst.offsets) == 0)
    ends = np.where(fst.final == np.inf, _NOT_FINAL, np.where(fst.final == 0, _FREE_FINAL, _FINAL))[said]
    templates = np.concatenate([np.where(fst.cost == 0, _FREE_ARC, _ARC), ends])
    columns = [
        np.concatenate([fst.src, states[said]]).tolist(),
        *(
            np.concatenate([values, np.zeros(len(ends), np.int64)]).tolist()
            for values in (fst.dst, fst.ilabel, fst.olabel)
        ),
        np.concatenate([fst.cost, fst.final[said]]).tolist(),
    ]
    behind_arcs = np.concatenate([arcs, fst.offsets[1:][said] - 0.5])
    order = np.lexsort((behind_arcs, columns[0], np.asarray(columns[0]) != fst.start))
    arguments: list[object] = [None] * (5 * len(order))
    for number, column in enumerate(columns):
        arguments[number::5] = [column[line] for line in order.tolist()]
    writer.text("\n" + "".join(templates[order].tolist()) % tuple(arguments) + "\n")
