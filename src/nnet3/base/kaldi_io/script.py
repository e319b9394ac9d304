"""Script files: lines `KEY FILENAME`, maybe with a range of rows and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.compressed import CompressedMatrix
from nnet3.base.kaldi_io.general import dense
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.kaldi_io.specifiers import parse_rxfilename
from nnet3.base.kaldi_io.streams import read_whole
from nnet3.base.text import BLANKS
from nnet3.errors import TableError

_ROWS_TOO_MANY = 3  # a range may end so many rows past the matrix, since durations are rounded
_LINE = re.compile(rf"[{BLANKS}]*([^{BLANKS}]+)[{BLANKS}]+([^{BLANKS}].*)", re.DOTALL)
_RANGE = re.compile(r"\[(:|[0-9]{1,9}:[0-9]{1,9})(?:,(:|[0-9]{1,9}:[0-9]{1,9}))?\]")


@dataclass(frozen=True)
class ScriptEntry:
    key: str
    name: str
    range: str = ""  # with its brackets


def read_script(name: str) -> list[ScriptEntry]:
    """Returns the lines of a script file; TableError if one is no `KEY FILENAME`."""
    contents = bytes(read_whole(parse_rxfilename(name))).decode("utf-8", "surrogateescape")
    lines = contents.removesuffix("\n").split("\n") if contents else []
    return [_parse_line(line, f"{name}, line {number}") for number, line in enumerate(lines, 1)]


def _parse_line(line: str, place: str) -> ScriptEntry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise TableError(f"{place}: expected 'KEY FILENAME', got '{line[:60]}'")
    return ScriptEntry(match[1], *split_range(match[2].rstrip(BLANKS), place))


def split_range(name: str, place: str) -> tuple[str, str]:
    """Returns a file's name, and the text of a range of rows and columns behind it, or "". TableError, at `place`."""
    if not name.endswith("]"):
        return name, ""
    name, bracket, inside = name.rpartition("[")
    if not _RANGE.fullmatch(bracket + inside):
        raise TableError(f"{place}: '{bracket}{inside}' is not a range such as [0:9] or [:,0:12]")
    return name.rstrip(BLANKS), bracket + inside


def cut(value: object, range_: str) -> np.ndarray:
    """Returns the rows and columns of a range such as [0:9,5:7], both ends included, as a full matrix.

    A compressed matrix is decoded first, as in Kaldi: its part is not compressed again.
    """
    match = _RANGE.fullmatch(range_)
    assert match is not None, "the reader of the script has checked it"
    if not isinstance(value, (np.ndarray, SparseMatrix, CompressedMatrix)) or len(value.shape) != 2:
        raise TableError(f"the range {range_} is given, but only matrices have ranges")
    rows = _bounds(match.group(1), value.shape[0], _ROWS_TOO_MANY, range_)
    columns = _bounds(match.group(2) or ":", value.shape[1], 0, range_)
    return dense(value)[rows, columns].copy()


def _bounds(text: str, size: int, too_many: int, range_: str) -> slice:
    if text == ":":
        return slice(0, size)
    first, last = map(int, text.split(":"))
    if first > last or first >= size or last >= size + too_many:
        raise TableError(f"the range {range_} does not fit a matrix with {size} rows or columns there")
    return slice(first, min(last + 1, size))
