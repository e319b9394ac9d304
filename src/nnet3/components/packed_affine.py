"""Affine components for inference with weights of float32 that oneDNN has packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.inference_affine import InferenceAffine
from nnet3.components.large_products import packed, product_with_packed
from nnet3.components.time_blocks import ReadsTimeOffsets, RowBlock, TimeBlocks
from nnet3.errors import ComponentError

if TYPE_CHECKING:
    from typing_extensions import Self

_ROWS_AT_ONCE = 512  # whose products are copied while they are in the cache
_FEWEST_WEIGHTS = 2**15  # with fewer, a product by oneDNN takes longer than one by MKL


class PackedAffineComponent(InferenceAffine):
    """Weights of float32 in the order in which oneDNN multiplies them; a row's result does not depend on others.

    `packed_weights` are all W_i side by side, where that makes a matrix with more rows than columns, or else each W_i.
    """

    type_name = "PackedAffineComponent"
    properties = Properties.SIMPLE
    products = torch.float32

    def take_weights(self, linear: Tensor) -> None:
        self.is_joined = linear.shape[1] <= self.output_dim
        self.packed_weights = [
            packed(weights) for weights in linear.split(linear.shape[1] if self.is_joined else self.input_dim, 1)
        ]

    def forward(self, x: Tensor, y: Tensor, indexes: TimeBlocks | None = None) -> None:
        """y = b + sum_i W_i x(t + o_i); rows of y that are padding are anything finite."""
        if indexes is not None:
            x = indexes.input_without_padding(x)
        blocks = (RowBlock(0, 0, 0, 1, len(y)),) if indexes is None else indexes.blocks
        if self.is_joined:
            [weights] = self.packed_weights
            for rows, target in _parts(self._side_by_side(x, blocks, len(y)), y):
                target.copy_(product_with_packed(rows, weights, self.bias_params))
            return
        y.copy_(self.bias_params)
        for block in blocks:
            for rows, target in _parts(block.of_input(x), block.of_output(y)):
                target.add_(product_with_packed(rows, self.packed_weights[block.offset]))

    def _side_by_side(self, x: Tensor, blocks: Sequence[RowBlock], num_rows: int) -> Tensor:
        """Returns the x(t + o_i) of each row of the output, zeros where it is padding."""
        if len(self.time_offsets) == 1 and blocks[0].num_rows == num_rows:
            return blocks[0].of_input(x)
        rows = x.new_zeros(num_rows, len(self.time_offsets), self.input_dim)
        for block in blocks:
            block.of_output(rows)[:, block.offset] = block.of_input(x)
        return rows.flatten(1)

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
        self.packed_weights = [packed(weights) for weights in self.packed_weights]


class PackedTdnnComponent(ReadsTimeOffsets, PackedAffineComponent):
    type_name = "PackedTdnnComponent"
    properties = ReadsTimeOffsets.properties


def _parts(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields some rows of both at a time."""
    return zip(x.split(_ROWS_AT_ONCE), y.split(_ROWS_AT_ONCE), strict=True)


def is_worth_packing(weights: Tensor) -> bool:
    """True for weights that are multiplied faster when they are packed, wherever oneDNN is faster at all."""
    return weights.device.type == "cpu" and weights.dtype == torch.float32 and weights.numel() >= _FEWEST_WEIGHTS
