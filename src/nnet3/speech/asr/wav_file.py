"""WAV files of integers, read in order, and written whole."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nnet3.errors import ModelFormatError
from nnet3.speech.asr.arrays import Singles
from nnet3.speech.asr.audio_source import AudioSource, BytesInOrder

_INTEGERS, _EXTENSIBLE = 1, 0xFFFE  # format tags
# The GUID of an extensible header is a format tag and these bytes.
_GUID = bytes.fromhex("000000001000800000aa00389b71")
_MOST_OF_FORMAT = 1 << 10  # bytes; an extensible header has 40
_SKIPPED = 1 << 16  # bytes at a time
_UNKNOWN_SIZE = 0x7FFF0000  # bytes that pipes say where they do not know
_TYPE_OF_WIDTH = {1: "u1", 2: "<i2", 3: "<i4", 4: "<i4"}


class _Format(NamedTuple):
    tag: int
    channels: int
    rate: int
    bytes_per_second: int
    block: int  # bytes of a sample of each channel
    bits: int


def read_wav(file: BytesInOrder, source: str, close: Callable[[], None] = lambda: None) -> AudioSource | None:
    """Reads a WAV file up to its first sample. Returns None for anything but a WAV file of integers.

    WAVE_FORMAT_EXTENSIBLE counts as the format named in the header. Raises ModelFormatError for an impossible header.
    """
    begin = file.read(12)
    if begin[:4] != b"RIFF" or begin[8:] != b"WAVE":
        return None
    found: _Format | None = None
    while len(chunk := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", chunk)
        if name == b"data":
            return None if found is None or found.tag != _INTEGERS else _opened(file, found, size, source, close)
        left = size + size % 2  # chunks begin at even places
        if name == b"fmt ":
            contents = file.read(min(left, _MOST_OF_FORMAT))
            if len(contents) < 16:
                return None
            found = _Format._make(struct.unpack_from("<HHIIHH", contents))
            if found.tag == _EXTENSIBLE and contents[26:40] == _GUID:
                found = found._replace(tag=int.from_bytes(contents[24:26], "little"))
            left -= len(contents)
        while left and (skipped := file.read(min(left, _SKIPPED))):
            left -= len(skipped)
    return None


def wav_bytes(samples: Singles, rate: int) -> bytes:
    """Returns a WAV file of 16 bits of samples (n,) or (n, channels) in the scale of 16 bits.

    Fractions are cut off, and samples beyond 16 bits are the largest or smallest number.
    """
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    contents = np.clip(np.trunc(samples), -32768, 32767).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", _INTEGERS, channels, rate, 2 * channels * rate, 2 * channels, 16)
    inside = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(contents))
    return b"RIFF" + struct.pack("<I", len(inside) + len(contents)) + inside + contents


def _opened(file: BytesInOrder, form: _Format, size: int, source: str, close: Callable[[], None]) -> AudioSource:
    width = (form.bits + 7) // 8
    frame = form.channels * width
    if form.rate < 1 or form.channels < 1 or width not in _TYPE_OF_WIDTH or form.block not in (0, frame):
        raise ModelFormatError(
            f"its header says {form.rate} Hz, {form.channels} channel(s) of {form.bits} bits and {form.block} bytes "
            "for a sample of each: expected a rate above 0, a channel or more, 8, 16, 24 or 32 bits, and as many bytes "
            "as these make",
            source,
        )
    is_known = size < _UNKNOWN_SIZE
    left = size

    def read(frames: int) -> bytes:
        nonlocal left
        contents = file.read(min(frames * frame, left) if is_known else frames * frame)
        left -= len(contents)
        return contents if width != 3 else _widened(contents)

    said = size // frame if is_known else None
    return AudioSource(source, form.rate, form.channels, _TYPE_OF_WIDTH[width], read, said, close)


def _widened(contents: bytes) -> bytes:
    """Returns samples of 24 bits as the upper bytes of 32."""
    samples = np.frombuffer(contents[: len(contents) - len(contents) % 3], np.uint8).reshape(-1, 3)
    return np.pad(samples, ((0, 0), (1, 0))).tobytes()
