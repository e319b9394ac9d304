"""A recurrent layer as one node of whole sequences: the LSTM of PyTorch, by native code where that is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nnet3.base.native import cells
from nnet3.cn.node import Node
from nnet3.cn.nodes.sequence import SequenceReversal
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation, check_samples
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError
from nnet3.model.components.large_products import add_product

_MOST_ROOM = 4  # times the rows: native code has memory for all sequences in each frame
_APART = 16  # floats between rows: rows that lie a multiple of 4 KiB apart share few places of the first cache


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
        x = operands[0]
        if self.reverse:
            turned = SequenceReversal()
            forward = SampleRows(turned.compute([x], own), x.layout)
            value = LstmLayer().compute([forward, *operands[1:]], own)
            return turned.compute([SampleRows(value, x.layout)], own)
        # Rows are frame by frame, longer sequences first, as PyTorch packs them.
        counts = np.bincount(x.samples.frame_of_row)
        is_dense = len(counts) * int(counts[0]) <= _MOST_ROOM * len(x.tensor)
        if is_dense and cells.are_layers_native(x.tensor, *(operand.tensor for operand in operands[1:])):
            found: Tensor = _NativeLstm.apply(*(operand.tensor for operand in operands), counts)
            return found
        weights, bias = [operand.tensor.T.contiguous() for operand in operands[1:3]], operands[3].tensor[0]
        parameters = [*weights, bias, torch.zeros_like(bias)]
        state = bias.new_zeros(1, int(counts[0]), len(bias) // 4)
        if counts[-1] == counts[0]:
            frames = x.tensor.unflatten(0, (len(counts), -1))
            value, _, _ = torch.lstm(frames, (state, state), parameters, True, 1, 0.0, False, False, False)
            return value.flatten(0, 1)
        sizes = torch.from_numpy(counts)
        packed, _, _ = torch.lstm(x.tensor, sizes, (state, state), parameters, True, 1, 0.0, False, False)
        return packed


class _NativeLstm(torch.autograd.Function):
    """The same by native code. x: (rows, D), w: (D, 4C), r: (C, 4C), b: (1, 4C); counts[t] rows are of frame t."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, r: Tensor, b: Tensor, counts: np.ndarray) -> Tensor:
        ctx.counts, dim = counts, len(r)
        values, rows = _room(x, counts, dim)
        gates = values[:-1].flatten(0, 1)[:, : 4 * dim]
        if rows is None:
            add_product(gates, x, w, b[0])
        else:
            gates.index_copy_(0, rows, torch.addmm(b, x, w))
        values[0, :, 4 * dim : 6 * dim] = 0.0
        cells.lstm_layer(values, counts, r.t())
        ctx.save_for_backward(x, w, r, values)
        return _chosen(values[1:].flatten(0, 1)[:, 5 * dim : 6 * dim], rows).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, h_deriv: Tensor) -> tuple[Tensor | None, ...]:
        x, w, r, values = ctx.saved_tensors
        dim = len(r)
        derivs, rows = _room(x, ctx.counts, dim)
        derivs[0, :, 5 * dim :], derivs[-1, :, 4 * dim : 5 * dim] = 0.0, 0.0
        of_h = derivs[1:].flatten(0, 1)[:, 5 * dim : 6 * dim]
        of_h.copy_(h_deriv) if rows is None else of_h.index_copy_(0, rows, h_deriv)
        cells.lstm_layer_backward(derivs, values, ctx.counts, r.t())
        gates, before = (each[:-1].flatten(0, 1) for each in (derivs[:, :, : 4 * dim], values[:, :, 5 * dim : 6 * dim]))
        of_r = _product(before.t(), gates) if ctx.needs_input_grad[2] else None
        gates = _chosen(gates, rows)
        of_x = _product(gates, w.t()) if ctx.needs_input_grad[0] else None
        of_w = _product(x.t(), gates) if ctx.needs_input_grad[1] else None
        return of_x, of_w, of_r, gates.sum(0, keepdim=True) if ctx.needs_input_grad[3] else None, None


def _room(x: Tensor, counts: np.ndarray, dim: int) -> tuple[Tensor, Tensor | None]:
    """Returns memory as `cells.lstm_layer` takes it, and which of its rows the samples are; None for all, in order."""
    shape = len(counts) + 1, int(counts[0]), 6 * dim + _APART
    if counts[-1] == counts[0]:
        return x.new_empty(shape), None
    return x.new_zeros(shape), torch.from_numpy(np.flatnonzero(np.arange(shape[1]) < counts[:, None]))


def _chosen(matrix: Tensor, rows: Tensor | None) -> Tensor:
    return matrix if rows is None else matrix.index_select(0, rows)


def _product(left: Tensor, right: Tensor) -> Tensor:
    y = left.new_empty(len(left), right.shape[1])
    add_product(y, left, right)
    return y


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
