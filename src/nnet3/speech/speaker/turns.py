"""Stretches of a recording: with a voice, windows within, and turns of speakers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.errors import ArgumentError, shown
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers


class Turn(NamedTuple):
    """From `start` to `end`, in seconds, a speaker speaks; speakers are counted from 1."""

    start: float
    end: float
    speaker: int


def stretches_of(voiced: Flags, longest_pause: int) -> Integers:
    """Returns the first frame and the frame behind the last one of each stretch with a voice, (stretches, 2).

    Pauses of at most `longest_pause` frames are no ends.

    >>> stretches_of(np.array([0, 1, 1, 0, 1, 0, 0, 1], bool), 1)
    array([[1, 5],
           [7, 8]])
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], voiced.astype(np.int8), [0]]))).reshape(-1, 2)
    if not len(edges):
        return edges
    ends = edges[1:, 0] - edges[:-1, 1] > longest_pause
    return np.stack([edges[np.append(True, ends), 0], edges[np.append(ends, True), 1]], axis=1)


def windows_in(stretches: Integers, size: int, step: int, least: int) -> Integers:
    """Returns the windows (windows, 2) of stretches (stretches, 2) of at least `least` frames.

    A window begins `step` frames behind the window before it and has `size` frames, the last of a stretch maybe fewer;
    one of fewer than `least` frames begins earlier.

    >>> windows_in(np.array([[0, 9], [20, 23], [30, 31]]), 4, 2, 3)
    array([[ 0,  4],
           [ 2,  6],
           [ 4,  8],
           [ 6,  9],
           [20, 23]])
    """
    found = []
    for first, end in stretches[stretches[:, 1] - stretches[:, 0] >= least].tolist():
        starts = np.arange(first, first + max(end - first - size + step - 1, 0) // step * step + 1, step)
        starts = starts[starts < end]
        if end - starts[-1] < least:
            starts[-1] = max(end - size, first)
        found.append(np.stack([starts, np.minimum(starts + size, end)], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 2), np.int64)


def turns_of(start: Doubles, end: Doubles, speakers: npt.NDArray[np.generic]) -> tuple[Doubles, Doubles, Integers]:
    """Returns start and end in seconds, and the first segment, of the turns of segments in the order of time.

    Where two segments overlap, the border is in the middle of the overlap. Neighbours of one speaker without a gap are
    one turn.
    """
    overlap = end[:-1] > start[1:]
    middle = (start[1:] + end[:-1]) / 2.0
    start, end = start.copy(), end.copy()
    start[1:] = np.where(overlap, middle, start[1:])
    end[:-1] = np.where(overlap, middle, end[:-1])
    goes_on = (end[:-1] == start[1:]) & (speakers[:-1] == speakers[1:])
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(start)])
    return start[first], end[np.append(first[1:], len(start))[: len(first)] - 1], first


def rttm_lines(recording: str, turns: Iterable[tuple[float, float, object]], channel: int = 0) -> list[str]:
    """Returns turns, (start, end, speaker), as lines of NIST's rich transcription time marked format.

    >>> rttm_lines("call", [Turn(0.5, 2.0, 1)])
    ['SPEAKER call 0   0.500   1.500 <NA> <NA> 1 <NA> <NA>']

    Raises ArgumentError for anything else than turns.
    """
    try:
        return [
            f"SPEAKER {recording} {channel} {start:7.3f} {end - start:7.3f} <NA> <NA> {speaker} <NA> <NA>"
            for start, end, speaker in turns
        ]
    except (TypeError, ValueError):
        raise ArgumentError(f"turns are triples (start, end, speaker), in seconds, got {shown(turns)}") from None
