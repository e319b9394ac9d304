"""Windows in stretches and turns of segments, against loops in seconds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ArgumentError
from nnet3.speech.speaker.turns import Turn, rttm_lines, stretches_of, turns_of, windows_in


@given(voiced=st.lists(st.booleans(), max_size=30), pause=st.integers(0, 4))
def test_pauses_end_stretches(voiced: list[bool], pause: int) -> None:
    found: list[list[int]] = []
    for frame, is_voiced in enumerate(voiced):
        if is_voiced and found and frame - found[-1][1] <= pause:
            found[-1][1] = frame + 1
        elif is_voiced:
            found.append([frame, frame + 1])
    assert stretches_of(np.array(voiced, bool), pause).tolist() == found


@given(
    lengths=st.lists(st.integers(1, 40), max_size=4),
    size=st.integers(1, 10),
    step=st.integers(1, 10),
    least=st.integers(1, 10),
)
def test_windows_are_those_of_a_loop(lengths: list[int], size: int, step: int, least: int) -> None:
    """Kaldi's get_uniform_subsegments.py with --constant-duration=True."""
    stretches, begin, expected = [], 0, []
    for length in lengths:
        stretches.append([begin, begin + length])
        start, end, left = begin, begin + length, length
        while length >= least and left > size:
            expected.append([start, start + size])
            start, left = start + step, left - step
        if length >= least and left > 0:
            start = max(end - size, begin) if left < least else start
            expected.append([start, min(start + size, end)])
        begin += length + 5
    assert windows_in(np.array(stretches, int).reshape(-1, 2), size, step, least).tolist() == expected


@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 2)), min_size=1, max_size=12),
)
def test_borders_are_in_the_middle_and_neighbours_are_joined(steps: list[tuple[int, int, int]]) -> None:
    """Kaldi's make_rttm.py."""
    start, segments = 0, []
    for step, length, speaker in steps:
        start += step
        segments.append([float(start), float(start + length), speaker])
    for one, other in pairwise(segments):
        if one[1] > other[0]:
            one[1] = other[0] = (one[1] + other[0]) / 2
    merged: list[list[float]] = []
    for segment in segments:
        if merged and merged[-1][1] == segment[0] and merged[-1][2] == segment[2]:
            merged[-1][1] = segment[1]
        else:
            merged.append(list(segment))
    starts = np.cumsum([step for step, _, _ in steps]).astype(float)
    ends = starts + [length for _, length, _ in steps]
    speakers = np.array([speaker for *_, speaker in steps])
    given_starts, given_ends = starts.copy(), ends.copy()
    begin, end, first = turns_of(starts, ends, speakers)
    np.testing.assert_array_equal((starts, ends), (given_starts, given_ends))
    assert np.stack([begin, end, speakers[first]], axis=1).tolist() == merged


def test_lines_of_rttm() -> None:
    assert rttm_lines("r", [Turn(1.25, 100.5, 2), Turn(0, 0.1234, 1)], channel=1) == [
        "SPEAKER r 1   1.250  99.250 <NA> <NA> 2 <NA> <NA>",
        "SPEAKER r 1   0.000   0.123 <NA> <NA> 1 <NA> <NA>",
    ]


@pytest.mark.parametrize("turns", [3, [(1, 2)], [("a", "b", 1)], [None], [(1.0, None, 2)]])
def test_what_is_no_turn(turns: Any) -> None:
    with pytest.raises(ArgumentError, match=r"turns are triples \(start, end, speaker\), in seconds, got "):
        rttm_lines("r", turns)
