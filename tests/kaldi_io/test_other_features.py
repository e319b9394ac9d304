"""Features of HTK and Sphinx: bytes made here after the descriptions of both formats."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnet3.base.kaldi_io.other_features import read_htk, read_sphinx
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader

ROWS = np.arange(26, dtype=np.float32).reshape(2, 13) / 8
NUMBERS = b"".join(struct.pack(">f", number) for number in ROWS.ravel().tolist())
MFCC, CHECKSUM, COMPRESSED = 6, 0o10000, 0o2000


def _htk(kind: int, rows: int = 2, size: int = 52) -> bytes:
    return struct.pack(">iihH", rows, 100000, size, kind) + NUMBERS


@pytest.mark.parametrize(("kind", "behind"), [(MFCC, b""), (MFCC | CHECKSUM, b"\x12\x34")])
def test_htk(kind: int, behind: bytes) -> None:
    reader = Reader(_htk(kind) + behind + b"next", binary=True)
    assert np.array_equal(read_htk(reader), ROWS)
    assert reader.data[reader.position :] == b"next"


def test_sphinx() -> None:
    reader = Reader(struct.pack(">i", 26) + NUMBERS + b"next", binary=True)
    assert np.array_equal(read_sphinx(reader), ROWS)
    assert reader.data[reader.position :] == b"next"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (_htk(MFCC | COMPRESSED), "got compressed features"),
        (_htk(MFCC | 0o40000), "got compressed features"),
        (_htk(0), "got a waveform"),
        (_htk(MFCC, size=51), "this is no file of HTK: it would have 2 frames of 51 bytes"),
        (_htk(MFCC, rows=-1), "it would have -1 frames"),
        (_htk(MFCC, rows=3), "3 frames of 13 numbers"),
        (_htk(MFCC | CHECKSUM), "a checksum"),
        (b"abc", "the header of HTK"),
    ],
)
def test_bad_htk(contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read_htk(Reader(contents, binary=True))


@pytest.mark.parametrize("contents", [struct.pack(">i", 25) + NUMBERS, struct.pack(">i", 39) + NUMBERS, b"ab"])
def test_bad_sphinx(contents: bytes) -> None:
    with pytest.raises(ModelFormatError, match=r"Sphinx|3 frames"):
        read_sphinx(Reader(contents, binary=True))
