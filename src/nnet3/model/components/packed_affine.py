"""Affine components for inference with packed weights of float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.native import operations
from nnet3.base.native.operations import Operations
from nnet3.base.native.panels import Panels, PanelsOfOffsets
from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.inference_affine import InferenceAffine
from nnet3.model.components.large_products import packed
from nnet3.model.components.time_blocks import ALL_ROWS, RowBlock, TimeBlocks, table_of
from nnet3.model.components.time_offsets import ReadsTimeOffsets

_FEWEST_WEIGHTS = 2**15  # with fewer, it takes longer to call a product with packed weights than one by MKL


class PackedAffineComponent(InferenceAffine):
    """Weights of float32 in the fastest order for products; the result of a row does not depend on further rows.

    `packed_weights` has each W_i. Columns of weights in panels lie together: a part of the columns is a view. With
    `by_amx` AMX multiplies by panels where it can, unless native code or a slice does.
    """

    type_name = "PackedAffineComponent"
    properties = Properties.SIMPLE
    products = torch.float32
    is_linear = True
    slices_pack = by_amx = False

    def take_weights(self, linear: Tensor) -> None:
        self._take_packed(linear.split(self.input_dim, 1))

    def _take_packed(self, weights: Sequence[Tensor]) -> None:
        self.packed_weights = [packed(each) for each in weights]
        panels = [each for each in self.packed_weights if isinstance(each, Panels)]
        self._panels = PanelsOfOffsets(panels) if panels else None
        self.has_slices = not self.needs_indexes and bool(panels)

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
        if self._panels is not None and y.stride(1) == 1:
            x = x if x.stride(1) == 1 else x.contiguous()
            self._panels.multiply(x, y, self.bias_params, table_of(blocks), by_amx=self.by_amx)
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
