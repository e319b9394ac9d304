"""Numbers into text: the fewest digits that read back to the same bits, in the manner of C++'s %g."""

from __future__ import annotations

import struct

import numpy as np

_BLOCK = 1 << 16  # numbers formatted at a time
_NUMBER = "%.*g "  # takes a count of digits and a value


def format_float(value: float) -> str:
    """Returns `value` rounded to float32, in the fewest digits that read back to it: `0.1`, `1e-05`, `8`."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    for digits in (7 if 1e6 <= abs(single) < 1e7 else 6, 7, 8):
        text = f"{single:.{digits}g}"
        if np.float32(text) == single:
            return text
    return f"{single:.9g}"


def format_double(value: float) -> str:
    """Returns `value` as float64 in the fewest digits that read back to it."""
    return repr(float(value)).removesuffix(".0")


def format_row(values: np.ndarray) -> str:
    """Returns the numbers of a 1-D float32 or float64 array, each followed by one blank."""
    blocks = (values[first : first + _BLOCK] for first in range(0, len(values), _BLOCK))
    return "".join(_fill(_NUMBER * len(block), block) for block in blocks)


def format_rows(matrix: np.ndarray) -> str:
    """Formats rows of floats (rows, columns): each as newline, two blanks, then the numbers as by `format_row`."""
    rows, columns = matrix.shape
    if columns > _BLOCK:
        return "".join("\n  " + format_row(row) for row in matrix)
    step = max(1, _BLOCK // max(1, columns))
    template = "\n  " + _NUMBER * columns
    blocks = (matrix[first : first + step] for first in range(0, rows, step))
    return "".join(_fill(template * len(block), block.reshape(-1)) for block in blocks)


def _fill(template: str, values: np.ndarray) -> str:
    """Puts `values` into a template of `_NUMBER`s, with as few digits as keep every bit."""
    if values.dtype == np.float64:
        return (template.replace(_NUMBER, "%r ") % tuple(values.tolist())).replace(".0 ", " ")
    digits = _digits_of_float32(values)
    arguments: list[object] = [None] * (2 * len(values))
    arguments[1::2] = values.tolist()
    while True:
        arguments[0::2] = digits.tolist()
        text = template % tuple(arguments)
        lossy = (np.fromstring(text, np.float32, sep=" ") != values) & (digits < 9) & (values == values)
        if not lossy.any():
            return text
        digits[lossy] += 1


def _digits_of_float32(values: np.ndarray) -> np.ndarray:
    """Returns the significant digits needed by each value (6 to 9); `_fill` mends numbers with too few digits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN, which damaged files have
        size = np.abs(values.astype(np.float64))
    ordinary = np.isfinite(size) & (size > 0)
    size[~ordinary] = 1
    exponent = np.floor(np.log10(size))
    digits = np.full(len(values), 9)
    for count in (8, 7, 6):
        scale = 10.0 ** (count - 1 - exponent)
        digits[(np.rint(size * scale) / scale).astype(np.float32) == size] = count
    million = (size >= 1e6) & (size < 1e7)
    digits[million] = np.maximum(digits[million], 7)  # 1000000, not 1e+06
    return digits
