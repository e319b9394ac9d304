"""Small kernels for tests: a scale that can be trained and a product of two inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Scale:
    """output = factor * input + bias of the precomputed indexes; remembers who called it, and with what."""

    def __init__(self, factor: float = 2.0, dtype: torch.dtype = torch.float32) -> None:
        self.factor = torch.tensor([factor], dtype=dtype)
        self.rows_seen = self.loads = 0
        self.memos_seen: list[Any] = []

    def parameters(self) -> dict[str, Tensor]:
        return {"factor": self.factor}

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        if len(inputs) == 0:
            output.fill_(self.factor.item())
        else:
            torch.mul(inputs[0], self.factor, out=output)
        if indexes is not None:
            output += indexes
        return ("memo", float(self.factor))

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        self.rows_seen += output.shape[0]
        self.memos_seen.append(memo)

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
        if to_update is not None:
            to_update.memos_seen.append(memo)
            if inputs[0].numel():
                to_update.factor += (inputs[0] * output_deriv).sum()
        if input_derivs[0] is not None:
            _fill(input_derivs[0], output_deriv * self.factor, accumulate[0])

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Tensor:
        self.loads += 1
        return torch.from_numpy(arrays["offsets"]).to(device)


class Product:
    """output = first input * second input."""

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        torch.mul(inputs[0], inputs[1], out=output)

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        pass

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
        for deriv, other, added in zip(input_derivs, reversed(inputs), accumulate, strict=True):
            if deriv is not None:
                _fill(deriv, output_deriv * other, added)

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Any:
        raise AssertionError("it asks for no indexes")


def _fill(dest: Tensor, value: Tensor, added: bool) -> None:
    if added:
        dest += value
    else:
        dest.copy_(value)


def net(**kernels: Any) -> SimpleNamespace:
    """What NnetComputer wants to see of a network."""
    return SimpleNamespace(components=kernels)
