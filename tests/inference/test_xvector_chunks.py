"""How utterances are cut for x-vectors, against the rules of Kaldi's two programs, frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ExecutionError
from nnet3.inference.xvector import chunks_in_row, equal_chunks
from nnet3.options import EqualXvectorOptions, XvectorOptions


def _rows_in_row(frames: list[int], size: int, least: int, pads: bool) -> list[list[int]]:
    """The rows of each chunk, a list of frames padded by hand."""
    chunks = []
    while frames:
        chunk, frames = frames[:size], frames[size:]
        missing = least - len(chunk)
        if missing > 0 and pads:
            chunk = chunk[:1] * (missing // 2) + chunk + chunk[-1:] * (missing - missing // 2)
        if len(chunk) >= least:
            chunks.append(chunk)
    return chunks


@given(st.integers(1, 60), st.integers(1, 30) | st.just(-1), st.integers(1, 40), st.booleans())
def test_chunks_in_a_row_are_slices_padded_at_both_ends(frames: int, size: int, least: int, pads: bool) -> None:
    if not pads and 0 < size < least:
        with pytest.raises(ExecutionError, match="no chunk of"):
            XvectorOptions(size, least, pads)
        return
    options = XvectorOptions(size, least, pads)
    if frames < least and not pads:
        with pytest.raises(ExecutionError, match=f"its {frames} frames are fewer than the {least} of the smallest"):
            chunks_in_row(frames, options)
        return
    chunks = chunks_in_row(frames, options)
    expected = _rows_in_row(list(range(frames)), frames if size == -1 else size, least, pads)
    assert [chunk.frames().tolist() for chunk in chunks] == expected
    assert [chunk.weight for chunk in chunks] == [len(set(rows)) for rows in expected]


def _pieces(number: int, count: int) -> list[int]:
    small, more = divmod(number, count)
    return [small] * (count - more) + [small + 1] * more


def _starts(frames: int, size: int, context: int) -> list[int]:
    length, step = frames - context, size - context
    count = length // step
    twice = (count + 1) * step - length
    once, starts = length - twice, []
    if 1 / (count * step) <= (once + 4 * twice) / (once + 2 * twice) ** 2:
        place = 0
        for gap in _pieces(length - count * step, count + 1)[:-1]:
            starts.append(place + gap)
            place += gap + step
        return starts
    place = 0
    for overlap in [*_pieces(twice, count), 0]:
        starts.append(place)
        place += step - overlap
    return starts


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 39))
def test_equal_chunks_lie_where_the_rule_puts_them(frames: int, size: int, context: int) -> None:
    size += context
    chunks = equal_chunks(frames, EqualXvectorOptions(chunk_size=size), context)
    assert {(chunk.rows, chunk.weight) for chunk in chunks} == {(size, 1)}
    if frames <= size:
        assert [chunk.frames().tolist() for chunk in chunks] == [[min(row, frames - 1) for row in range(size)]]
        return
    starts = _starts(frames, size, context)
    assert [chunk.frames().tolist() for chunk in chunks] == [list(range(start, start + size)) for start in starts]
    assert starts[-1] + size <= frames


def test_equal_chunks_without_padding_need_enough_frames() -> None:
    options = EqualXvectorOptions(chunk_size=30, pad_input=False)
    assert len(equal_chunks(30, options, 4)) == 1
    assert equal_chunks(29, options, 4) == []
