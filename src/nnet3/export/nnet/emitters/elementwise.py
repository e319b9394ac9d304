"""Types that treat every column alone: nonlinearities, scales, offsets, dropout in test mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from nnet3.export.emitter_table import Emission, emitter, row_emitter
from nnet3.export.graph import OnnxValue

_SOFTMAX_FLOOR = 1e-20


def _register(type_names: Sequence[str], op_type: str, weight: str = "", **attributes: Any) -> None:
    """Registers types made of one operator on the input, and on one weight where the type has a weight."""

    def emit_op(about: Emission, component: Any, x: ir.Value) -> ir.Value:
        weights = [about.weight(weight, lambda: getattr(component, weight))] if weight else []
        return about.op(op_type, x, *weights, **attributes)

    row_emitter(*type_names)(emit_op)


_register(["RectifiedLinearComponent"], "Relu")
_register(["SigmoidComponent"], "Sigmoid")
_register(["TanhComponent"], "Tanh")
_register(["LogSoftmaxComponent"], "LogSoftmax", axis=-1)
_register(["FixedScaleComponent"], "Mul", "scales")
_register(["FixedBiasComponent"], "Add", "bias")
_register(["PerElementScaleComponent", "NaturalGradientPerElementScaleComponent"], "Mul", "params")


@row_emitter("SoftmaxComponent")
def softmax(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    return about.op("Max", about.op("Softmax", x, axis=-1), about.number(_SOFTMAX_FLOOR))


@emitter("NoOpComponent", "ClipGradientComponent", "GeneralDropoutComponent", "SpecAugmentTimeMaskComponent")
def identity(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """Test mode is the identity; clipping is of derivatives."""
    return x


@emitter("BackpropTruncationComponent")
def backprop_truncation(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    return about.graph.scaled(x, component.scale)


@emitter("DropoutComponent")
def dropout(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    return about.graph.scaled(x, 1.0 - component.dropout_proportion)


@emitter("DropoutMaskComponent")
def dropout_mask(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    kept = 1.0 if component.continuous else 1.0 - component.dropout_proportion
    return about.graph.filled(kept, about.rows, component.output_dim)


@emitter("ConstantComponent", "ConstantFunctionComponent")
def constant(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    return about.row("output", component.output_dim, lambda: component.output)


@row_emitter("BatchNormComponent")
def batch_norm(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    scale, offset = component.scale_and_offset(torch.empty(0))
    y = about.op("Mul", x, about.weight("scale", lambda: scale))
    return about.op("Add", y, about.weight("offset", lambda: offset))


@row_emitter("PerElementOffsetComponent")
def per_element_offset(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    blocks = component.output_dim // component.block_dim
    return about.op("Add", x, about.weight("offsets", lambda: component.offsets.repeat(blocks)))


@row_emitter("ScaleAndOffsetComponent")
def scale_and_offset(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    blocks = component.output_dim // len(component.scales)
    y = about.op("Mul", x, about.weight("scales", lambda: component.safe_scales().repeat(blocks)))
    return about.op("Add", y, about.weight("offsets", lambda: component.offsets.repeat(blocks)))
