"""The elements between the products of layers by native code, layers.c: batch-norm, norms of rows, dropout,
nonlinearities, repair.

Functions return what they compute, or True. Where native code does not take the matrices (see cells.py) they do nothing
and return None or False. Formulas stand in layers.c. Components check the shapes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.base.native.cells import are_native, are_sums, place_of
from nnet3.base.native.codes import Code
from nnet3.base.native.library import library


def moments(x: Tensor) -> Tensor | None:
    """Returns the sums over rows of x and of its squares, (2, columns), in float64."""
    functions = library() if are_native(x) else None
    if functions is None:
        return None
    sums = x.new_zeros(2, x.shape[1], dtype=torch.float64)
    functions.nnet3_moments(*x.shape, *place_of(x), *_addresses(*sums))
    return sums


def normalize_columns(y: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> bool:
    """y = (x - mean) scale; mean and scale are (columns,)."""
    functions = library() if are_native(y, x, mean, scale) else None
    if functions is None:
        return False
    functions.nnet3_normalize_columns(*x.shape, *place_of(y), *place_of(x), *_addresses(mean, scale))
    return True


def batch_norm_sums(values: Tensor, y_deriv: Tensor, mean: Tensor | None, scale: Tensor) -> Tensor | None:
    """Returns the sums over rows of y_deriv and of y_deriv y, (2, columns), in float64.

    `values` are y, or with a mean, (columns,) as the scale, x: y = (x - mean) scale.
    """
    functions = library() if are_native(values, y_deriv, scale) else None
    if functions is None:
        return None
    sums = y_deriv.new_zeros(2, y_deriv.shape[1], dtype=torch.float64)
    functions.nnet3_batch_norm_sums(
        *values.shape, *place_of(values), *place_of(y_deriv), *_addresses(mean, scale, *sums)
    )
    return sums


def batch_norm_backward(
    x_deriv: Tensor,
    values: Tensor,
    y_deriv: Tensor,
    mean: Tensor | None,
    scale: Tensor,
    mean_deriv: Tensor,
    factor: Tensor,
) -> bool:
    """x_deriv = (y_deriv - mean_deriv - factor y) scale; values and mean as in `batch_norm_sums`."""
    functions = library() if are_native(x_deriv, values, y_deriv, scale, mean_deriv, factor) else None
    if functions is None:
        return False
    places = *place_of(x_deriv), *place_of(values), *place_of(y_deriv)
    functions.nnet3_batch_norm_backward(*values.shape, *places, *_addresses(mean, scale, mean_deriv, factor))
    return True


def batch_norm(y: Tensor, x: Tensor, size: int, epsilon: float, target_rms: float) -> Tensor | None:
    """Batch-norm of blocks of `size` columns by the mean and variance of all rows and blocks.

    Returns mean, variance and scale = target_rms / sqrt(variance + epsilon), (3, size), of float32.
    """
    functions = library() if are_native(y, x) else None
    if functions is None:
        return None
    rows, columns = x.shape
    found = x.new_empty(3, size)
    addresses = range(found.data_ptr(), found.data_ptr() + found.nbytes, 4 * size)
    functions.nnet3_batch_norm(
        *(rows, columns // size, size), *place_of(y), *place_of(x), epsilon, target_rms, *addresses
    )
    return found


def batch_norm_deriv(
    x_deriv: Tensor, values: Tensor, y_deriv: Tensor, mean: Tensor | None, scale: Tensor, target_rms: float
) -> bool:
    """Fills x_deriv, which may be y_deriv; values and mean as in `batch_norm_sums`, mean and scale are (size,)."""
    functions = library() if are_native(x_deriv, values, y_deriv, scale) else None
    if functions is None:
        return False
    (rows, columns), size = values.shape, len(scale)
    places = *place_of(x_deriv), *place_of(values), *place_of(y_deriv)
    functions.nnet3_batch_norm_deriv(rows, columns // size, size, *places, *_addresses(mean, scale), target_rms)
    return True


def normalize_rows(y: Tensor, x: Tensor, target_rms: float) -> bool:
    """y = f x with the root mean square `target_rms` for each row."""
    functions = library() if are_native(y, x) else None
    if functions is None:
        return False
    functions.nnet3_normalize_rows(*x.shape, *place_of(y), *place_of(x), target_rms)
    return True


def normalize_rows_backward(x_deriv: Tensor, x: Tensor, y_deriv: Tensor, size: float, floor: float) -> bool:
    """The derivative of y = f x with f = max(|x|^2 / size, floor)^(-1/2) for each row."""
    functions = library() if are_native(x_deriv, x, y_deriv) else None
    if functions is None:
        return False
    places = *place_of(x_deriv), *place_of(x), *place_of(y_deriv)
    functions.nnet3_normalize_rows_backward(*x.shape, *places, size, floor)
    return True


def dropout_backward(x_deriv: Tensor, x: Tensor, y: Tensor, y_deriv: Tensor) -> bool:
    """x_deriv = y_deriv y / x, and y_deriv where x is 0."""
    functions = library() if are_native(x_deriv, x, y, y_deriv) else None
    if functions is None:
        return False
    places = *place_of(x_deriv), *place_of(x), *place_of(y), *place_of(y_deriv)
    functions.nnet3_dropout_backward(*x.shape, *places)
    return True


def output_sums(code: Code, y: Tensor) -> Tensor | None:
    """Returns the sums over rows of the output of a nonlinearity and of its derivative, (2, columns), in float64.

    `code`: SIGMOID, TANH or RELU.
    """
    functions = library() if are_native(y) else None
    if functions is None:
        return None
    sums = y.new_zeros(2, y.shape[1], dtype=torch.float64)
    functions.nnet3_output_sums(int(code), *y.shape, *place_of(y), *_addresses(*sums))
    return sums


def output_backward(code: Code, x_deriv: Tensor, y: Tensor, y_deriv: Tensor, squares: Tensor | None) -> bool:
    """x_deriv = y_deriv times the derivative of the output; adds the squares of y_deriv, over rows, to `squares`.

    `code`: SIGMOID, TANH or RELU; `squares` (columns,) is of float64. x_deriv may be y_deriv.
    """
    functions = library() if are_native(x_deriv, y, y_deriv) else None
    if functions is None:
        return False
    places = *place_of(x_deriv), *place_of(y), *place_of(y_deriv)
    functions.nnet3_output_backward(int(code), *y.shape, *places, *_addresses(squares))
    return True


def repair(x_deriv: Tensor, y: Tensor, deriv_sum: Tensor, bound: float, offset: float, slope: float) -> int | None:
    """Adds offset + slope y to columns of x_deriv whose `deriv_sum` is below a bound; returns their number."""
    functions = library() if are_native(x_deriv, y) and are_sums(deriv_sum) else None
    if functions is None:
        return None
    places = *place_of(x_deriv), *place_of(y), deriv_sum.data_ptr()
    number: int = functions.nnet3_repair(*y.shape, *places, bound, offset, slope)
    return number


def _addresses(*vectors: Tensor | None) -> list[int]:
    return [0 if vector is None else vector.data_ptr() for vector in vectors]
