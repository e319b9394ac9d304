"""Copies of networks for inference whose products are of few bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

from nnet3.components import Component
from nnet3.errors import ArgumentError, ComponentError, NetworkError

if TYPE_CHECKING:
    from nnet3.nnet.network import Nnet

N = TypeVar("N", bound="Nnet")

_PRODUCTS = {"int8": torch.int8, "bfloat16": torch.bfloat16}


def quantized(nnet: N, dtype: torch.dtype | str) -> N:
    """Returns a copy of a network with products of this type; see `Nnet.quantize`."""
    products = _PRODUCTS.get(str(dtype).removeprefix("torch."))
    if products is None:
        raise ArgumentError(f"products can be of {' or '.join(_PRODUCTS)}, got {dtype!r}")
    components = {name: _in_low_precision(name, component, products) for name, component in nnet.components.items()}
    return type(nnet)(nnet.nodes, components, nnet.warnings).to(torch.float32)


def _in_low_precision(name: str, component: Component, products: torch.dtype) -> Component:
    try:
        return component.in_low_precision(products) or component.copy()
    except ComponentError as error:
        raise NetworkError(f"component '{name}': {error}") from None
