"""Gates and cells of recurrent types."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from nnet3.export.emitter_table import Emission, emitter
from nnet3.export.graph import GraphBuilder, OnnxValue


class _Columns:
    """Values as numbers: products and sums of parts of one row."""

    def __init__(self, graph: GraphBuilder, value: OnnxValue) -> None:
        self.graph, self.value = graph, graph.compact(value)

    def __mul__(self, other: _Columns) -> _Columns:
        return _Columns(self.graph, self.graph.combine("Mul", self.value, other.value))

    def __add__(self, other: _Columns) -> _Columns:
        return _Columns(self.graph, self.graph.combine("Add", self.value, other.value))

    def __sub__(self, other: _Columns) -> _Columns:
        return _Columns(self.graph, self.graph.combine("Sub", self.value, other.value))

    def apply(self, op_type: str) -> _Columns:
        y = self.graph.op(op_type, self.value.parts[0])
        return _Columns(self.graph, self.graph.value(y, self.value.rows, self.value.columns, self.value.is_repeated))

    def sigmoid(self) -> _Columns:
        return self.apply("Sigmoid")

    def tanh(self) -> _Columns:
        return self.apply("Tanh")


def _split(about: Emission, x: OnnxValue, *widths: int) -> list[_Columns]:
    starts = [sum(widths[:i]) for i in range(len(widths))]
    return [
        _Columns(about.graph, about.graph.columns_of(x, first, width))
        for first, width in zip(starts, widths, strict=True)
    ]


@emitter("LstmNonlinearityComponent")
def lstm_nonlinearity(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """i = i_s sigma(I + w_ic c'); f likewise with w_fc; c = f c' + i tanh(Cp); m = o_s sigma(O + w_oc c) tanh(c)"""
    graph, dim = about.graph, component.cell_dim
    scales = [1, 1, 1] if component.use_dropout else []
    i, f, candidate, o, previous, *dropout = _split(about, x, dim, dim, dim, dim, dim, *scales)
    w_ic, w_fc, w_oc = (
        _Columns(graph, about.row(name, dim, partial(torch.select, component.params, 0, k)))
        for k, name in enumerate(("w_ic", "w_fc", "w_oc"))
    )
    i, f = (i + w_ic * previous).sigmoid(), (f + w_fc * previous).sigmoid()
    if dropout:
        i, f = i * dropout[0], f * dropout[1]
    c = f * previous + i * candidate.tanh()
    o = (o + w_oc * c).sigmoid()
    if dropout:
        o = o * dropout[2]
    return graph.side_by_side([c.value, (o * c.tanh()).value])


@emitter("GruNonlinearityComponent")
def gru_nonlinearity(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """h = tanh(hpart + (r s') W^T), c = (1 - z) h + z c'"""
    graph, dim, recurrent = about.graph, component.cell_dim, component.recurrent_dim
    z, r, hpart, cell, *own = _split(about, x, dim, recurrent, dim, dim, *([recurrent] if recurrent != dim else []))
    gated = r * (own[0] if own else cell)
    weight = about.weight("w_h", lambda: component.w_h.t())
    product = graph.op("MatMul", gated.value.parts[0], weight)
    h = (hpart + _Columns(graph, graph.value(product, x.rows, dim, gated.value.is_repeated))).tanh()
    return graph.side_by_side([h.value, (h + z * (cell - h)).value])


@emitter("OutputGruNonlinearityComponent")
def output_gru_nonlinearity(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """h = tanh(hpart + w c'), c = (1 - z) h + z c'"""
    graph, dim = about.graph, component.cell_dim
    z, hpart, cell = _split(about, x, dim, dim, dim)
    w = _Columns(graph, about.row("w_h", dim, lambda: component.w_h))
    h = (hpart + w * cell).tanh()
    return graph.side_by_side([h.value, (h + z * (cell - h)).value])
