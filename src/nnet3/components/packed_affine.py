"""Affine components for inference with packed weights of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.inference_affine import InferenceAffine
from nnet3.components.large_products import packed
from nnet3.components.time_blocks import ReadsTimeOffsets, RowBlock, TimeBlocks
from nnet3.errors import ComponentError

if TYPE_CHECKING:
    from typing_extensions import Self

_FEWEST_WEIGHTS = 2**15  # with fewer, it takes longer to call a product with packed weights than one by MKL


class PackedAffineComponent(InferenceAffine):
    """Weights of float32 in the order in which they are multiplied fastest; a row's result does not depend on others.

    `packed_weights` has each W_i.
    """

    type_name = "PackedAffineComponent"
    properties = Properties.SIMPLE
    products = torch.float32

    def take_weights(self, linear: Tensor) -> None:
        self.packed_weights = [packed(weights) for weights in linear.split(self.input_dim, 1)]

    def forward(self, x: Tensor, y: Tensor, indexes: TimeBlocks | None = None) -> None:
        """y = b + sum_i W_i x(t + o_i); rows of y that are padding are anything finite."""
        blocks: tuple[RowBlock, ...] = (RowBlock(0, 0, 0, 1, len(y)),)
        if indexes is not None:
            x, blocks = indexes.input_without_padding(x), indexes.blocks
        addend = self.bias_params
        if not blocks or blocks[0].num_rows < len(y):
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
        memo.update((id(weights), weights) for weights in self.packed_weights)  # nobody can write to them
        return super().__deepcopy__(memo)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "packed_weights": [weights.to_dense() for weights in self.packed_weights]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.packed_weights = [packed(weights) for weights in state["packed_weights"]]


class PackedTdnnComponent(ReadsTimeOffsets, PackedAffineComponent):
    type_name = "PackedTdnnComponent"
    properties = ReadsTimeOffsets.properties


def is_worth_packing(weights: Tensor) -> bool:
    """True for weights that are multiplied faster when they are packed, where packing is faster at all."""
    return weights.device.type == "cpu" and weights.dtype == torch.float32 and weights.numel() >= _FEWEST_WEIGHTS
