"""AffinePart: the product of some columns of an affine component's input, as a kernel of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class AffinePart:
    """y = x W_c^T + b, or x W_c^T + a for a second input a; W_c are the columns [first, end) of W.

    It only runs forward. It reads the component's parameters whenever it runs.
    """

    type_name = "AffinePart"

    def __init__(self, component: Any, matrix: str, bias: str, first: int, end: int) -> None:
        """`matrix` and `bias` name the component's tensors; an empty name is no bias, or a second input."""
        self.output_dim = component.output_dim
        self._component, self._matrix, self._bias = component, matrix, bias
        self._first, self._count = first, end - first

    @property
    def linear_params(self) -> Tensor:
        """W_c, (output_dim, columns)."""
        weights: Tensor = getattr(self._component, self._matrix)
        return weights.narrow(1, self._first, self._count)

    @property
    def bias_params(self) -> Tensor | None:
        """b, (output_dim,); None if there is none."""
        return getattr(self._component, self._bias) if self._bias else None

    def parameters(self) -> dict[str, Tensor]:
        """Returns what it reads, by name."""
        bias = self.bias_params
        return {"linear_params": self.linear_params} | ({} if bias is None else {"bias_params": bias})

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> None:
        x, *addends = inputs
        addend = addends[0] if addends else self.bias_params
        if addend is None:
            torch.mm(x, self.linear_params.t(), out=output)
        else:
            torch.addmm(addend, x, self.linear_params.t(), out=output)

    def replay_state(self) -> list[object] | None:
        state: list[object] | None = self._component.replay_state()
        return state
