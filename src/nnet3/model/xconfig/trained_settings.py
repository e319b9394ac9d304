"""The settings carried by a trained component: type, sizes and settings of its config line, by config key.

Settings of initial parameters alone (`param-stddev`) are lost, and settings changed by training (the learning rate)
do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields as dataclass_fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.text import parse_config_line
from nnet3.errors import ConfigError, Span
from nnet3.model.components.base import Component
from nnet3.model.components.component_types import create_from_line
from nnet3.model.components.convolution_model import ConvolutionModel
from nnet3.model.components.random_source import RandomSource
from nnet3.model.xconfig.statements import ComponentStatement

CarriedSettings = dict[str, Any]
_PASSING = frozenset({"learning_rate", "is_gradient", "test_mode"})
_SHAPE = "shape of "


def carried_settings(component: Component) -> CarriedSettings:
    """Returns the type, dimensions, sizes of parameters and settings of a component, by config key."""
    settings: CarriedSettings = {
        "type": component.type_name,
        "input-dim": component.input_dim,
        "output-dim": component.output_dim,
    }
    settings |= {_SHAPE + name: tuple(tensor.shape) for name, tensor in component.parameters().items()}
    tensors = {*component.parameter_names, *component.constant_names, *component.statistic_names}
    for field in (*component.header_fields, *component.fields):
        if not field.saved or field.name in _PASSING or field.name in tensors or field.per:
            continue
        if not getattr(field.kind, "statistic", False) and hasattr(component, field.name):
            settings |= _flat(field.label, getattr(component, field.name))
    return settings


def settings_of(statement: ComponentStatement) -> CarriedSettings:
    """Returns the settings of the component made by a statement. Raises ConfigError if none can be made."""
    return _settings_of(statement.type, tuple(statement.values.items()))


def differences(carried: CarriedSettings, other: CarriedSettings) -> list[str]:
    """Returns the keys with different values in two components."""
    return [key for key in {**carried, **other} if carried.get(key) != other.get(key)]


def is_config_key(key: str) -> bool:
    """Returns True for a key of config lines, False for shapes of parameters and the type."""
    return not key.startswith(_SHAPE) and key != "type"


class _ShapeOnly(Tensor):
    """A tensor of one number expanded to a shape, unchanged by scaling and shifting."""

    def __mul__(self, other: object) -> Tensor:
        return self

    def __add__(self, other: object) -> Tensor:
        return self


class NoNumbers(RandomSource):
    """Makes initial parameters that take no memory: one zero, expanded to the shape of each."""

    def normal_tensor(self, *shape: int) -> Tensor:
        return torch.zeros(1).expand(*shape).as_subclass(_ShapeOnly)


@lru_cache(maxsize=4096)
def _settings_of(type_name: str, pairs: tuple[tuple[str, str], ...]) -> CarriedSettings:
    text = " ".join([f"component type={type_name}", *(f"{key}={value}" for key, value in pairs)])
    line = parse_config_line(Span("<layer>", 1, 1, len(text), text))
    try:
        return carried_settings(create_from_line(line, NoNumbers(0)))
    except (ArithmeticError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _flat(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    """Returns a value in a comparable form; the fields of a dataclass in order."""
    if is_dataclass(value):
        for part in dataclass_fields(value):
            yield from _flat(part.name.replace("_", "-"), getattr(value, part.name))
        if isinstance(value, ConvolutionModel):  # whose config may have them apart
            yield "time-offsets", tuple(sorted({time for time, _ in value.offsets}))
            yield "height-offsets", tuple(sorted({height for _, height in value.offsets}))
        return
    if isinstance(value, Tensor | np.ndarray):
        value = tuple(value.tolist())
    yield key, float(np.float32(value)) if isinstance(value, float) else value
