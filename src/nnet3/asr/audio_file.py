"""Recordings: audio in files and pipes; WAV by Python itself and as it comes, other formats whole by soundfile."""

from __future__ import annotations

import importlib
import io
import wave
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from nnet3.errors import ModelFormatError

_UNKNOWN_SIZE = 0x7FFF0000  # bytes that pipes say where they do not know
_NOTHING = "there is no sample in this recording"
_TYPE_OF_WIDTH = {1: "u1", 2: "<i2", 3: "<i4", 4: "<i4"}


class BytesInOrder(Protocol):
    """Anything whose `read` gives so many bytes, fewer at the end only."""

    def read(self, count: int = ..., /) -> bytes: ...


class AudioSource:
    """Samples (frames, channels) that are read once, integers or floats in the scale of 16 bits, and their rate.

    `said`: the number of frames that the file says it has, None if it says none. `notice` tells what was odd about the
    file when all is read, "" for nothing.
    """

    def __init__(
        self, source: str, rate: int, channels: int, dtype: str, read: Callable[[int], bytes], said: int | None
    ):
        """`read` gives the bytes of so many frames, fewer at the end only."""
        self.source, self.rate, self.channels, self.said = source, rate, channels, said
        self.notice = ""
        self._dtype, self._read = np.dtype(dtype), read

    @property
    def seconds(self) -> float | None:
        """The length that the file says it has; None if it says none."""
        return None if self.said is None else self.said / max(self.rate, 1)

    def pieces(self, seconds: float) -> Iterator[npt.NDArray[np.generic]]:
        """Yields samples of so many seconds as they come. Raises ModelFormatError if there is none."""
        count, size, done, is_cut = max(int(seconds * self.rate), 1), self.channels * self._dtype.itemsize, 0, False
        while contents := self._read(count):
            frames = len(contents) // size
            is_cut = frames * size < len(contents)
            if frames:
                yield np.frombuffer(contents[: frames * size], self._dtype).reshape(frames, self.channels)
            done += frames
        if done == 0:
            raise ModelFormatError(_NOTHING, self.source)
        if self.said is not None and done < self.said:
            self.notice = f"the file is cut: {done} of {self.said} samples are there"
        elif is_cut:
            self.notice = "the last sample is cut"


def open_raw(file: BytesInOrder, source: str, rate: int, channels: int) -> AudioSource:
    """Reads 16-bit little-endian samples without a header."""
    return AudioSource(source, rate, channels, "<i2", lambda frames: file.read(2 * channels * frames), None)


def open_audio(file: BytesInOrder, source: str) -> AudioSource:
    """Reads WAV, or any format that soundfile knows. Raises ModelFormatError."""
    begun = _Remembering(file)
    try:
        opened = wave.open(cast(Any, begun))  # noqa: SIM115
    except (wave.Error, EOFError):
        contents = begun.whole()
        if not contents:
            raise ModelFormatError(_NOTHING, source) from None
        return _of_soundfile(contents, source)
    begun.forget()
    channels, width, rate, said, *_ = opened.getparams()
    if rate < 1 or width not in _TYPE_OF_WIDTH:
        raise ModelFormatError(
            f"its header says {rate} Hz and {8 * width} bits: expected a rate above 0, and 8, 16, 24 or 32 bits", source
        )
    is_known = said * channels * width < _UNKNOWN_SIZE
    read = opened.readframes if width != 3 else lambda frames: _widened(opened.readframes(frames))
    return AudioSource(source, rate, channels, _TYPE_OF_WIDTH[width], read, said if is_known else None)


def _widened(contents: bytes) -> bytes:
    """Returns samples of 24 bits as the upper bytes of 32."""
    samples = np.frombuffer(contents[: len(contents) - len(contents) % 3], np.uint8).reshape(-1, 3)
    return np.pad(samples, ((0, 0), (1, 0))).tobytes()


class _Remembering:
    """A file that cannot seek; its beginning is kept while its format is found out."""

    def __init__(self, file: BytesInOrder):
        self._file = file
        self._begin: list[bytes] | None = []

    def read(self, count: int) -> bytes:
        contents = self._file.read(count)
        if self._begin is not None:
            self._begin.append(contents)
        return contents

    def forget(self) -> None:
        self._begin = None

    def whole(self) -> bytes:
        """Returns all bytes from the beginning on."""
        return b"".join([*(self._begin or []), self._file.read()])


def _of_soundfile(contents: bytes, source: str) -> AudioSource:
    try:
        soundfile: Any = importlib.import_module("soundfile")
    except (ImportError, OSError):
        raise ModelFormatError(
            "this is no WAV file of integers: for other formats `pip install soundfile`, or give PCM with --raw", source
        ) from None
    try:
        samples, rate = soundfile.read(io.BytesIO(contents), dtype="float32", always_2d=True)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelFormatError(f"soundfile cannot read this: {error}", source) from None
    frames, channels = samples.shape
    scaled = io.BytesIO((np.asarray(samples, "<f4") * 32768).tobytes())
    return AudioSource(source, int(rate), channels, "<f4", lambda count: scaled.read(4 * channels * count), frames)
