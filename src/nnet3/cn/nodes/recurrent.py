"""A recurrent layer as one node of whole sequences: PyTorch's LSTM, the fastest there is where nobody looks inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.sequence import SequenceReversal
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation, check_samples
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class LstmLayer(SequenceOperation):
    """X: D x S; W: 4C x D; R: 4C x C; b: 4C x 1, with C rows for each of the gates i, f, g, o; the value: C x S."""

    type: ClassVar[str] = "lstm_layer"
    weights: ClassVar[tuple[int, ...]] = (1, 2)
    num_operands: ClassVar[int] = 4
    reverse: bool = False

    def infer(self, operands: Sequence[Shape]) -> Shape:
        x, w, r, b = operands
        check_samples(self.type, x)
        cells = r.num_cols
        if cells is None or (w, r, b) != (Shape(4 * cells, x.rows), Shape(4 * cells, cells), Shape(4 * cells, 1)):
            raise ShapeError(f"{self.type} needs X: D x S, W: 4C x D, R: 4C x C and b: 4C x 1 for C cells")
        return Shape(cells, x.cols)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        # i, f, o = sigmoid(W x + R h(t-1) + b), g = tanh(...), c = f c(t-1) + i g, h = o tanh(c): `torch.nn.LSTM`
        x, weights = operands[0], [operand.tensor.T.contiguous() for operand in operands[1:3]]  # else they are slow
        if self.reverse:
            turned = SequenceReversal()
            forward = SampleRows(turned.compute([x], own), x.layout)
            value = LstmLayer().compute([forward, *operands[1:]], own)
            return turned.compute([SampleRows(value, x.layout)], own)
        bias = operands[3].tensor[0]
        parameters = [*weights, bias, torch.zeros_like(bias)]
        # Rows are frame by frame, longer sequences first, as PyTorch packs them.
        counts = np.bincount(x.samples.frame_of_row)
        state = bias.new_zeros(1, int(counts[0]), len(bias) // 4)
        if counts[-1] == counts[0]:
            frames = x.tensor.unflatten(0, (len(counts), -1))
            value, _, _ = torch.lstm(frames, (state, state), parameters, True, 1, 0.0, False, False, False)
            return value.flatten(0, 1)
        sizes = torch.from_numpy(counts)
        packed, _, _ = torch.lstm(x.tensor, sizes, (state, state), parameters, True, 1, 0.0, False, False)
        return packed


def lstm_layer(
    x: Node, weights: Node, recurrent_weights: Node, bias: Node, *, reverse: bool = False, name: str = ""
) -> Node:
    """Returns the outputs of PyTorch's LSTM, C x S, over whole sequences: without peepholes, but fast.

    `weights`, 4C x D, multiply X and `recurrent_weights`, 4C x C, the outputs of the frame before; `bias` is 4C x 1. C
    rows each belong to the gates i, f, g, o. The three are `weight_ih_l0`, `weight_hh_l0` and the sum of both biases of
    `torch.nn.LSTM`. With `reverse` it runs backward in time. The nodes of a loop cannot look into the layer, only into
    the nodes of `macros.lstm`.
    """
    return Node(LstmLayer(reverse), (x, weights, recurrent_weights, bias), name)
