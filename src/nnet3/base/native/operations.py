"""Operations of native code on matrices, as data: input of operations.c, where the formulas stand.

Each function returns operations for the work in its name, None for matrices that native code does not take. Native code
takes float32 on the CPU, with columns side by side, and no more rows than it is faster with.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from torch import Tensor, float32

from nnet3.base.native.codes import NUM_MATRICES, Code

#: One operation: a number that tells which, rows, columns, inner size, a float as bits, addresses, strides.
Row = tuple[int, ...]
#: Operations that run one after the other.
Operations = tuple[Row, ...]

FLOAT_BYTES = 4
#: The columns of a row that hold rows, columns and the inner size, those that hold addresses, and those of strides.
SIZES = slice(1, 4)
ADDRESSES = slice(5, 5 + NUM_MATRICES)
STRIDES = slice(5 + NUM_MATRICES, 5 + 2 * NUM_MATRICES)
#: How an operation goes on in a loop is a row of numbers. Of each matrix: floats an iteration, floats a row of a table,
#: and that table; then the table whose counts each size is. A table (iterations, 2) has the first row and the number of
#: rows of each iteration; -1 is no table.
OF_TURN, OF_ROW, TABLE = (slice(n * NUM_MATRICES, (n + 1) * NUM_MATRICES) for n in range(3))
COUNTED = slice(3 * NUM_MATRICES, 3 * NUM_MATRICES + 3)
#: That of an operation that stays as it is.
STAYS = (0,) * (2 * NUM_MATRICES) + (-1,) * (NUM_MATRICES + 3)

#: The column of a row that says where the panels of these lie in scratch memory.
SCRATCH = 16
_MOST_ROWS = 8  # of a product; with more MKL is faster
_MOST_ELEMENTS = 2**15  # of a matrix; with more PyTorch uses several threads
_SMALL = 2**16  # multiplications for which it does not matter how the weights lie


def copy(dest: Tensor, source: Tensor) -> Operations | None:
    """dest = source"""
    return _by_element(Code.COPY, dest, source)


def fill(dest: Tensor, number: float) -> Operations | None:
    return _by_element(Code.FILL, dest, number=number)


def zero(dest: Tensor) -> Operations | None:
    return fill(dest, 0.0)


def add(dest: Tensor, source: Tensor, alpha: float = 1.0, addend: Tensor | None = None) -> Operations | None:
    """dest = addend + alpha source; by default dest is added to."""
    return _by_element(Code.ADD, dest, source, dest if addend is None else addend, number=alpha)


def scale(dest: Tensor, number: float) -> Operations | None:
    """dest *= number"""
    return scaled_copy(dest, dest, number)


def scaled_copy(dest: Tensor, source: Tensor, number: float) -> Operations | None:
    """dest = number source"""
    return _by_element(Code.SCALE, dest, source, number=number)


def multiply(
    dest: Tensor, one: Tensor, other: Tensor, addend: Tensor | None = None, factor: float = 1.0
) -> Operations | None:
    """dest = addend + factor one * other, by element"""
    return _by_element(Code.MULTIPLY, dest, one, other, addend, number=factor)


def sum_rows(
    dest: Tensor, one: Tensor, other: Tensor | None = None, addend: Tensor | None = None, factor: float = 1.0
) -> Operations | None:
    """dest = addend + factor times the sum of the rows of one, or of one * other; dest and addend have one row."""
    others = [each for each in (dest, addend) if each is not None]
    if one.numel() > _MOST_ELEMENTS or any(each.shape != (1, one.shape[1]) for each in others):
        return None
    if other is not None and other.shape != one.shape:
        return None
    rows, columns = one.shape
    return _operation(Code.SUM_ROWS, rows, columns, (dest, one, other, addend), number=factor)


def sigmoid(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(Code.SIGMOID, dest, source)


def tanh(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(Code.TANH, dest, source)


def relu(dest: Tensor, source: Tensor) -> Operations | None:
    return _by_element(Code.RELU, dest, source)


def sigmoid_backward(dest: Tensor, gradient: Tensor, value: Tensor, addend: Tensor | None) -> Operations | None:
    """dest = addend + gradient * value * (1 - value)"""
    return _by_element(Code.SIGMOID_BACK, dest, gradient, value, addend)


def tanh_backward(dest: Tensor, gradient: Tensor, value: Tensor, addend: Tensor | None) -> Operations | None:
    """dest = addend + gradient * (1 - value^2)"""
    return _by_element(Code.TANH_BACK, dest, gradient, value, addend)


def relu_backward(dest: Tensor, gradient: Tensor, value: Tensor, addend: Tensor | None) -> Operations | None:
    """dest = addend + gradient where the value is positive"""
    return _by_element(Code.RELU_BACK, dest, gradient, value, addend)


def normalize(dest: Tensor, source: Tensor, target_rms: float) -> Operations | None:
    """Scales each row to the root mean square `target_rms`."""
    return _by_element(Code.NORMALIZE, dest, source, number=target_rms)


def product(
    dest: Tensor, x: Tensor, weights: Tensor, addend: Tensor | None, factor: float = 1.0, *, packs: bool = False
) -> Operations | None:
    """dest = addend + factor x weights^T; weights (columns of dest, columns of x), in any order in memory.

    The addend is a vector, a row, or as large as dest. With `packs` a large product is two operations: weights are
    packed into panels, perhaps once for many iterations, and multiplied. Without `packs` a large product has few rows.
    """
    (rows, columns), inner = dest.shape, x.shape[1]
    addend = None if addend is None else addend if addend.shape == dest.shape else _row_for_all(addend)
    if addend is not None and addend.shape not in (dest.shape, dest.shape[1:]):
        return None
    of_column, of_inner = weights.stride()
    by_inner, by_column = of_inner == 1 or inner == 1, of_column == 1 or columns == 1
    is_small = rows * columns * inner <= _SMALL
    if by_inner and (is_small or (rows <= _MOST_ROWS and not packs)):
        return _operation(Code.PRODUCT, rows, columns, (dest, x, weights, addend), inner, factor)
    if by_column and is_small:
        matrices = dest, x[:, :1], weights.t(), addend
        return _operation(Code.COMBINE, rows, columns, matrices, inner, factor, {4: x.stride(1)})
    if not packs or dest.numel() > _MOST_ELEMENTS:
        return None
    return in_a_row(
        _operation(Code.PACK, 0, columns, (None, None, weights[:, :1]), inner, factor, {3: of_inner}),
        zero(dest) if addend is None else (),
        _operation(Code.PANELS, rows, columns, (dest, x, None, dest if addend is None else addend), inner),
    )


def panel_product(dest: Tensor, x: Tensor, panels: Tensor, addend: Tensor | None) -> Operations | None:
    """dest = addend + x W^T, for W in panels (panels, inner, columns of a panel)."""
    (rows, columns), inner = dest.shape, x.shape[1]
    addend = addend if addend is None or addend.shape == dest.shape else _row_for_all(addend)
    if addend is not None and addend.shape not in (dest.shape, dest.shape[1:]):
        return None
    return _operation(Code.PANELS, rows, columns, (dest, x, panels[:, 0], addend), inner)


def size_of_panels(row: Row, width: int) -> int:
    """Returns the number of floats in the panels made by an operation, `width` columns a panel; 0 for no panels."""
    code, _, columns, inner = row[:4]
    return -(-columns // width) * width * inner if code == Code.PACK else 0


def reads_scratch(row: Row) -> bool:
    """Returns true for a product with panels that another operation makes."""
    return row[0] == Code.PANELS and row[ADDRESSES][2] == 0


def lstm(y: Tensor, x: Tensor, params: Tensor, use_dropout: bool) -> Operations | None:
    """Computes the forward pass of LstmNonlinearityComponent; params (3, cells)."""
    if y.numel() > _MOST_ELEMENTS or not params.is_contiguous():
        return None
    return _operation(Code.LSTM, len(y), params.shape[1], (y, x, params.view(-1)), int(use_dropout))


def gru(h: Tensor, part: Tensor, weights: Tensor | None, cell: Tensor, z: Tensor, c: Tensor) -> Operations | None:
    """h = tanh(part + weights * cell), c = (1 - z) h + z cell"""
    return _by_element(Code.GRU, h, part, weights, cell, z, c)


def in_a_row(*parts: Operations | None) -> Operations | None:
    """Returns all operations, None if some are."""
    found: Operations = ()
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _by_element(code: Code, dest: Tensor, *sources: Tensor | None, number: float = 0.0) -> Operations | None:
    """Sources have the rows and columns of `dest`, or are one row for all."""
    shape = dest.shape
    if len(shape) != 2 or dest.numel() > _MOST_ELEMENTS:
        return None
    operands = [source if source is None or source.shape == shape else _row_for_all(source) for source in sources]
    if any(operand is not None and operand.shape not in (shape, shape[1:]) for operand in operands):
        return None
    return _operation(code, *shape, (dest, *operands), number=number)


def _row_for_all(matrix: Tensor) -> Tensor:
    """Returns a matrix of one row as a vector."""
    return matrix[0] if matrix.dim() == 2 and len(matrix) == 1 else matrix


def _operation(
    code: Code,
    rows: int,
    columns: int,
    matrices: tuple[Tensor | None, ...],
    inner: int = 0,
    number: float = 0.0,
    strides: Mapping[int, int] | None = None,
) -> Operations | None:
    numbers = [0] * (2 * NUM_MATRICES)
    for at, matrix in enumerate(matrices):
        if matrix is None:
            continue
        *outer, unit = matrix.stride()
        if (unit != 1 and matrix.shape[-1] != 1) or matrix.dtype != float32 or not matrix.is_cpu or len(outer) > 1:
            return None
        numbers[at], numbers[NUM_MATRICES + at] = matrix.data_ptr(), outer[0] if outer else 0
    for at, stride in (strides or {}).items():
        numbers[NUM_MATRICES + at] = stride
    bits = struct.unpack("q", struct.pack("d", number))[0]
    return ((int(code), rows, columns, inner, bits, *numbers),)
