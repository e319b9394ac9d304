"""Kernels for the interpreter, small enough to see through, and what passes are told about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from tests.ir.interpreter import Array, ToyKernel


class Affine:
    """y = x W; notes the rows of every update."""

    def __init__(self, rows: int, cols: int, seed: int = 0):
        self.weight = np.random.default_rng(seed).standard_normal((rows, cols))
        self.gradient = np.zeros((rows, cols))
        self.update_rows: list[int] = []

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return inputs[0] @ self.weight, None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        if update:
            assert inputs[0] is not None
            self.gradient += np.clip(inputs[0], -9, 9).T @ deriv
            self.update_rows.append(len(deriv))
        return [deriv @ self.weight.T]


class Sigmoid:
    """Needs its output only, so that it can run in place both ways."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return 1 / (1 + np.exp(-np.clip(inputs[0], -30, 30))), None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        assert output is not None
        output = np.clip(output, -9, 9)  # anything may be called an output in random programs
        return [deriv * output * (1 - output)]


class Rectifier:
    """y = max(x, 0); going backward it looks at the sign of its output only."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return np.maximum(inputs[0], 0), None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        assert output is not None
        return [deriv * (output > 0)]


class ScaledSigmoid(Sigmoid):
    """A sigmoid with a trained scale for each column, y = sigmoid(x) with scaled backward: updates from output."""

    def __init__(self, dim: int):
        self.gradient = np.zeros(dim)
        self.update_rows: list[int] = []

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        assert output is not None
        if update:
            self.gradient += (np.clip(output, -9, 9) * deriv).sum(axis=0)
            self.update_rows.append(len(deriv))
        return super().backward(inputs, output, deriv, memo, update)


class Product:
    """y = a * b, with b cut so that random programs stay finite."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return inputs[0] * np.clip(inputs[1], -9, 9), None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        a, b = inputs
        assert a is not None
        assert b is not None
        return [deriv * np.clip(b, -9, 9), deriv * np.clip(a, -9, 9)]


class Sum:
    """y = a + b: the derivatives of both are that of the output."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return inputs[0] + inputs[1], None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        return [deriv, deriv]


class Centre:
    """y = x minus the mean of its columns, which is kept as the memo (and needed for nothing but to be there)."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        mean = inputs[0].mean(axis=0)
        return inputs[0] - mean, mean

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        assert memo is not None
        return [deriv - deriv.mean(axis=0) + 0 * memo]


class Deviation(Centre):
    """y = x minus the mean of its columns, squared backward: it takes its output, or its input and the memo."""

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        value = inputs[0] - memo if output is None and inputs[0] is not None else output
        assert value is not None
        return [2 * deriv * value]


class Wide(Affine):
    """y = x W + b for rows of twice the columns; what some columns give can be had alone."""

    def __init__(self) -> None:
        super().__init__(2 * DIM, DIM, 3)

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        return inputs[0] @ self.weight + 0.5, None

    def slice(self, first: int, end: int, adds: bool, goes_backward: bool) -> WidePart:
        return WidePart(self.weight[first:end], adds, goes_backward)


class WidePart:
    """y = x W_c + b, or + a for a second input a; a third input is W_c, which it gives without any.

    If it goes backward it gives W_c^T, which is a second input then.
    """

    def __init__(self, weight: Array, adds: bool, goes_backward: bool):
        self.weight, self.adds, self.goes_backward = weight, adds, goes_backward

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]:
        if not inputs:
            return self.weight.T if self.goes_backward else self.weight, None
        weight = inputs[2] if len(inputs) > 2 else self.weight
        return inputs[0] @ weight + (inputs[1] if self.adds else 0.5), None

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]:
        packed = inputs[1] if len(inputs) > 1 else None
        of_x = deriv @ (self.weight.T if packed is None else packed)
        return [of_x, np.zeros(0)][: len(inputs)]  # nobody asks for that of packed weights


DIM = 3
AFFINE, SIGMOID, SCALED, PRODUCT, CENTRE, OTHER_AFFINE, WIDE, SUM, WIDE_SLICE = range(9)
_NEEDS_VALUE = InputPromises(backprop_needs_value=True)
_ADDS = InputPromises(backprop_needs_value=True, accumulates_deriv=True)
_GATED = InputPromises(backprop_needs_value=True, propagate_in_place=True, accumulates_deriv=True)
_IN_PLACE = InputPromises(propagate_in_place=True, backprop_in_place=True)
_APART = {"row_by_row": True, "rows_apart": True, "backprop_rows_apart": True}
_LINEAR = InputPromises(is_linear=True)
RECTIFIER = KernelInfo(
    "rectifier",
    (_IN_PLACE,),
    **_APART,
    backprop_needs_output=True,
    backprop_needs_sign_only=True,
)
DEVIATION = KernelInfo(
    "deviation", (_IN_PLACE,), row_by_row=True, uses_memo=True, backprop_needs_output=True, backprop_takes_input=True
)
_BACK_IN_PLACE = InputPromises(backprop_in_place=True)
KERNELS = [
    KernelInfo("affine", (replace(_ADDS, is_linear=True),), updatable=True, **_APART),
    KernelInfo("sigmoid", (_IN_PLACE,), **_APART, backprop_needs_output=True),
    KernelInfo("scaled", (_BACK_IN_PLACE,), updatable=True, **_APART, backprop_needs_output=True),
    KernelInfo("product", (_GATED, _ADDS), **_APART, stores_stats=True),
    KernelInfo("centre", uses_memo=True),
    KernelInfo("other_affine", (_NEEDS_VALUE,), updatable=True),
    KernelInfo("wide", (_LINEAR,), **_APART, has_slices=True, slices_pack=True),
    KernelInfo("sum", (InputPromises(accumulates_deriv=True, passes_deriv=True, is_linear=True),) * 2, **_APART),
    KernelInfo("wide[3:6]+", (_LINEAR, replace(_LINEAR, propagate_in_place=True)), **_APART, packs=True),
]


def new_kernels() -> dict[str, ToyKernel]:
    """Fresh kernels for the names in KERNELS, on matrices with DIM columns."""
    return {
        "affine": Affine(DIM, DIM, 1),
        "sigmoid": Sigmoid(),
        "scaled": ScaledSigmoid(DIM),
        "product": Product(),
        "centre": Centre(),
        "other_affine": Affine(DIM, DIM, 2),
        "wide": Wide(),
        "sum": Sum(),
        "rectifier": Rectifier(),
        "deviation": Deviation(),
    }
