"""Affine and linear types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from torch import Tensor

from nnet3.export.emitter_table import Emission, as_array, emitter, row_emitter
from nnet3.export.graph import OnnxValue


@emitter("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent", "AffineSlice")
def affine(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    weight, bias = component.linear_params, component.bias_params  # a part may have no bias
    return product(about, x, component.output_dim, "weight", weight.t, None if bias is None else lambda: bias)


@emitter("LinearComponent")
def linear(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    return product(about, x, component.output_dim, "weight", lambda: component.params.t())


def product(
    about: Emission,
    x: OnnxValue,
    output_dim: int,
    name: str,
    weight: Callable[[], Tensor],
    bias: Callable[[], Tensor] | None = None,
) -> OnnxValue:
    """Returns x W + b for W (inputs, outputs).

    Parts of x common to all rows are multiplied once, not row by row. Parts wider than the output have products of
    their own, in less time than putting the parts side by side takes.
    """
    graph = about.graph
    ends = np.cumsum([0, *x.widths]).tolist()
    columns = [np.arange(*ends[i : i + 2]) for i in range(len(x.parts))]
    total: OnnxValue | None = None
    same, own = ([i for i, repeats in enumerate(x.repeats) if repeats == each] for each in (True, False))
    apart = len(own) > 1 and min(x.widths[i] for i in own) > output_dim
    for chosen in [same, *([i] for i in own)] if apart else [same, own]:
        if not chosen:
            continue
        repeated = chosen is same
        part = graph.compact(x.selected(chosen))
        rows = np.concatenate([columns[i] for i in chosen])
        key = name if len(chosen) == len(x.parts) else f"{name}.{'same' if repeated else 'own'}{_digest(rows)}"
        matrix = about.weight(key, lambda rows=rows: as_array(weight())[rows])  # type: ignore[misc]
        y = graph.op("MatMul", part.parts[0], matrix)
        if bias is not None:
            y, bias = graph.op("Add", y, about.weight("bias", bias)), None
        found = graph.value(y, x.rows, output_dim, repeated)
        total = found if total is None else graph.combine("Add", found, total)
    assert total is not None
    return total


def _digest(rows: np.ndarray) -> str:
    return f"[{rows[0]}..{rows[-1]}]" if len(rows) == rows[-1] - rows[0] + 1 else f"[{rows[0]}..{rows[-1]}:{len(rows)}]"


@row_emitter("BlockAffineComponent")
def block_affine(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph, num_blocks = about.graph, component.num_blocks
    weight = about.weight(  # (blocks, input part, output part)
        "weight", lambda: component.linear_params.unflatten(0, (num_blocks, -1)).transpose(1, 2)
    )
    by_block = graph.op("Transpose", about.blocks(x, num_blocks, -1), perm=[0, 2, 1, 3])
    y = graph.op("Transpose", graph.op("MatMul", by_block, weight), perm=[0, 2, 1, 3])
    return graph.op("Add", about.joined(y), about.weight("bias", lambda: component.bias_params))


@row_emitter("RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent")
def repeated_affine(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph = about.graph
    weight = about.weight("weight", lambda: component.linear_params.t())
    y = graph.op("MatMul", about.blocks(x, component.num_repeats, -1), weight)
    return about.joined(graph.op("Add", y, about.weight("bias", lambda: component.bias_params)))
