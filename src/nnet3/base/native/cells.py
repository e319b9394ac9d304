"""The elements of recurrences by native code, cells.c: forward and backward passes of LSTMs and GRUs, truncation.

Each function does the work in its name and returns True. For other types than float32, matrices elsewhere than on the
CPU, columns that do not lie side by side, large matrices where PyTorch has many threads, and without native code, it
returns False and does nothing. Formulas stand in cells.c. Components check the shapes.
"""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.fastest import fastest
from nnet3.base.native.library import library
from nnet3.base.native.panels import Panels, num_threads

_MANY_THREADS, _LARGE = 4, 2**17  # so many threads of PyTorch gain with so many elements; native code has one thread


def lstm(y: Tensor, x: Tensor, params: Tensor, use_dropout: bool) -> bool:
    """Computes y (rows, 2 C) of x (rows, 5 C), or (rows, 5 C + 3) with dropout; params (3, C)."""
    functions = library() if are_native(y, x, params) and params.is_contiguous() else None
    if functions is None:
        return False
    functions.nnet3_lstm(len(x), params.shape[1], *place_of(y), *place_of(x), params.data_ptr(), int(use_dropout))
    return True


def lstm_backward(
    x: Tensor,
    y_deriv: Tensor,
    x_deriv: Tensor | None,
    params: Tensor,
    use_dropout: bool,
    repair: Tensor | None,
    sums: Tensor | None,
) -> bool:
    """Computes x_deriv of y_deriv, which have the shapes of x and y of `lstm`.

    `repair` (10, C): factors of the five values, then offsets: factor value - offset is subtracted from a derivative.
    To `sums` (13, C) are added, over rows, the five values, their squares, and the derivatives of params.
    """
    given = [each for each in (x_deriv, repair, sums) if each is not None]
    functions = library() if are_native(x, y_deriv, params, *given) and params.is_contiguous() else None
    if functions is None:
        return False
    matrices = *place_of(x), *place_of(y_deriv), *place_of(x_deriv)
    rest = params.data_ptr(), int(use_dropout), place_of(repair)[0], place_of(sums)[0]
    functions.nnet3_lstm_backward(len(x), params.shape[1], *matrices, *rest)
    return True


def lstm_repair(deriv_sum: Tensor, count: float, config: Tensor) -> Tensor | None:
    """Returns `repair` of `lstm_backward` for sums of derivatives (5, C), of float64, over `count` rows.

    `config` (10,): the thresholds of the means, and the scales of what is subtracted. None if not done.
    """
    functions = library() if are_native(config) and are_sums(deriv_sum) else None
    if functions is None:
        return None
    dim = deriv_sum.shape[1]
    repair = config.new_empty(10, dim)
    functions.nnet3_lstm_repair(dim, repair.data_ptr(), deriv_sum.data_ptr(), count, config.data_ptr())
    return repair


def are_layers_native(x: Tensor, *weights: Tensor) -> bool:
    """True if native code goes through the frames of layers faster than PyTorch."""
    return are_native(x, *weights) and fastest().packed == "panels"


def lstm_layer(values: Tensor, counts: np.ndarray, weights: Tensor) -> None:
    """Goes through all frames of an LSTM without peepholes, in `values` (frames + 1, most rows, at least 6 C).

    Frame t has counts[t] rows, no more than the frame before, [I | F | Cp | O | c' | h'] with c and h of the frame
    before, given for the first one. I ... O get `weights` (4 C, C) times h' added; c and h go to frame t + 1.
    """
    _run_layer("nnet3_lstm_layer", (values,), counts, weights.shape[1], weights)


def lstm_layer_backward(derivs: Tensor, values: Tensor, counts: np.ndarray, weights: Tensor) -> None:
    """Goes back through what `lstm_layer` has done: derivatives stand in `derivs` where `values` have the values.

    Those of all h are given, which get what the frame after sends added, and those of the last c.
    """
    _run_layer("nnet3_lstm_layer_backward", (values, derivs), counts, weights.shape[1], weights.t())


def _run_layer(name: str, matrices: tuple[Tensor, ...], counts: np.ndarray, dim: int, weights: Tensor) -> None:
    counts, panels, peepholes = counts.astype(np.int64), Panels(weights).panels, weights.new_zeros(3, dim)
    places = [each.data_ptr() for each in matrices]
    assert len({each.stride() for each in matrices}) == 1
    sizes = len(counts), matrices[0].shape[1], counts.ctypes.data, dim
    threads = num_threads(int(counts[0]) * weights.numel())
    rest = matrices[0].stride(1), panels.data_ptr(), peepholes.data_ptr(), threads
    getattr(library(), name)(*sizes, *places, *rest)


def output_gru(y: Tensor, x: Tensor, weights: Tensor) -> bool:
    """Computes y [h | c] (rows, 2 C) of x [z | part | c'] (rows, 3 C); weights (C,): h = tanh(part + w c')."""
    functions = library() if are_native(y, x, weights) else None
    if functions is None:
        return False
    functions.nnet3_output_gru(len(x), len(weights), *place_of(y), *place_of(x), weights.data_ptr())
    return True


def output_gru_backward(x: Tensor, h: Tensor, y_deriv: Tensor, x_deriv: Tensor, weights: Tensor) -> bool:
    """Computes x_deriv of y_deriv; matrices as in `output_gru`."""
    functions = library() if are_native(x, h, y_deriv, x_deriv, weights) else None
    if functions is None:
        return False
    matrices = *place_of(x), *place_of(h), *place_of(y_deriv), *place_of(x_deriv)
    functions.nnet3_output_gru_backward(len(x), len(weights), *matrices, weights.data_ptr())
    return True


def truncate(
    y: Tensor, x: Tensor, scale: float, limit: float, zeroed: float, is_boundary: Tensor
) -> tuple[int, int] | None:
    """y = f x, with f = scale min(1, limit / n) for a row of norm n / scale, f = 0 for n > zeroed at a boundary.

    `is_boundary` (rows, 1): booleans. Returns the numbers of rows with n > limit, and with f = 0; None if not done.
    """
    functions = library() if are_native(y, x) else None
    if functions is None:
        return None
    counts = (ctypes.c_int64 * 2)()
    operands = *place_of(y), *place_of(x), scale, limit, zeroed, is_boundary.data_ptr()
    functions.nnet3_truncate(*x.shape, *operands, ctypes.addressof(counts))
    return counts[0], counts[1]


def are_native(*matrices: Tensor) -> bool:
    """True if native code takes matrices: of float32, on the CPU, columns side by side."""
    if matrices[0].numel() > _LARGE and torch.get_num_threads() >= _MANY_THREADS:
        return False
    for each in matrices:
        if each.dtype != torch.float32 or not each.is_cpu or (each.stride(-1) != 1 and each.shape[-1] != 1):
            return False
    return True


def are_sums(sums: Tensor) -> bool:
    """True if native code takes sums over rows: of float64, on the CPU, contiguous."""
    return sums.dtype == torch.float64 and sums.is_cpu and sums.is_contiguous()


def place_of(matrix: Tensor | None) -> tuple[int, int]:
    """Returns the address of a matrix, and how many floats its rows lie apart."""
    return (0, 0) if matrix is None else (matrix.data_ptr(), matrix.stride(0))
