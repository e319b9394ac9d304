"""Kaldi's files `segments`: parts of recordings, and recordings that are parts of others."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

import numpy as np

from nnet3.base.kaldi_io.table_values import open_words_table
from nnet3.base.text import read_number
from nnet3.cli.recordings import Recordings
from nnet3.cli.scoring import each_once
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio_source import AudioSource

Seconds = tuple[float, float]
Segments = Mapping[str, Mapping[str, Seconds]]
_PIECE_SECONDS = 10.0
_TO_THE_END = -1


def read_segments(name: str) -> dict[str, dict[str, Seconds]]:
    """Returns begin and end, in seconds, of the segments of each recording, by recording and key; -1 is infinite.

    Raises Nnet3Error for a line other than KEY RECORDING BEGIN END, and for a repeated key.
    """
    found: dict[str, dict[str, Seconds]] = {}
    with open_words_table(f"ark:{name}") as table:
        for key, fields in each_once(table, name):
            try:
                recording, begin, end = fields[0], *map(read_number, fields[1:])
                end = math.inf if end == _TO_THE_END else end
                is_good = 0 <= begin < end
            except (ValueError, IndexError):
                is_good = False
            if not is_good:
                raise Nnet3Error(
                    f"{name}: expected KEY RECORDING BEGIN END, in seconds, got '{' '.join([key, *fields])[:80]}'"
                )
            found.setdefault(recording, {})[key] = begin, end
    return found


def parts_of(recordings: Recordings, segments: Segments) -> Recordings:
    """Yields the parts of recordings as recordings with their own keys; recordings without parts are left out."""
    for recording, source in recordings:
        parts = segments.get(recording, {})
        if isinstance(source, Nnet3Error):
            yield recording, source
        elif parts:
            try:
                samples = np.concatenate(list(source.pieces(_PIECE_SECONDS)))
            except Nnet3Error as error:
                yield recording, error
                continue
            yield from ((key, _part(source, samples, seconds)) for key, seconds in parts.items())


def rows_between(seconds: Seconds, rate: float, count: int) -> slice:
    """Returns the samples between two times, of `count` samples."""
    begin, end = (round(min(time * rate, count)) for time in seconds)
    return slice(begin, end)


def _part(source: AudioSource, samples: np.ndarray, seconds: Seconds) -> AudioSource:
    part = samples[rows_between(seconds, source.rate, len(samples))]
    contents, size = io.BytesIO(part.tobytes()), part.itemsize * source.channels
    return AudioSource(
        source.source,
        source.rate,
        source.channels,
        part.dtype.str,
        lambda frames: contents.read(frames * size),
        len(part),
    )
