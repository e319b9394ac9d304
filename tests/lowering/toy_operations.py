"""Kernels of the toy front-end: real kernels on tensors, whose backward functions are written out.

`apply` computes the value with differentiable functions, and is all that the oracle looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.ir.kernel import InputPromises, KernelInfo


@dataclass(eq=False)
class Operation:
    """`needs` and `needs_output`: which values its backward function looks at. `adds`: it can accumulate."""

    name: str
    adds: bool = True

    num_inputs: ClassVar[int] = 1
    needs: ClassVar[tuple[int, ...]] = ()
    needs_output: ClassVar[bool] = False
    in_place: ClassVar[bool] = False
    uses_memo: ClassVar[bool] = False
    updatable: ClassVar[bool] = False
    needs_indexes: ClassVar[bool] = False
    row_by_row: ClassVar[bool] = True
    merges_updates = False

    def info(self) -> KernelInfo:
        inputs = [
            InputPromises(
                backprop_needs_value=number in self.needs,
                propagate_in_place=self.in_place,
                backprop_in_place=self.in_place,
                accumulates_deriv=self.adds,
            )
            for number in range(self.num_inputs)
        ]
        return KernelInfo(
            self.name,
            tuple(inputs),
            updatable=self.updatable,
            row_by_row=self.row_by_row,
            rows_apart=self.row_by_row,
            backprop_rows_apart=self.row_by_row,
            merges_updates=self.merges_updates,
            backprop_needs_output=self.needs_output,
            uses_memo=self.uses_memo,
            needs_indexes=self.needs_indexes,
        )

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        raise NotImplementedError

    def update(self, inputs: Sequence[Tensor], deriv: Tensor, indexes: Any) -> None:
        """Add to the gradient of this operation's own parameters."""

    def gradient(self) -> Operation:
        """What collects gradients in its place."""
        return self

    # ---- the protocol ----

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        value = self.apply(inputs)
        output.copy_(value)
        return value.clone() if self.uses_memo else None

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        raise AssertionError("none of these has statistics")

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        assert all(inputs[number].numel() for number in self.needs)
        if to_update is not None:
            to_update.update(inputs, output_deriv, indexes)
        found = self.derivs(inputs, output, output_deriv, memo)
        for dest, value, adds in zip(input_derivs, found, accumulate, strict=True):
            assert self.adds or not adds
            if dest is not None:
                dest.copy_(dest + value if adds else value)

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Any:
        return {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}


class MatMul(Operation):
    """Rows of samples (or a matrix without) times a matrix."""

    num_inputs, needs = 2, (0, 1)

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] @ inputs[1]

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv @ inputs[1].T, inputs[0].T @ deriv]


class MergingMatMul(MatMul):
    """The gradient of the matrix comes from all steps at once."""

    merges_updates = True


class AddBias(Operation):
    num_inputs = 2

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] + inputs[1]

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv, deriv.sum(dim=0, keepdim=True)]


class MergingAddBias(AddBias):
    merges_updates = True


class Plus(Operation):
    num_inputs = 2

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] + inputs[1]

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv, deriv]


class Product(Operation):
    num_inputs, needs = 2, (0, 1)

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] * inputs[1]

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv * inputs[1], deriv * inputs[0]]


class Tanh(Operation):
    needs_output, in_place = True, True

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return torch.tanh(inputs[0])

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv * (1 - output * output)]


class MemoTanh(Tanh):
    """Keeps its value in a memo; may lie in place all the same."""

    needs_output, uses_memo = False, True

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv * (1 - memo * memo)]


class Sum(Operation):
    """The sum of all rows; it needs the value to know how many there are."""

    needs, row_by_row = (0,), False

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0].sum(dim=0, keepdim=True)

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv.expand(inputs[0].shape)]


class SquaredNorm(Operation):
    needs, row_by_row = (0,), False

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return (inputs[0] ** 2).sum().reshape(1, 1)

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [2 * deriv * inputs[0]]


class Affine(Operation):
    """A matrix of its own; counts its updates."""

    needs, updatable = (0,), True

    def __init__(self, name: str, adds: bool, weight: Tensor, merges: bool):
        super().__init__(name, adds)
        self.weight, self.merges_updates = weight, merges
        self.num_updates = 0

    def parameters(self) -> dict[str, Tensor]:
        return {"weight": self.weight}

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] @ self.weight

    def derivs(self, inputs: Sequence[Tensor], output: Tensor, deriv: Tensor, memo: Any) -> list[Tensor]:
        return [deriv @ self.weight.T]

    def update(self, inputs: Sequence[Tensor], deriv: Tensor, indexes: Any) -> None:
        self.weight += inputs[0].T @ deriv
        self.num_updates += 1

    def gradient(self) -> Affine:
        return type(self)(self.name, self.adds, torch.zeros_like(self.weight), self.merges_updates)


class Window(Affine):
    """Sum over k of row t + offsets[k], times the k-th block of rows of the weight; rows come in any order."""

    needs_indexes, row_by_row = True, False

    def __init__(self, name: str, adds: bool, weight: Tensor, merges: bool, offsets: Sequence[int] = ()):
        super().__init__(name, adds, weight, merges)
        self.offsets = list(offsets)

    def apply(self, inputs: Sequence[Tensor]) -> Tensor:
        """The rows of the window of one output row, in the order of the offsets."""
        return inputs[0].reshape(1, -1) @ self.weight

    def _rows(self, inputs: Sequence[Tensor], indexes: Any) -> Tensor:
        return inputs[0][indexes["rows"]].reshape(len(indexes["rows"]), -1) * indexes["real"][:, None]

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        output.copy_(self._rows(inputs, indexes) @ self.weight)

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        deriv = torch.where(indexes["real"][:, None] > 0, output_deriv, 0.0)  # nobody cares what padding holds
        if to_update is not None:
            to_update.weight += self._rows(inputs, indexes).T @ deriv
        if input_derivs[0] is not None:
            if not accumulate[0]:
                input_derivs[0].zero_()
            sent = (deriv @ self.weight.T).reshape(len(deriv), len(self.offsets), -1)
            for k in range(len(self.offsets)):
                input_derivs[0].index_add_(0, indexes["rows"][:, k], sent[:, k].contiguous())

    def gradient(self) -> Window:
        return Window(self.name, self.adds, torch.zeros_like(self.weight), self.merges_updates, self.offsets)
