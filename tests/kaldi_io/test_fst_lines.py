"""Lines of FSTs as text: arcs, final states, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst_lines import FstLines, read_lines
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader

FIELDS = (1, 2, 3, 4, 5)


def _lines(text: str) -> FstLines:
    return FstLines(text.encode(), 0, FIELDS)


def test_arcs_and_final_states_are_told_apart() -> None:
    lines = _lines("2 0 7\n0 1 3 0.5\n1\n0 2.5\n")
    assert (lines.start, lines.num_states) == (2, 3)
    assert (lines.src.tolist(), lines.dst.tolist(), lines.ending.tolist()) == ([2, 0], [0, 1], [1, 0])
    assert lines.costs(lines.arcs[:, 3]).tolist() == [0, 0.5]
    assert lines.by_state(lines.costs(lines.ends[:, 1]), np.inf).tolist() == [2.5, 0, np.inf]


def test_an_empty_fst_has_no_start() -> None:
    assert (_lines("").start, _lines("").num_states) == (-1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 1 1 0.5 9\n", "line 1 of this FST has 6 fields: expected 1, 2, 3, 4 or 5: '0 1 1 1 0.5 9'"),
        ("0\n0 1.5\n", "the final cost of a state of this FST is said twice"),
        ("0 -1 1\n", "must be a whole number, got '-1'"),
        ("0 2147483648 1\n", "must be a whole number, got '2147483648'"),
        ("0 1000 1\n", "state 1000 is more than an FST of 9 characters can have"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message.replace("(", r"\(")):
        _lines(text)


def test_costs_are_numbers_that_fit() -> None:
    lines = _lines("0 1 1 x\n")
    with pytest.raises(ModelFormatError, match="a cost of an FST must be a number, got 'x'"):
        lines.costs(lines.arcs[:, 3])


def test_lines_end_with_an_empty_one() -> None:
    reader = Reader(b"\n0 1 1\n1\n\nnext", "x", binary=False)
    lines = read_lines(reader, FIELDS)
    assert (lines.num_states, lines.offset) == (2, 1)
    assert reader.data[reader.position :] == b"next"
    with pytest.raises(ModelFormatError, match="which begins with a newline"):
        read_lines(Reader(b"0 1 1\n", "x", binary=False), FIELDS)


def test_mistakes_are_named_with_their_place() -> None:
    with pytest.raises(ModelFormatError, match="the final cost of a state") as caught:
        read_lines(Reader(b"\n0\n0\n\n", "x.fst", binary=False), FIELDS)
    assert str(caught.value).startswith("x.fst: ")
    lines = _lines("0\n")
    with pytest.raises(ModelFormatError, match=r"x\.fst: .*bad"), lines.naming(Reader(b"0\n", "x.fst", binary=False)):
        raise ModelFormatError("bad")
