"""Affine components for inference: products of int8 or bfloat16, the rest float32; or packed weights of float32."""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.native import operations
from nnet3.base.native.operations import Operations
from nnet3.base.native.panels import Panels, PanelsOfOffsets
from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Deriv, Properties, Updated
from nnet3.model.components.large_products import packed
from nnet3.model.components.time_blocks import ALL_ROWS, RowBlock, TimeBlocks, table_of
from nnet3.model.components.time_offsets import ReadsTimeOffsets


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


_FEWEST_WEIGHTS = 2**15  # with fewer, it takes longer to call a product with packed weights than one by MKL


class PackedAffineComponent(InferenceAffine):
    """Weights of float32 in the fastest order for products; the result of a row does not depend on further rows.

    `packed_weights` has each W_i. Columns of weights in panels lie together: a part of the columns is a view.
    """

    type_name = "PackedAffineComponent"
    properties = Properties.SIMPLE
    products = torch.float32
    is_linear = True
    slices_pack = False

    def take_weights(self, linear: Tensor) -> None:
        self._take_packed(linear.split(self.input_dim, 1))
        self.has_slices = not self.needs_indexes and isinstance(self.packed_weights[0], Panels)

    def _take_packed(self, weights: Sequence[Tensor]) -> None:
        self.packed_weights = [packed(each) for each in weights]
        panels = [each for each in self.packed_weights if isinstance(each, Panels)]
        self._panels = PanelsOfOffsets(panels) if panels else None

    def slice(self, first: int, end: int, adds: bool, goes_backward: bool) -> PackedSlice:
        return PackedSlice(self, first, end)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        weights = self.packed_weights[0]
        if not self.has_slices or not isinstance(weights, Panels):
            return None
        return operations.panel_product(y, x, weights.panels, self.bias_params)

    def replay_state(self) -> list[object] | None:
        state = [each.panels if isinstance(each, Panels) else each for each in self.packed_weights]
        return [*(super().replay_state() or ()), *state]

    def forward(self, x: Tensor, y: Tensor, indexes: TimeBlocks | None = None) -> None:
        """y = b + sum_i W_i x(t + o_i); rows of y that are padding are anything finite."""
        blocks: tuple[RowBlock, ...] = (ALL_ROWS,)
        if indexes is not None:
            x, blocks = indexes.input_without_padding(x), indexes.blocks
        if self._panels is not None and x.stride(1) == 1 == y.stride(1):
            self._panels.multiply(x, y, self.bias_params, table_of(blocks))
            return
        addend = self.bias_params
        if not blocks or not blocks[0].is_whole:
            addend = y.copy_(self.bias_params)
        for block in blocks:
            target = block.of_output(y)
            self.packed_weights[block.offset].multiply(block.of_input(x), target, target if addend is y else addend)
            addend = y

    @property
    def inference_only(self) -> str:
        return "its weights are packed; take the network that was packed"

    def in_low_precision(self, products: torch.dtype) -> Component | None:
        if products == torch.float32:
            return None
        raise ComponentError(self.inference_only)

    def check_target(self, dtype: torch.dtype | None, device: str | torch.device | None) -> None:
        super().check_target(dtype, device)
        if device is not None and torch.device(device).type != "cpu":
            raise ComponentError("weights are packed for the CPU alone: take the network that was packed")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo.update((id(weights), weights) for weights in (*self.packed_weights, self._panels))  # nobody writes to them
        return super().__deepcopy__(memo)

    def __getstate__(self) -> dict[str, Any]:
        dense = [weights.to_dense() for weights in self.packed_weights]
        return {**super().__getstate__(), "packed_weights": dense, "_panels": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._take_packed(state["packed_weights"])


class PackedSlice:
    """y = x W_c^T + b, or x W_c^T + a for a second input a; W_c are the columns [first, end) of a component's W."""

    type_name = "PackedSlice"

    def __init__(self, component: PackedAffineComponent, first: int, end: int) -> None:
        [weights] = component.packed_weights
        assert isinstance(weights, Panels)
        self.output_dim = component.output_dim
        self._component, self._weights = component, weights.part(first, end)

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> None:
        x, addend = self._operands(*inputs)
        self._weights.multiply(x, output, addend)

    def _operands(self, x: Tensor, addend: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return x, self._component.bias_params if addend is None else addend

    @property
    def is_native(self) -> bool:
        return self._component.is_native

    def native_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Operations | None:
        x, addend = self._operands(*inputs)
        return operations.panel_product(output, x, self._weights.panels, addend)

    def replay_state(self) -> list[object] | None:
        return self._component.replay_state()


class PackedTdnnComponent(ReadsTimeOffsets, PackedAffineComponent):
    type_name = "PackedTdnnComponent"
    properties = ReadsTimeOffsets.properties


def is_worth_packing(weights: Tensor) -> bool:
    """Returns true for weights that are multiplied faster when they are packed, where packing is faster at all."""
    return weights.device.type == "cpu" and weights.dtype == torch.float32 and weights.numel() >= _FEWEST_WEIGHTS


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
