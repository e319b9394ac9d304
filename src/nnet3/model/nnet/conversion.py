"""Conversions of networks: arguments of `Nnet.to` in the forms of PyTorch's `to`, weights in other forms."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Collection, Iterable, Mapping, Set as AbstractSet

import numpy as np
import torch

from nnet3.base.native.library import library
from nnet3.errors import ArgumentError, ComponentError, NetworkError
from nnet3.model.components.base import Component
from nnet3.model.components.large_products import amx_is_faster, packing_is_faster
from nnet3.model.components.packed_affine import PackedAffineComponent
from nnet3.model.structure.cycles import recurrent_nodes
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.parts import NetworkParts

_USE = "give a device such as 'cpu' or 'cuda:0', a dtype such as torch.float64, or both"


def parse_target(
    target: tuple[object, ...], dtype: torch.dtype | None, device: str | int | torch.device | None
) -> tuple[torch.dtype | None, torch.device | None]:
    """Returns (dtype, device) from `to("cpu")`, `to(torch.float64)`, `to(device, dtype)`, `to(tensor)` or the keywords.

    Raises ArgumentError for anything else, for a dtype without floats and for CUDA on a machine without CUDA.
    """
    found: dict[str, object] = {"dtype": dtype, "device": device}
    for value in target:
        values = {"dtype": value.dtype, "device": value.device} if isinstance(value, torch.Tensor) else _named(value)
        for name, given in values.items():
            if found[name] is not None:
                raise ArgumentError(f"to() was given two values for {name}: {found[name]} and {given}")
            found[name] = given
    return _dtype(found["dtype"]), _device(found["device"])


def _named(value: object) -> dict[str, object]:
    return {"dtype": value} if isinstance(value, torch.dtype) else {} if value is None else {"device": value}


def _dtype(dtype: object) -> torch.dtype | None:
    if dtype is None:
        return None
    if not isinstance(dtype, torch.dtype):
        raise ArgumentError(f"to() was given dtype={dtype!r}, which is not a dtype; {_USE}")
    if not dtype.is_floating_point:
        raise ArgumentError(f"a network cannot be converted to {dtype}: its parameters are floats")
    return dtype


def _device(device: object) -> torch.device | None:
    if device is None:
        return None
    if not isinstance(device, str | int | torch.device) or isinstance(device, bool):
        raise ArgumentError(f"to() was given {device!r}, which is neither a device nor a dtype; {_USE}")
    try:
        result = torch.device(device)
    except (RuntimeError, ValueError):
        raise ArgumentError(f"to() was given '{device}', which is not a device; {_USE}") from None
    if result.type == "cuda" and (result.index or 0) >= torch.cuda.device_count():
        found = f"{torch.cuda.device_count()} CUDA devices are available"
        raise ArgumentError(f"to() was given the device '{result}', but {found} to this PyTorch: use 'cpu'")
    return result


def check_number(what: str, value: object, minimum: float | None = None) -> float:
    """Returns `value` as a float. Raises ArgumentError unless it is a finite number >= `minimum`."""
    bound = "" if minimum is None else f" >= {minimum:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real | torch.Tensor | np.ndarray):
        raise ArgumentError(f"{what} must be a number{bound}, got {value!r}")
    try:
        number = float(value)
    except (RuntimeError, TypeError, ValueError):
        raise ArgumentError(f"{what} must be one number{bound}, got {value!r}") from None
    if not math.isfinite(number) or (minimum is not None and number < minimum):
        raise ArgumentError(f"{what} must be a finite number{bound}, got {number:g}")
    return number


def convert(components: Collection[Component], dtype: torch.dtype | None, device: torch.device | None) -> None:
    """Converts all components, or none if one cannot be; see `Nnet.to`."""
    for component in components:
        component.check_target(dtype, device)
    for component in components:
        component.to(dtype=dtype, device=device)


def widest_type(components: Iterable[Component]) -> torch.dtype | None:
    """Returns the type to which all floats of parameters and constants are promoted; None without floats."""
    names = ((each, (*each.parameter_names, *each.constant_names)) for each in components)
    types = {getattr(each, name).dtype for each, own in names for name in own}
    floats = [dtype for dtype in types if dtype.is_floating_point]
    return functools.reduce(torch.promote_types, floats) if floats else None


_PRODUCTS = {"int8": torch.int8, "bfloat16": torch.bfloat16}


def quantized(parts: NetworkParts, dtype: torch.dtype | str) -> dict[str, Component]:
    """Returns copies of the components with products of this type; see `Nnet.quantize`."""
    products = _PRODUCTS.get(str(dtype).removeprefix("torch."))
    if products is None:
        raise ArgumentError(f"products can be of {' or '.join(_PRODUCTS)}, got {dtype!r}")
    components = {name: _in_low_precision(name, component, products) for name, component in parts.components.items()}
    convert(components.values(), torch.float32, None)
    return components


def packed(parts: NetworkParts, *, many_rows: bool) -> dict[str, Component]:
    """Returns copies of the components with packed weights, and native code for recurrences; see `Nnet.pack`."""
    in_loops, components = _in_loops(parts), dict[str, Component]()
    for name, component in parts.components.items():
        packed = _in_low_precision(name, component, torch.float32) if packing_is_faster() else component.copy()
        # A recurrence multiplies by parts of its weights.
        components[name] = packed if packed.has_slices or name not in in_loops else component.copy()
    for name in components.keys() - in_loops if many_rows and amx_is_faster() else ():
        if isinstance(component := components[name], PackedAffineComponent):
            component.by_amx = True
    _make_native(components, in_loops)
    return components


def for_inference(parts: NetworkParts) -> dict[str, Component]:
    """Returns components with shared parameters, in test mode, and native code for recurrences; see `in_test_mode`."""
    components = {name: component.shared_copy() for name, component in parts.components.items()}
    for component in components.values():
        component.set_test_mode(True)
    _make_native(components, _in_loops(parts))
    return components


def _in_loops(parts: NetworkParts) -> set[str]:
    """Returns the names of components in recurrences."""
    return {getattr(parts.nodes[number], "component", "") for number in recurrent_nodes(NodeRules(parts))}


def _make_native(components: Mapping[str, Component], in_loops: AbstractSet[str]) -> None:
    """Lets native code run the components in recurrences, where there is a C compiler."""
    looped = [component for name, component in components.items() if name in in_loops]
    if looped and library() is not None:
        for component in looped:
            component.is_native = True


def _in_low_precision(name: str, component: Component, products: torch.dtype) -> Component:
    try:
        return component.in_low_precision(products) or component.copy()
    except ComponentError as error:
        raise NetworkError(f"component '{name}': {error}") from None
