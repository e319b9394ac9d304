"""Components and their parts as kernels of exported programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnet3.engine.ir.kernel import named_slice
from nnet3.errors import ExportError
from nnet3.export.emitter_table import EMITTERS, Emission, Emitted
from nnet3.export.graph import OnnxValue
from nnet3.model.components.base import Component


def kernels_of(components: Mapping[str, Component]) -> Emitted:
    """Returns the kernels of a network: components, and slices of them (see `nnet3.engine.ir.kernel.slice_name`)."""

    def emit_named(about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
        component: Any = components.get(about.name)
        if component is None and (sliced := named_slice(about.name)) is not None:
            whole: Any = components[sliced[0]]
            component = whole.slice(*sliced[1:])
        x, *addends = inputs or [about.graph.filled(0.0, about.rows, component.input_dim)]
        y = emit(component, about, x)
        return about.graph.combine("Add", addends[0], y) if addends else y

    return emit_named


def emit(component: Component, about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns the output of a component. Raises ExportError, with its name, if it has no form in ONNX."""
    rule = EMITTERS.get(component.type_name)
    if rule is None:
        raise ExportError(f"component '{about.name}': {component.type_name} has no form in ONNX")
    try:
        return rule(about, component, x)
    except ExportError as error:
        raise ExportError(f"component '{about.name}' of type {component.type_name}: {error}") from None
