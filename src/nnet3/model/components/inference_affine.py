"""InferenceAffine: affine components whose weights are in a form for inference alone."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Deriv, Updated


class InferenceAffine(Component):
    """y(t) = b + sum_i W_i x(t + o_i), with the W_i in a form that is multiplied faster.

    It is made from another component by `low_precision`, is not trained and has no form in files.
    """

    constant_names: ClassVar[tuple[str, ...]] = ("bias_params",)
    products: ClassVar[torch.dtype]

    def __init__(self, time_offsets: Sequence[int], linear_params: Tensor, bias_params: Tensor | None) -> None:
        """Takes over W, the W_i side by side, (output_dim, offsets * input_dim), and b (output_dim,) or None."""
        super().__init__()
        linear = linear_params.detach().float()
        self.time_offsets = tuple(time_offsets)
        self.output_dim, self.input_dim = len(linear), linear.shape[1] // len(self.time_offsets)
        self.bias_params = linear.new_zeros(self.output_dim)
        if bias_params is not None and len(bias_params):
            self.bias_params.copy_(bias_params.detach())
        self.take_weights(linear)

    @abc.abstractmethod
    def take_weights(self, linear: Tensor) -> None:
        """Keeps weights (output_dim, offsets * input_dim) in their form."""

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        raise ComponentError(f"{self.type_name} has no derivatives: {self.inference_only}")

    def check_target(self, dtype: torch.dtype | None, device: str | torch.device | None) -> None:
        if dtype not in (None, torch.float32):
            raise ComponentError(f"{self.type_name} cannot be converted to {dtype_name(dtype)}: {self.inference_only}")

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        self.check_target(dtype, device)
        return super().to(dtype, device)

    def write_body(self, writer: Writer) -> None:
        raise ComponentError(
            f"{self.type_name} cannot be written, as Kaldi's files have no such weights: {self.inference_only}"
        )


def dtype_name(dtype: torch.dtype | None) -> str:
    """Returns "int8" for torch.int8."""
    return str(dtype).removeprefix("torch.")
