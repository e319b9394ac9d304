"""The components of a network as a tree of modules: "tdnn1.affine" is `module.tdnn1.affine`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.training.train.torch_module.batch_norm_module import BatchNormModule
from nnet3.training.train.torch_module.component_module import ComponentModule
from nnet3.training.train.torch_module.memory import check_conversion

#: The path of a module below the root: a name for each level.
ModulePath = tuple[str, ...]


def _warns_of_hook(name: str) -> Callable[..., Any]:
    """Returns PyTorch's method of this name, with a warning that the hook never fires."""

    def register(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "a hook on a part of a TorchModule that is only a folder of components never fires: register it on the "
            f"components themselves ({', '.join(self._modules)})",
            RuntimeWarning,
            stacklevel=2,
        )
        return getattr(nn.Module, name)(self, *args, **kwargs)

    return register


class Folder(nn.Module):
    """Holds components whose names begin alike. Computes nothing."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Folder:
        check_conversion(fn)
        super()._apply(fn, recurse)
        return self

    register_forward_hook = _warns_of_hook("register_forward_hook")
    register_forward_pre_hook = _warns_of_hook("register_forward_pre_hook")
    register_full_backward_hook = _warns_of_hook("register_full_backward_hook")
    register_full_backward_pre_hook = _warns_of_hook("register_full_backward_pre_hook")


def grow(root: nn.Module, components: Mapping[str, Component]) -> dict[str, ModulePath]:
    """Adds a ComponentModule for each component, and for each part of a composite ("component1" ...), below the root.

    Returns the modules' paths. Name parts with another use in a module, such as "forward", get an underscore behind.
    """
    tied: dict[int, nn.Parameter] = {}
    paths: dict[str, ModulePath] = {}
    _grow(root, (), components, tied, paths, prefix="")
    return paths


def _grow(
    root: nn.Module,
    path: ModulePath,
    components: Mapping[str, Component],
    tied: dict[int, nn.Parameter],
    paths: dict[str, ModulePath],
    prefix: str,
) -> None:
    for name, component in components.items():
        parent, own_path = root, path
        *folders, last = name.split(".")
        for folder in folders:
            key = _child(parent, folder)
            parent, own_path = parent._modules[key], (*own_path, key)  # type: ignore[assignment]
        module = (BatchNormModule if component.has_running_statistics else ComponentModule)(prefix + name)
        key = _set_child(parent, last, module)
        paths[prefix + name] = (*own_path, key)
        module.attach(component, tied, is_part=bool(prefix))
        _grow(module, paths[prefix + name], parts_of(component), tied, paths, f"{prefix}{name}.")
        module.part_names = [paths[f"{prefix}{name}.{part}"][-1] for part in parts_of(component)]


def parts_of(component: Component) -> dict[str, Component]:
    """Returns the parts of a composite by the names that they have here."""
    return {f"component{number}": part for number, part in enumerate(getattr(component, "parts", ()), start=1)}


def flat_components(components: Mapping[str, Component], prefix: str = "") -> Iterator[tuple[str, Component]]:
    """Yields all components and the parts of composites, as "name.component1", by name."""
    for name, component in components.items():
        yield prefix + name, component
        yield from flat_components(parts_of(component), f"{prefix}{name}.")


def tied_parameters(components: Mapping[str, Component]) -> list[list[tuple[str, str]]]:
    """Returns groups of parameters with a common tensor; a parameter is a component's name and its own."""
    groups: dict[int, list[tuple[str, str]]] = {}
    for name, component in flat_components(components):
        if not parts_of(component):
            for key, tensor in component.parameters().items():
                groups.setdefault(id(tensor), []).append((name, key))
    return [group for group in groups.values() if len(group) > 1]


def module_at(root: nn.Module, path: ModulePath) -> nn.Module:
    """Returns the module at a path. Raises NetworkError if there is none."""
    module: nn.Module | None = root
    for number, key in enumerate(path):
        module = module._modules.get(key) if module is not None else None
        if module is None:
            raise NetworkError(
                f"module.{'.'.join(path)} is not there any more, since module.{'.'.join(path[: number + 1])} was taken "
                "away or replaced: what takes its place must have its name"
            )
    assert module is not None
    return module


def _child(parent: nn.Module, name: str) -> str:
    """Returns the key of the module of this name below another; makes a folder if there is none."""
    name = name or "_"
    while name not in parent._modules and _is_taken(parent, name):
        name += "_"
    if name not in parent._modules:
        parent.add_module(name, Folder())
    return name


def _set_child(parent: nn.Module, name: str, module: ComponentModule) -> str:
    """Puts a module under a name; the children of a folder of the name become the module's own."""
    name = name or "_"
    while isinstance(parent._modules.get(name), ComponentModule) or (
        name not in parent._modules and _is_taken(parent, name)
    ):
        name += "_"
    folder = parent._modules.get(name)
    if folder is not None:
        module._modules.update(folder._modules)
    parent._modules[name] = module
    return name


def _is_taken(module: nn.Module, name: str) -> bool:
    """Returns true if a module has another use for a name. Properties are looked up in the class, not asked."""
    return hasattr(type(module), name) or hasattr(module, name)
