"""AudioSource: the samples of a recording, read once and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nnet3.errors import ModelFormatError

NO_SAMPLE = "there is no sample in this recording"
_MOST_BYTES = 1 << 24  # of a piece: headers can say any rate and any number of channels


class BytesInOrder(Protocol):
    """An object whose `read` returns `count` bytes, fewer at the end only."""

    def read(self, count: int = ..., /) -> bytes: ...


class AudioSource:
    """Samples (frames, channels), read once, integers or floats in the scale of 16 bits, and their rate.

    `said`: the number of frames stated by the file, None if it states none. `notice` tells what was odd about the file
    when all is read, "" for nothing. `close` ends a program that is still giving samples.
    """

    def __init__(
        self,
        source: str,
        rate: int,
        channels: int,
        dtype: str,
        read: Callable[[int], bytes],
        said: int | None,
        close: Callable[[], None] = lambda: None,
    ):
        """`read(n)` returns the bytes of n frames, fewer at the end only."""
        self.source, self.rate, self.channels, self.said = source, rate, channels, said
        self.notice, self.close = "", close
        self._dtype, self._read = np.dtype(dtype), read

    @property
    def seconds(self) -> float | None:
        """The length stated by the file; None without a statement."""
        return None if self.said is None else self.said / max(self.rate, 1)

    def pieces(self, seconds: float) -> Iterator[npt.NDArray[np.generic]]:
        """Yields samples in pieces of `seconds` as they come. Raises ModelFormatError if the source has no sample."""
        size, done, is_cut = self.channels * self._dtype.itemsize, 0, False
        count = max(min(int(seconds * self.rate), _MOST_BYTES // size), 1)
        while contents := self._read(count):
            frames = len(contents) // size
            is_cut = frames * size < len(contents)
            if frames:
                yield np.frombuffer(contents[: frames * size], self._dtype).reshape(frames, self.channels)
            done += frames
        if done == 0:
            raise ModelFormatError(NO_SAMPLE, self.source)
        if self.said is not None and done < self.said:
            self.notice = f"the file is cut: {done} of {self.said} samples are there"
        elif is_cut:
            self.notice = "the last sample is cut"
