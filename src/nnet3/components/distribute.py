"""DistributeComponent: blocks of columns of one row become rows with different x (components.md 13.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer
from nnet3.components.index_arrays import IndexArrays
from nnet3.components.registry import register
from nnet3.index import X, find_rows

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@dataclass(frozen=True)
class BlockOfRow:
    """Which block of which input row each output row is."""

    row: Tensor  # (output rows,)
    block: Tensor
    covers_input: bool  # whether every block of every input row is used


@register
class DistributeComponent(Component):
    """With B = input_dim / output_dim, output (n, t, x) is block x mod B of the input (n, t, floor(x / B))."""

    type_name = "DistributeComponent"
    properties = Properties.NONE
    identity_indexes = False
    needs_indexes = True
    indexes_type = BlockOfRow

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.num_blocks = input_dim // output_dim

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        input_dim = line.integer("input-dim", minimum=1)
        output_dim = line.integer("output-dim", minimum=1)
        if input_dim % output_dim:
            raise line.error(f"'output-dim' must divide input-dim ({input_dim}), got {output_dim}", "output-dim")
        return cls(input_dim, output_dim)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<InputDim>")
        input_dim = read_integer(reader, "<InputDim>")
        reader.expect("<OutputDim>")
        output_dim = read_integer(reader, "<OutputDim>")
        if input_dim % output_dim:
            raise reader.error(f"<OutputDim> must divide <InputDim> ({input_dim}), got {output_dim}")
        reader.expect("</DistributeComponent>")
        return cls(input_dim, output_dim)

    def write_body(self, writer: Writer) -> None:
        writer.token("<InputDim>")
        writer.int32(self.input_dim)
        writer.token("<OutputDim>")
        writer.int32(self.output_dim)

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

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: Any = None,
    ) -> None:
        """Each block gets the derivative of the one row that reads it; blocks that no row reads get zero."""
        if x_deriv is None:
            return
        if not indexes.covers_input:
            x_deriv.zero_()
        x_deriv.unflatten(1, (self.num_blocks, self.output_dim)).index_put_((indexes.row, indexes.block), y_deriv)
