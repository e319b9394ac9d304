"""Language models in the ARPA format whose words are integers, as arrays: for models of millions of n-grams."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.parse_numbers import Ragged, parse_ragged
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.text import whole_number
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Singles

_LOG = logging.getLogger("nnet3")
_LOG_10 = math.log(10)
_DATA, _END = b"\\data\\", b"\\end\\"
_MOST_WORD = 2**31 - 1


class Ngrams(NamedTuple):
    """All n-grams of one order, in the order of the file: words (n, order) and natural logarithms (n,), 0 for an n-gram
    without a weight of backing off."""

    words: npt.NDArray[np.int32]
    log_prob: Singles
    back_off: Singles


def read_integer_arpa(reader: Reader) -> list[Ngrams]:
    r"""Reads from `\data\` to `\end\`; returns the n-grams of order 1, 2, ...

    A file may have fewer n-grams than announced. Raises ModelFormatError, with the line, for more, for a word that is
    no integer above 0, and for what is not as the format says.
    """
    lines = _directives(reader)
    begin = next((end for _, end, line in lines if line == _DATA), -1)
    if begin < 0:
        raise ModelFormatError("there is no line \\data\\: is this a language model in the ARPA format?", reader.source)
    start, end, line = next(lines, (len(reader.data), 0, b""))
    counts = _counts(reader, begin, start)
    found: list[Ngrams] = []
    while line != _END and line:
        order = len(found) + 1
        if line != b"\\%d-grams:" % order or order > len(counts):
            wanted = f"\\{order}-grams:" if order <= len(counts) else "\\end\\"
            raise reader.error_at(start, f"expected {wanted}, got '{line[:40].decode('utf-8', 'replace')}'")
        begin = end
        start, end, line = next(lines, (len(reader.data), 0, b""))
        found.append(_ngrams(reader, begin, start, order, order == len(counts), counts[order - 1]))
    if not line:
        raise reader.error_at(start, "there is no line \\end\\: the file is cut off")
    if len(found) < len(counts):
        raise reader.error_at(start, f"expected \\{len(found) + 1}-grams:, got \\end\\")
    return found


def _directives(reader: Reader) -> Iterator[tuple[int, int, bytes]]:
    """Yields begin, end and stripped text of each line that begins with a backslash."""
    data, start = reader.data, 0
    if data[:1] != b"\\":
        start = data.find(b"\n\\") + 1
    while start or data[:1] == b"\\":
        end = data.find(b"\n", start) + 1 or len(data)
        yield start, end, data[start:end].rstrip()
        start = data.find(b"\n\\", end - 1) + 1
        if not start:
            return


def _counts(reader: Reader, begin: int, end: int) -> list[int]:
    """Returns the largest number of n-grams of each order."""
    counts: dict[int, int] = {}
    for line in reader.data[begin:end].split(b"\n"):
        text = line.decode("utf-8", "replace").strip()
        before, _, after = text.removeprefix("ngram").partition("=")
        order, count = whole_number(before.strip()), whole_number(after.strip())
        if not text:
            continue
        if not text.startswith("ngram") or order is None or count is None or order < 1:
            _LOG.warning("%s: a line of \\data\\ that says nothing: '%s'", reader.source, text[:60])
            continue
        counts[order] = count
    if sorted(counts) != list(range(1, len(counts) + 1)) or not counts:
        raise reader.error_at(begin, "expected lines such as 'ngram 1=200', for 1, 2, and so on")
    return [counts[order] for order in sorted(counts)]


def _ngrams(reader: Reader, begin: int, end: int, order: int, is_last: bool, most: int) -> Ngrams:
    rows = parse_ragged(reader.data, begin, end, reader.error_at)
    lengths = np.diff(rows.offsets)
    _check_lengths(reader, rows, lengths, order, is_last)
    count = int((lengths > 0).sum())
    if count > most:
        raise reader.error_at(begin, f"expected {most} {order}-grams at most, as the file says, found {count}")
    first = rows.offsets[:-1][lengths > 0]
    position = first[:, None] + np.arange(1, order + 1)
    words, row = rows.values[position], np.flatnonzero(lengths > 0)
    bad = np.argwhere(~rows.is_digits[position] | (words < 1) | (words > _MOST_WORD))
    if len(bad):
        shown = reader.data[rows.begins[row[bad[0][0]]] : rows.begins[row[bad[0][0]] + 1]][:60].strip()
        raise reader.error_at(
            int(rows.begins[row[bad[0][0]]]),
            f"expected {order} words that are integers above 0, got '{shown.decode('utf-8', 'replace')}'",
        )
    back_off = np.zeros(count)
    has_weight = lengths[lengths > 0] == order + 2
    back_off[has_weight] = rows.values[first[has_weight] + order + 1]
    return Ngrams(words.astype(np.int32), _natural(rows.values[first]), _natural(back_off))


def _check_lengths(reader: Reader, rows: Ragged, lengths: npt.NDArray[np.int64], order: int, is_last: bool) -> None:
    allowed = (lengths == 0) | (lengths == order + 1) | ((lengths == order + 2) & (not is_last))
    if not allowed.all():
        row = int(np.argmin(allowed))
        wanted = f"{order + 1}" if is_last else f"{order + 1} or {order + 2}"
        message = f"expected {wanted} fields of a {order}-gram, got {lengths[row]}"
        raise reader.error_at(int(rows.begins[row]), message)


def _natural(log10: npt.NDArray[np.float64]) -> Singles:
    """Returns natural logarithms: products in double of numbers in single, as Kaldi has them."""
    with np.errstate(over="ignore"):
        return (log10.astype(np.float32).astype(np.float64) * _LOG_10).astype(np.float32)
