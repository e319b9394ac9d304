"""Operations of native code on matrices, as data: what operations.c runs, which has their formulas.

Each function returns the operations that do what its name says, None where native code does not take such matrices: it
takes float32 on the CPU, whose columns lie side by side, and no more rows than it is faster with.
"""

from __future__ import annotations

import struct

from torch import Tensor, float32

#: One operation: a number that tells which, rows, columns, inner size, a float as bits, addresses, strides.
Row = tuple[int, ...]
#: Operations that run one after the other.
Operations = tuple[Row, ...]

NUM_MATRICES = 6
#: The columns of a row that hold addresses.
ADDRESSES = slice(5, 5 + NUM_MATRICES)
BYTES = 8 * (5 + 2 * NUM_MATRICES)  # of one operation

_COPY, _FILL, _ADD, _SCALE, _MULTIPLY, _SIGMOID, _TANH, _RELU, _NORMALIZE, _PRODUCT, _LSTM, _GRU = range(12)
_MOST_ROWS = 8  # of a product; with more MKL is faster
_MOST_ELEMENTS = 2**15  # of a matrix; with more PyTorch uses several threads


def copy(dest: Tensor, source: Tensor) -> Operations | None:
    """dest = source"""
    return _by_element(_COPY, dest, source)


def fill(dest: Tensor, number: float) -> Operations | None:
    return _by_element(_FILL, dest, number=number)


def zero(dest: Tensor) -> Operations | None:
    return fill(dest, 0.0)


def add(dest: Tensor, source: Tensor, alpha: float = 1.0) -> Operations | None:
    """dest += alpha source"""
    return _by_element(_ADD, dest, source, number=alpha)


def scale(dest: Tensor, number: float) -> Operations | None:
    """dest *= number"""
    return scaled_copy(dest, dest, number)


def scaled_copy(dest: Tensor, source: Tensor, number: float) -> Operations | None:
    """dest = number source"""
    return _by_element(_SCALE, dest, source, number=number)


def multiply(dest: Tensor, one: Tensor, other: Tensor) -> Operations | None:
    """dest = one * other, by element"""
    return _by_element(_MULTIPLY, dest, one, other)


def sigmoid(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(_SIGMOID, dest, source)


def tanh(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(_TANH, dest, source)


def relu(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(_RELU, dest, source)


def normalize(dest: Tensor, source: Tensor, target_rms: float) -> Operations | None:
    """Scales each row to this root mean square."""
    return _by_element(_NORMALIZE, dest, source, number=target_rms)


def product(dest: Tensor, x: Tensor, weights: Tensor, addend: Tensor | None) -> Operations | None:
    """dest = addend + x weights^T; weights (columns of dest, columns of x), addend a vector or as large as dest."""
    rows, columns = dest.shape
    if rows > _MOST_ROWS or (addend is not None and addend.shape not in (dest.shape, dest.shape[1:])):
        return None
    return _operation(_PRODUCT, rows, columns, (dest, x, weights, addend), x.shape[1])


def lstm(y: Tensor, x: Tensor, params: Tensor, use_dropout: bool) -> Operations | None:
    """The forward pass of LstmNonlinearityComponent; params (3, cells)."""
    if y.numel() > _MOST_ELEMENTS or not params.is_contiguous():
        return None
    return _operation(_LSTM, len(y), params.shape[1], (y, x, params.view(-1)), int(use_dropout))


def gru(h: Tensor, part: Tensor, weights: Tensor | None, cell: Tensor, z: Tensor, c: Tensor) -> Operations | None:
    """h = tanh(part + weights * cell), c = (1 - z) h + z cell"""
    return _by_element(_GRU, h, part, weights, cell, z, c)


def in_a_row(*parts: Operations | None) -> Operations | None:
    """Returns all operations, None if some are."""
    found: Operations = ()
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _by_element(code: int, dest: Tensor, *sources: Tensor | None, number: float = 0.0) -> Operations | None:
    """Sources have the rows and columns of `dest`, or are one row for all."""
    shape = dest.shape
    if len(shape) != 2 or dest.numel() > _MOST_ELEMENTS:
        return None
    if any(source is not None and source.shape != shape and source.shape != shape[1:] for source in sources):
        return None
    return _operation(code, *shape, (dest, *sources), number=number)


def _operation(
    code: int, rows: int, columns: int, matrices: tuple[Tensor | None, ...], inner: int = 0, number: float = 0.0
) -> Operations | None:
    places = [0] * (2 * NUM_MATRICES)
    for at, matrix in enumerate(matrices):
        if matrix is None:
            continue
        *outer, unit = matrix.stride()
        if (unit != 1 and matrix.shape[-1] != 1) or matrix.dtype != float32 or not matrix.is_cpu or len(outer) > 1:
            return None
        places[at], places[NUM_MATRICES + at] = matrix.data_ptr(), outer[0] if outer else 0
    bits = struct.unpack("q", struct.pack("d", number))[0]
    return ((code, rows, columns, inner, bits, *places),)
