"""The components of a network as a tree of modules: "tdnn1.affine" is `module.tdnn1.affine`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from nnet3.components import Component
from nnet3.train.torch_module.component_module import ComponentModule


def grow(root: nn.Module, components: Mapping[str, Component]) -> None:
    """Add a ComponentModule for each component, and for each part of a composite ("component1" ...), below the root.

    A part of a name that a module has another use for, such as "forward", gets an underscore at its end.
    """
    tied: dict[int, nn.Parameter] = {}
    for name, component in flat_components(components):
        parent = root
        *folders, last = name.split(".")
        for folder in folders:
            parent = _child(parent, folder)
        module = ComponentModule(name)
        _set_child(parent, last, module)
        module.attach(component, tied)


def flat_components(components: Mapping[str, Component], prefix: str = "") -> Iterator[tuple[str, Component]]:
    """All components and the parts of composites, as "name.component1", by name."""
    for name, component in components.items():
        yield prefix + name, component
        parts = {f"component{number}": part for number, part in enumerate(getattr(component, "parts", ()), start=1)}
        yield from flat_components(parts, f"{prefix}{name}.")


def _child(parent: nn.Module, name: str) -> nn.Module:
    """The module of this name below another, made if there is none."""
    name = name or "_"
    while name not in parent._modules and _is_taken(parent, name):
        name += "_"
    if name not in parent._modules:
        parent.add_module(name, nn.Module())
    child = parent._modules[name]
    assert child is not None
    return child


def _set_child(parent: nn.Module, name: str, module: ComponentModule) -> None:
    """Put a module there; children that a folder of this name has got already become its own."""
    name = name or "_"
    while isinstance(parent._modules.get(name), ComponentModule) or (
        name not in parent._modules and _is_taken(parent, name)
    ):
        name += "_"
    folder = parent._modules.get(name)
    if folder is not None:
        module._modules.update(folder._modules)
    parent._modules[name] = module


def _is_taken(module: nn.Module, name: str) -> bool:
    """Whether a module has another use for a name; of a property by its class, without asking for its value."""
    return hasattr(type(module), name) or hasattr(module, name)
