"""Affine components for inference with products of int8 or bfloat16; the rest is float32."""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.inference_affine import InferenceAffine, dtype_name
from nnet3.model.components.packed_affine import PackedAffineComponent, PackedTdnnComponent, is_worth_packing
from nnet3.model.components.time_blocks import ALL_ROWS, RowBlock, TimeBlocks
from nnet3.model.components.time_offsets import ReadsTimeOffsets

_LARGEST = 127  # of the integers, which are symmetric
_LEAST_STEP = 1e-30  # for rows of zeros
_FEWEST_COLUMNS, _MOST_COLUMNS = 2, 2**17  # PyTorch 2.13 multiplies one column wrongly; sums must fit 32 bits
_ELEMENTS_AT_ONCE = 2**18  # of floats, so that they stay in the cache


class LowPrecisionAffine(InferenceAffine):
    """`weights` (output_dim, offsets * input_dim) are the W_i side by side in few bits, as is x before the product."""

    def take_weights(self, linear: Tensor) -> None:
        self.weights = self.rounded(linear)

    @abc.abstractmethod
    def rounded(self, linear: Tensor) -> Tensor:
        """Returns weights (output_dim, any) in few bits."""

    @abc.abstractmethod
    def multiply(self, x: Tensor, y: Tensor, blocks: Sequence[RowBlock]) -> None:
        """Fills y with b + sum_i W_i x(t + o_i); rows that the first block leaves out are padding."""

    def forward(self, x: Tensor, y: Tensor, indexes: TimeBlocks | None = None) -> None:
        if indexes is None:
            self.multiply(x, y, [ALL_ROWS])
            return
        x, blocks = indexes.input_without_padding(x), indexes.blocks
        joined = sorted(block for block in blocks if block.is_whole)
        if self.weights.shape[1] <= self.output_dim and len(joined) == len(self.time_offsets) > 1:
            x, blocks = torch.cat([block.of_input(x) for block in joined], 1), (ALL_ROWS,)
        self.multiply(x, y, blocks)

    def weights_of(self, block: RowBlock, x: Tensor) -> Tensor:
        """Returns the weights for rows of x, (columns of x, output_dim)."""
        start = block.offset * self.input_dim
        return self.weights[:, start : start + x.shape[1]].t()

    @property
    def inference_only(self) -> str:
        return f"its products are in {dtype_name(self.products)}; take the network that was quantized"

    def in_low_precision(self, products: torch.dtype) -> Component:
        raise ComponentError(f"it is quantized already: {self.inference_only}")

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        self.check_target(dtype, device)
        self.weights = self.weights.to(device=device)
        return super().to(dtype, device)


class Int8AffineComponent(LowPrecisionAffine):
    """Row o of W is scales[o], (output_dim,), times integers of 8 bits; rows of x become integers in each product.

    Sums are exact: the result of a row does not depend on the rows computed together.
    """

    type_name = "Int8AffineComponent"
    properties = Properties.SIMPLE
    constant_names = ("bias_params", "scales")
    products = torch.int8

    def rounded(self, linear: Tensor) -> Tensor:
        self.scales = linear.abs().amax(1).mul_(1 / _LARGEST).clamp_(min=_LEAST_STEP)
        return (linear / self.scales[:, None]).round_().to(torch.int8)

    def multiply(self, x: Tensor, y: Tensor, blocks: Sequence[RowBlock]) -> None:
        """y = b + scales * sum_i step(t + o_i) (W_i q(t + o_i)) with x = step * q."""
        integers, steps = _integers_of_rows(x)
        first, last = blocks[0], blocks[-1]
        if not first.is_whole:
            y.zero_()
        for block in blocks:
            weights = self.weights_of(block, x)
            matrices = block.of_input(integers), block.of_input(steps), block.of_output(y)
            for rows, step, target in _parts(self.output_dim, *matrices):
                sums = _SCRATCH.matrix(torch.int32, target)
                torch._int_mm(rows, weights, out=sums)
                if block is first and block.is_whole:
                    target.copy_(sums).mul_(step)
                else:
                    target.addcmul_(_SCRATCH.matrix(torch.float32, sums).copy_(sums), step)
                if block is last and block.is_whole:  # while the part is in the cache
                    torch.addcmul(self.bias_params, target, self.scales, out=target)
        if not last.is_whole:
            torch.addcmul(self.bias_params, y, self.scales, out=y)

    def check_target(self, dtype: torch.dtype | None, device: str | torch.device | None) -> None:
        super().check_target(dtype, device)
        if device is not None:
            _check_device(device)


class BFloat16AffineComponent(LowPrecisionAffine):
    """Weights of bfloat16; on hardware with fast products of bfloat16, x and each product are rounded as well."""

    type_name = "BFloat16AffineComponent"
    properties = Properties.SIMPLE
    products = torch.bfloat16

    def rounded(self, linear: Tensor) -> Tensor:
        return linear.to(torch.bfloat16)

    def multiply(self, x: Tensor, y: Tensor, blocks: Sequence[RowBlock]) -> None:
        y.copy_(self.bias_params)
        is_fast = x.device.type != "cpu" or _has_fast_bfloat16()
        x = x.to(torch.bfloat16) if is_fast else x
        for block in blocks:
            rows, weights, target = block.of_input(x), self.weights_of(block, x), block.of_output(y)
            if is_fast:
                target.add_(torch.mm(rows, weights))
                continue
            for some_weights, columns in _parts(len(weights), weights.t(), target.t()):
                floats = _SCRATCH.matrix(torch.float32, some_weights).copy_(some_weights)
                columns.t().addmm_(rows, floats.t())


class Int8TdnnComponent(ReadsTimeOffsets, Int8AffineComponent):
    type_name = "Int8TdnnComponent"
    properties = ReadsTimeOffsets.properties


class BFloat16TdnnComponent(ReadsTimeOffsets, BFloat16AffineComponent):
    type_name = "BFloat16TdnnComponent"
    properties = ReadsTimeOffsets.properties


_AFFINE: dict[torch.dtype, type[InferenceAffine]] = {
    torch.int8: Int8AffineComponent,
    torch.bfloat16: BFloat16AffineComponent,
    torch.float32: PackedAffineComponent,
}
_TDNN: dict[torch.dtype, type[InferenceAffine]] = {
    torch.int8: Int8TdnnComponent,
    torch.bfloat16: BFloat16TdnnComponent,
    torch.float32: PackedTdnnComponent,
}


def low_precision(
    products: torch.dtype, linear: Tensor, bias: Tensor | None = None, time_offsets: Sequence[int] | None = None
) -> InferenceAffine | None:
    """Returns the component for y = x W^T + b, at time offsets if given, with products of the given type.

    For float32 weights are packed. None if products for these sizes are missing, or slower. Raises
    ComponentError for weights that are not finite, if they are rounded, and for int8 on another device than the CPU.
    """
    kinds = _AFFINE if time_offsets is None else _TDNN
    if products == torch.float32:
        return kinds[products](time_offsets or (0,), linear, bias) if is_worth_packing(linear) else None
    if products == torch.int8:
        _check_device(linear.device)
    for what, tensor in (("weights", linear), ("biases", bias)):
        if tensor is not None and not bool(tensor.to(torch.bfloat16).isfinite().all()):  # float32 has its range
            raise ComponentError(f"it has {what} that are not finite numbers, which cannot be quantized")
    columns = linear.shape[1]
    if columns // len(time_offsets or (0,)) < _FEWEST_COLUMNS or columns > _MOST_COLUMNS:
        return None
    return kinds[products](time_offsets or (0,), linear, bias)


def _check_device(device: str | torch.device) -> None:
    if torch.device(device).type != "cpu":
        raise ComponentError(f"products of int8 are computed on the CPU alone, not on '{device}': use bfloat16 there")


def _integers_of_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns integers (rows, columns) from -127 to 127 and steps (rows, 1), whose product is x up to half a step.

    A row with a NaN or an infinity has a step that is not finite.
    """
    integers, steps = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)
    for rows, part, step in _parts(x.shape[1], x, integers, steps):
        floats = _SCRATCH.matrix(torch.float32, rows)
        torch.abs(rows, out=floats)
        torch.amax(floats, 1, True, out=step)
        step.mul_(1 / _LARGEST).clamp_(min=_LEAST_STEP)
        torch.mul(rows, step.reciprocal(), out=floats)
        part.copy_(floats.round_())
    return integers, steps


def _parts(columns: int, *matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yields the matrices in ranges of rows, each range of `columns` columns small enough for the cache."""
    rows = max(1, _ELEMENTS_AT_ONCE // columns)
    if len(matrices[0]) <= rows:
        return iter((matrices,))
    return zip(*(matrix.split(rows) for matrix in matrices), strict=True)


class _Scratch(threading.local):
    """Memory of a thread that is used again and again: new memory takes longer than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[torch.dtype, Tensor] = {}

    def matrix(self, dtype: torch.dtype, like: Tensor) -> Tensor:
        """Returns a matrix of a size, in memory used again by the next call for the dtype."""
        buffer = self._buffers.get(dtype)
        if buffer is None or buffer.numel() < like.numel():
            with torch.inference_mode(False):
                buffer = self._buffers[dtype] = torch.empty(max(like.numel(), _ELEMENTS_AT_ONCE), dtype=dtype)
        return buffer[: like.numel()].view(like.shape)


_SCRATCH = _Scratch()


@cache
def _has_fast_bfloat16() -> bool:
    """Returns True for CPUs with AMX: with AVX512-BF16 alone most products of bfloat16 are slower than of float32."""
    return bool(getattr(torch.cpu, "_is_amx_tile_supported", bool)())
