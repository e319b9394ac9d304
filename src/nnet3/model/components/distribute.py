"""DistributeComponent: blocks of columns of one row become rows with different x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from nnet3.base.index import X, find_rows
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, divisor_of
from nnet3.model.components.index_arrays import IndexArrays
from nnet3.model.components.value_kinds import SIZE


@dataclass(frozen=True)
class BlockOfRow:
    """The input row of each output row, and the block of its columns, (rows,) each."""

    row: Tensor  # (output rows,)
    block: Tensor
    covers_input: bool  # whether every block of every input row is used


@register
class DistributeComponent(Component):
    """Output (n, t, x) is block x mod B of the input (n, t, floor(x / B)), where B = input_dim / output_dim."""

    properties = Properties.NONE
    identity_indexes = False
    rules_period = 1
    needs_indexes = True
    indexes_go_on = True
    indexes_type = BlockOfRow

    fields = (Field("input_dim", SIZE), Field("output_dim", SIZE, check=divisor_of("input_dim")))

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.num_blocks = input_dim // output_dim

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = outputs.copy()
        wanted[:, X] //= self.num_blocks
        return wanted[:, np.newaxis]

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        row = find_rows(inputs, self.wanted_inputs(outputs)[:, 0])
        block = (outputs[:, X] % self.num_blocks).astype(np.int64)
        num_used = np.count_nonzero(np.bincount(row * self.num_blocks + block))
        covers_input = num_used == len(inputs) * self.num_blocks
        return {"row": row, "block": block, "covers_input": np.array(covers_input)}

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        blocks = x.unflatten(1, (self.num_blocks, self.output_dim))
        y.copy_(blocks[indexes.row, indexes.block])

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        """Fills each block with the derivative of the output row that reads the block, or with zeros if no row does."""
        if not indexes.covers_input:
            x_deriv.zero_()
        x_deriv.unflatten(1, (self.num_blocks, self.output_dim)).index_put_((indexes.row, indexes.block), y_deriv)
