"""Cutting utterances for x-vectors, as Kaldi's nnet3-xvector-compute and nnet3-xvector-compute-batched do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.errors import ExecutionError
from nnet3.options import EqualXvectorOptions, XvectorOptions


class XvectorChunk(NamedTuple):
    """The frames `first` .. `end - 1`, padded to so many rows, and the weight of their vector in the mean.

    `before` rows repeat the first frame, those that are missing at the end the last one.
    """

    first: int
    end: int
    before: int
    rows: int
    weight: int

    def frames(self) -> np.ndarray:
        """Returns the frame of each row, (rows,)."""
        return np.clip(np.arange(self.rows) + self.first - self.before, self.first, self.end - 1)


def chunks_in_row(num_frames: int, options: XvectorOptions) -> list[XvectorChunk]:
    """Returns chunks of `chunk_size` frames, one behind the other, the last of which may be shorter.

    Each weighs as many as it has frames. Raises ExecutionError for an utterance that is too short.

    >>> for chunk in chunks_in_row(250, XvectorOptions(chunk_size=100, min_chunk_size=60)):
    ...     print(tuple(chunk))
    (0, 100, 0, 100, 100)
    (100, 200, 0, 100, 100)
    (200, 250, 5, 60, 50)
    """
    least = options.min_chunk_size
    if num_frames < least and not options.pad_input:
        raise ExecutionError(f"its {num_frames} frames are fewer than the {least} of the smallest chunk")
    size = num_frames if options.chunk_size < 0 else min(options.chunk_size, num_frames)
    chunks = []
    for first in range(0, num_frames, size):
        count = min(size, num_frames - first)
        if count >= least or options.pad_input:
            chunks.append(XvectorChunk(first, first + count, max(least - count, 0) // 2, max(count, least), count))
    return chunks


def equal_chunks(num_frames: int, options: EqualXvectorOptions, context: int) -> list[XvectorChunk]:
    """Returns chunks of `chunk_size` frames of which the network's `context` frames are shared by neighbours.

    There are as few as leave none out, whose ends overlap, or one fewer, with gaps between, if that makes the weights
    of frames in the mean of their vectors more alike. Raises ExecutionError for an utterance that is too short and not
    to be padded.

    >>> for num_frames in (233, 300):
    ...     chunks = equal_chunks(num_frames, EqualXvectorOptions(chunk_size=100), context=10)
    ...     print([(chunk.first, chunk.end) for chunk in chunks])
    [(0, 100), (67, 167), (133, 233)]
    [(5, 105), (100, 200), (195, 295)]
    """
    size = options.chunk_size
    if num_frames <= size:
        if num_frames < size and not options.pad_input:
            raise ExecutionError(f"its {num_frames} frames are fewer than the {size} of a chunk")
        return [XvectorChunk(0, num_frames, 0, size, 1)]
    length, step = num_frames - context, size - context
    count = length // step
    twice = (count + 1) * step - length  # frames in two chunks if there is one chunk more
    once = length - twice
    if (once + 2 * twice) ** 2 <= count * step * (once + 4 * twice):
        gaps = _pieces(length - count * step, count + 1)[:count]
        starts = np.cumsum(gaps) + step * np.arange(count)
    else:
        starts = np.append(0, np.cumsum(step - _pieces(twice, count)))
    return [XvectorChunk(first, first + size, 0, size, 1) for first in starts.tolist()]


def _pieces(number: int, count: int) -> np.ndarray:
    """Returns so many integers that add up to a number, the larger ones, if they are not equal, at the end."""
    return number // count + (np.arange(count) >= count - number % count)
