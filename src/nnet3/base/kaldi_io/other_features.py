"""Features in the files of other toolkits: HTK, Sphinx. Their numbers are big-endian."""

from __future__ import annotations

import struct

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import take

_HTK_HEADER = struct.Struct(">iihH")  # frames, 100 ns from frame to frame, bytes of a frame, kind
_KIND, _NO_FEATURES = 0o77, {0: "a waveform", 5: "integers", 10: "symbols"}  # kinds without features of float32
_IS_PACKED, _HAS_CHECKSUM, _CHECKSUM_BYTES = 0o42000, 0o10000, 2  # compressed, or of a codebook
_SPHINX_COLUMNS = 13


def read_htk(reader: Reader) -> np.ndarray:
    """Reads features of HTK, (frames, columns) float32. Raises ModelFormatError for waveforms and packed features."""
    start = reader.position
    frames, _, size, kind = _HTK_HEADER.unpack(take(reader, _HTK_HEADER.size, "the header of HTK"))
    if frames < 0 or size <= 0 or size % 4:
        raise reader.error_at(start, f"this is no file of HTK: it would have {frames} frames of {size} bytes")
    if kind & _IS_PACKED or kind & _KIND in _NO_FEATURES:
        what = _NO_FEATURES.get(kind & _KIND, "compressed features")
        raise reader.error_at(start, f"expected features of HTK that are not compressed, got {what}; HCopy converts it")
    rows = _rows(reader, frames, size // 4)
    take(reader, _CHECKSUM_BYTES if kind & _HAS_CHECKSUM else 0, "a checksum")
    return rows


def read_sphinx(reader: Reader) -> np.ndarray:
    """Reads features of Sphinx, (frames, 13) float32. Raises ModelFormatError."""
    start = reader.position
    (numbers,) = struct.unpack(">i", take(reader, 4, "the header of Sphinx"))
    if numbers < 0 or numbers % _SPHINX_COLUMNS:
        raise reader.error_at(start, f"expected features of Sphinx, {_SPHINX_COLUMNS} a frame, got {numbers} numbers")
    return _rows(reader, numbers // _SPHINX_COLUMNS, _SPHINX_COLUMNS)


def _rows(reader: Reader, frames: int, columns: int) -> np.ndarray:
    numbers = reader.raw_array(frames * columns, ">f4", f"{frames} frames of {columns} numbers")
    return numbers.astype(np.float32).reshape(frames, columns)
