"""From modules to the network: what parametrized or replaced modules compute with, as parameters of components."""

from __future__ import annotations

import torch
from torch import nn

from nnet3.components import Component
from nnet3.errors import NetworkError
from nnet3.train.torch_module.component_module import ComponentModule


def write_back(module: nn.Module, name: str, component: Component) -> None:
    """Let a component have the parameters that the module in its place computes with now.

    Raises NetworkError if no parameters make the component do the same.
    """
    if isinstance(module, ComponentModule) and module.component is component:
        module.write_back()
        for number, part in enumerate(module.parts()):
            write_back(part, f"{name}.{module.part_names[number]}", component.parts[number])  # type: ignore[attr-defined]
        return
    own = component.parameters()
    plain = module if component.is_affine and type(module) is nn.Linear else None
    if plain is None or plain.weight.shape != own["linear_params"].shape:
        raise NetworkError(
            f"the network has component '{name}' ({component.type_name}), but in its place the module computes with "
            f"{type(module).__name__}, which no network has: put the component's own module back, with parameters that "
            "do the same, or edit the network. What the module was made of is as it was"
        )
    with torch.no_grad():
        own["linear_params"].copy_(plain.weight)
        own["bias_params"].zero_() if plain.bias is None else own["bias_params"].copy_(plain.bias)
