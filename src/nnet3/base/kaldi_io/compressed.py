"""Compressed matrices: one or two bytes an element."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.arrays import float_array
from nnet3.base.kaldi_io.tokens import TokenReader
from nnet3.errors import NumericalError

_BLOCK = 1 << 20  # elements decoded at a time
_HEADER = struct.Struct("<ffii")
_PER_UINT16 = np.float32(1.52590218966964e-05)

# Decoding of the bytes of a CM matrix: the part of the column's range, the steps into it, the width of a step.
_BYTE = np.arange(256)
_THIRD = np.where(_BYTE <= 64, 0, np.where(_BYTE <= 192, 1, 2))
_STEPS = (_BYTE - np.array([0, 64, 192])[_THIRD]).astype(np.float32)
_STEP_WIDTH = (1 / np.array([64.0, 128.0, 63.0]))[_THIRD]


class CompressionMethod(IntEnum):
    """The ways to choose codes, by Kaldi's numbers."""

    AUTOMATIC = 1
    SPEECH_FEATURE = 2
    TWO_BYTE_AUTO = 3
    TWO_BYTE_SIGNED_INTEGER = 4
    ONE_BYTE_AUTO = 5
    ONE_BYTE_UNSIGNED_INTEGER = 6
    ONE_BYTE_ZERO_ONE = 7


_FIXED_RANGE = {
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (-32768.0, 65535.0),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (0.0, 255.0),
    CompressionMethod.ONE_BYTE_ZERO_ONE: (0.0, 1.0),
}
_TWO_BYTE = (CompressionMethod.TWO_BYTE_AUTO, CompressionMethod.TWO_BYTE_SIGNED_INTEGER)


@dataclass(frozen=True, eq=False)
class CompressedMatrix:
    """The codes of a matrix.

    `codes` is (rows, columns), uint16 or uint8. Where `quantiles` (columns, 4) uint16 is given, the bytes of
    a column stand between its 0, 25, 75 and 100 % points, else between the ends of the whole range.
    """

    codes: np.ndarray
    min_value: float
    range: float
    quantiles: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def tag(self) -> str:
        """The token before it in a binary file."""
        if self.quantiles is not None:
            return "CM"
        return "CM2" if self.codes.dtype.itemsize == 2 else "CM3"

    def to_bytes(self) -> bytes:
        """Returns the bytes that follow the token in a binary file."""
        header = _HEADER.pack(self.min_value, self.range, *self.shape)
        if self.quantiles is None:
            return header + self.codes.tobytes()
        return header + self.quantiles.tobytes() + self.codes.tobytes(order="F")

    def decode(self) -> np.ndarray:
        """Returns the matrix, (rows, columns) float32, rounded as by a Kaldi built without fused multiply-add."""
        with np.errstate(over="ignore", invalid="ignore"):  # damaged data may reach beyond float32
            return self._decode()

    def _decode(self) -> np.ndarray:
        rows, columns = self.shape
        decoded = np.empty((rows, columns), np.float32)
        if self.quantiles is None:
            step = np.float32(self.range * (1.0 / np.iinfo(self.codes.dtype).max))
            for part in _parts(rows, columns):
                decoded[part] = self.codes[part].astype(np.float32) * step + np.float32(self.min_value)
            return decoded
        points = _quantile_values(self.quantiles, self.min_value, self.range)
        for part in _parts(columns, rows):
            codes = self.codes.T[part]  # (some columns, rows)
            if rows > 256:
                table = _between_points(points[part], np.broadcast_to(_BYTE, (len(codes), 256)))
                decoded.T[part] = np.take_along_axis(table, codes.astype(np.intp), axis=1)
            else:
                decoded.T[part] = _between_points(points[part], codes)
        return decoded


def _quantile_values(quantiles: np.ndarray, low: float, extent: float) -> np.ndarray:
    """Returns the quantiles as values, of the same shape, float32."""
    step = np.float32(extent) * _PER_UINT16
    return quantiles.astype(np.float32) * step + np.float32(low)


def _parts(count: int, width: int) -> list[slice]:
    """Slices of range(count) with about `_BLOCK` elements each, `width` per item."""
    step = max(1, _BLOCK // max(1, width))
    return [slice(first, first + step) for first in range(0, count, step)]


def _between_points(points: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Values of CM bytes: points (columns, 4), codes (columns, n) -> (columns, n) float32."""
    third = _THIRD[codes]
    base = np.take_along_axis(points, third, axis=1)
    product = np.take_along_axis(np.diff(points), third, axis=1) * _STEPS[codes]  # float32: it is rounded here
    return (product * _STEP_WIDTH[codes] + base).astype(np.float32)


def read_compressed(reader: TokenReader) -> CompressedMatrix:
    """Returns the compressed matrix whose token (CM, CM2 or CM3) stands at the reader's position; binary only."""
    start = reader.position
    tag = reader.expect("CM", "CM2", "CM3")
    reader.need(_HEADER.size, "the header of a compressed matrix")
    min_value, extent, rows, columns = _HEADER.unpack_from(reader.data, reader.position)
    reader.position += _HEADER.size
    if rows < 0 or columns < 0 or (rows == 0) != (columns == 0):
        raise reader.error_at(start, f"a compressed matrix cannot be {rows} x {columns}")
    if columns == 0:
        # Kaldi writes four bytes more for an empty one than it reads.
        if reader.data[reader.position : reader.position + 4] == bytes(4):
            reader.position += 4
        return CompressedMatrix(np.empty((0, 0), np.uint8), 0.0, 1.0)
    if not (np.isfinite(min_value) and np.isfinite(extent)):
        raise reader.error_at(start, f"a compressed matrix cannot begin at {min_value} and extend over {extent}")
    what = f"a compressed {rows} x {columns} matrix"
    if tag != "CM":
        dtype = "<u2" if tag == "CM2" else np.uint8
        return CompressedMatrix(
            reader.raw_array(rows * columns, dtype, what).reshape(rows, columns).copy(), min_value, extent
        )
    quantiles = reader.raw_array(4 * columns, "<u2", what).reshape(columns, 4).copy()
    codes = reader.raw_array(rows * columns, np.uint8, what).reshape(columns, rows).copy()
    return CompressedMatrix(codes.T, min_value, extent, quantiles)


def compress(matrix: ArrayLike, method: CompressionMethod | int = CompressionMethod.AUTOMATIC) -> CompressedMatrix:
    """Compresses an array (rows, columns). NumericalError for NaNs or infinities, ModelFormatError for other values."""
    values = float_array(matrix, 2, np.float32)
    method = CompressionMethod(method)
    if values.size == 0:
        return CompressedMatrix(np.empty((0, 0), np.uint8), 0.0, 1.0)
    if method is CompressionMethod.AUTOMATIC:
        method = CompressionMethod.SPEECH_FEATURE if len(values) > 8 else CompressionMethod.TWO_BYTE_AUTO
    low, extent = _range(values, method)
    if method is CompressionMethod.SPEECH_FEATURE:
        return _compress_by_quantiles(values, low, extent)
    codes = _codes(values, low, extent, np.uint16 if method in _TWO_BYTE else np.uint8)
    return CompressedMatrix(codes, float(low), float(extent))


def _range(values: np.ndarray, method: CompressionMethod) -> tuple[np.float32, np.float32]:
    low, high = values.min(), values.max()  # NaN if there is one
    with np.errstate(over="ignore", invalid="ignore"):
        extent = np.float32(low + (1.0 + abs(float(low)))) - low if high == low else high - low
    if not np.isfinite(extent):
        raise NumericalError("cannot compress a matrix with NaN or infinite values, or of an infinite range")
    fixed = _FIXED_RANGE.get(method)
    return (np.float32(fixed[0]), np.float32(fixed[1])) if fixed else (low, extent)


def _codes(values: np.ndarray, low: np.float32, extent: np.float32, dtype: type) -> np.ndarray:
    fraction = np.clip((values - low) / extent, 0, 1)
    scaled = fraction * np.float32(np.iinfo(dtype).max)
    return (scaled.astype(np.float64) + 0.499).astype(dtype)


def _compress_by_quantiles(values: np.ndarray, low: np.float32, extent: np.float32) -> CompressedMatrix:
    rows, columns = values.shape
    quarter = rows // 4
    places = [0, quarter, 3 * quarter, rows - 1] if rows >= 5 else list(range(rows))
    order = np.partition(values, places, axis=0)[places].T  # (columns, up to 4)
    codes = np.full((columns, 4), 0, np.int64)
    codes[:, : len(places)] = _codes(order, low, extent, np.uint16)
    codes[:, 0] = np.minimum(codes[:, 0], 65532)
    for k in (1, 2, 3):  # strictly increasing; a missing one is 0 and so becomes its predecessor + 1
        codes[:, k] = np.minimum(np.maximum(codes[:, k], codes[:, k - 1] + 1), 65532 + k)
    points = _quantile_values(codes, float(low), float(extent)).T  # (4, columns)
    with np.errstate(divide="ignore", invalid="ignore"):  # points coincide where rounding makes them
        lower, middle, upper = (
            _steps(values, points[k], points[k + 1], count, first)
            for k, count, first in ((0, 64, 0), (1, 128, 64), (2, 63, 192))
        )
    bytes_ = np.where(values < points[1], lower, np.where(values < points[2], middle, upper))
    return CompressedMatrix(bytes_.astype(np.uint8), float(low), float(extent), codes.astype(np.uint16))


def _steps(values: np.ndarray, start: np.ndarray, end: np.ndarray, count: int, first: int) -> np.ndarray:
    """Returns the code, first .. first + count, of each value from `start` to `end` of its column; clips others."""
    steps = (values - start) / (end - start) * np.float32(count)
    return first + np.nan_to_num(np.clip(np.trunc(steps.astype(np.float64) + 0.5), 0, count))
