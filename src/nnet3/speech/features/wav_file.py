"""WAV files of integers, read in order."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nnet3.errors import ModelFormatError
from nnet3.speech.features.audio_source import AudioSource, BytesInOrder

_INTEGERS, _EXTENSIBLE = 1, 0xFFFE  # format tags
# The GUID of an extensible header is a format tag and these numbers.
_GUID = (0x00100000, 0xAA000080, 0x719B3800)
_MOST_OF_FORMAT = 1 << 10  # bytes; an extensible header has 40
_SKIPPED = 1 << 16  # bytes at a time
_UNKNOWN_SIZE = 0x7FFF0000  # bytes that pipes say where they do not know
_ORDER_OF_NAME = {b"RIFF": "<", b"RIFX": ">"}
_TYPE_OF_WIDTH = {1: "u1", 2: "i2", 3: "i4", 4: "i4"}


class WavFormat(NamedTuple):
    """The chunk `fmt ` of a WAV file. `tag`: the format, of an extensible header the inner one; `order`: < or >."""

    tag: int
    channels: int
    rate: int
    bytes_per_second: int
    block: int  # bytes of a sample of each channel
    bits: int
    order: str


class WavHeader(NamedTuple):
    """A WAV file up to its first sample. `size`: bytes of samples, None if samples go to the end of the file.

    `said`: the file's size in bytes, less 8, as the file says; `read`: the bytes read behind the first 8.
    """

    format: WavFormat
    size: int | None
    said: int
    read: int


def read_header(file: BytesInOrder, may_pad: bool = True) -> WavHeader | None:
    """Reads a RIFF file, or a RIFX file, whose numbers are big-endian, up to its first sample; None for other files.

    WAVE_FORMAT_EXTENSIBLE counts as the format named in the header. If they `may_pad`, chunks of odd size may have a
    padding byte behind them, or not. Programs that write to pipes leave sizes unknown: 0, -1, or close to 2 GiB.
    """
    begin = file.read(12)
    order = _ORDER_OF_NAME.get(begin[:4])
    if order is None or begin[8:] != b"WAVE":
        return None
    (said,) = struct.unpack_from(f"{order}I", begin, 4)
    format: WavFormat | None = None
    read, is_odd = 4, False
    while len(chunk := file.read(8)) == 8:
        read += 8
        if may_pad and is_odd and chunk[:1] == b"\0":
            chunk, read = chunk[1:] + file.read(1), read + 1
            if len(chunk) < 8:
                return None
        name, size = struct.unpack(f"{order}4sI", chunk)
        if name == b"data":
            is_known = 0 < size < _UNKNOWN_SIZE and 0 < said < 0xFFFFFFFF
            return None if format is None else WavHeader(format, size if is_known else None, said, read)
        left = size
        if name == b"fmt ":
            contents = file.read(min(left, _MOST_OF_FORMAT))
            if len(contents) < 16:
                return None
            format = _format(contents, order)
            left -= len(contents)
        while left and (skipped := file.read(min(left, _SKIPPED))):
            left -= len(skipped)
        read, is_odd = read + size, size % 2 == 1
    return None


def _format(contents: bytes, order: str) -> WavFormat:
    format = WavFormat._make((*struct.unpack_from(f"{order}HHIIHH", contents), order))
    if format.tag == _EXTENSIBLE and len(contents) >= 40:
        tag, *guid = struct.unpack_from(f"{order}4I", contents, 24)
        if tuple(guid) == _GUID:
            return format._replace(tag=tag)
    return format


def read_wav(file: BytesInOrder, source: str, close: Callable[[], None] = lambda: None) -> AudioSource | None:
    """Reads a WAV file up to its first sample. Returns None for anything but a WAV file of integers.

    Raises ModelFormatError for an impossible header.
    """
    header = read_header(file)
    if header is None or header.format.tag != _INTEGERS:
        return None
    return _opened(file, header.format, header.size, source, close)


def _opened(
    file: BytesInOrder, format: WavFormat, size: int | None, source: str, close: Callable[[], None]
) -> AudioSource:
    width = (format.bits + 7) // 8
    frame = format.channels * width
    if format.rate < 1 or format.channels < 1 or width not in _TYPE_OF_WIDTH or format.block not in (0, frame):
        raise ModelFormatError(
            f"its header says {format.rate} Hz, {format.channels} channel(s) of {format.bits} bits and {format.block} "
            "bytes for a sample of each: expected a rate above 0, a channel or more, 8, 16, 24 or 32 bits, and as many "
            "bytes as these make",
            source,
        )
    left = size or 0

    def read(frames: int) -> bytes:
        nonlocal left
        contents = file.read(frames * frame if size is None else min(frames * frame, left))
        left -= len(contents)
        return contents if width != 3 else _widened(contents, format.order)

    said = None if size is None else size // frame
    return AudioSource(source, format.rate, format.channels, format.order + _TYPE_OF_WIDTH[width], read, said, close)


def _widened(contents: bytes, order: str) -> bytes:
    """Returns samples of 24 bits as the upper bytes of 32."""
    samples = np.frombuffer(contents[: len(contents) - len(contents) % 3], np.uint8).reshape(-1, 3)
    return np.pad(samples, ((0, 0), (1, 0) if order == "<" else (0, 1))).tobytes()
