"""The modules of PyTorch that networks can be made of, and the way through containers of such modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nnet3.base.text import is_valid_name
from nnet3.errors import ArgumentError, shown
from nnet3.model.nnet.from_torch import layers, recurrent
from nnet3.model.nnet.stack import Stack
from nnet3.model.structure.parts import NetworkParts


class _Known(NamedTuple):
    """A kind of module: the attribute that says how many columns it takes ("" for any), and what adds it."""

    dim: str
    add: Callable[[Stack, str, Any], None]


MODULES: dict[type[nn.Module], _Known] = {
    nn.Linear: _Known("in_features", layers.linear),
    nn.Conv1d: _Known("in_channels", layers.conv1d),
    nn.BatchNorm1d: _Known("num_features", layers.batch_norm),
    nn.LayerNorm: _Known("normalized_shape", layers.layer_norm),
    nn.RMSNorm: _Known("normalized_shape", layers.rms_norm),
    nn.LSTM: _Known("input_size", recurrent.lstm),
    nn.GRU: _Known("input_size", recurrent.gru),
    nn.RNN: _Known("input_size", recurrent.rnn),
    nn.ReLU: _Known("", layers.plain("RectifiedLinearComponent")),
    nn.Sigmoid: _Known("", layers.plain("SigmoidComponent")),
    nn.Tanh: _Known("", layers.plain("TanhComponent")),
    nn.Softmax: _Known("", layers.plain("SoftmaxComponent")),
    nn.LogSoftmax: _Known("", layers.plain("LogSoftmaxComponent")),
    nn.SiLU: _Known("", layers.silu),
    nn.LeakyReLU: _Known("", layers.leaky_relu),
    nn.Dropout: _Known("", layers.dropout),
    nn.Dropout1d: _Known("", layers.dropout),
    nn.Identity: _Known("", layers.identity),
}
_CONTAINERS = (nn.Sequential, nn.ModuleList)


def parts_of(modules: nn.Module | Iterable[nn.Module], input_dim: int | None = None) -> NetworkParts:
    """Returns nodes and components that compute what the modules do in test mode; see `Nnet.from_torch`."""
    flat = list(_flat(modules, ""))
    if not flat:
        raise ArgumentError("Nnet.from_torch needs at least one module, such as nn.Linear(40, 10)")
    kinds = [_kind(path, module) for path, module in flat]
    dims = [_dim(path, module, known) for (path, module), known in zip(flat, kinds, strict=True)]
    dim = next(filter(None, dims), input_dim)
    if dim is None:
        raise ArgumentError("no module says how many columns it takes: give input_dim")
    parameters = [tensor for _, module in flat for tensor in module.state_dict().values()]
    stack = Stack(dim, torch.float64 if any(each.dtype == torch.float64 for each in parameters) else torch.float32)
    if input_dim not in (None, dim):
        raise ArgumentError(f"input_dim is {input_dim}, but the first module that says takes {dim} columns")
    for (path, module), known, taken in zip(flat, kinds, dims, strict=True):
        if taken not in (None, stack.dim):
            raise _error(path, module, f"takes {taken} columns, but those before it give {stack.dim}")
        try:
            known.add(stack, _node_name(path, module), module)
        except ArgumentError as error:
            raise _error(path, module, str(error)) from None
    return stack.parts()


def _error(path: str, module: nn.Module, words: str) -> ArgumentError:
    return ArgumentError(f"module '{path}', {module}, {words}")


def _flat(modules: Any, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yields the modules that are no containers, each with its path, in the order of the data."""
    if isinstance(modules, list | tuple):
        children: Iterable[tuple[str, Any]] = ((str(number), each) for number, each in enumerate(modules))
    elif isinstance(modules, _CONTAINERS) and _own_forward(modules, _CONTAINERS):
        children = modules._modules.items()  # a module that stands here twice is met twice
    elif isinstance(modules, nn.Module):
        yield path or type(modules).__name__.lower(), modules
        return
    else:
        where = f" at '{path}'" if path else ""
        raise ArgumentError(f"Nnet.from_torch takes modules of PyTorch, got {shown(modules)}{where}")
    for name, child in children:
        yield from _flat(child, f"{path}.{name}" if path else name)


def _own_forward(module: nn.Module, types: Iterable[type[nn.Module]]) -> type[nn.Module] | None:
    """Returns the type whose `forward` the module has: a subclass that computes otherwise is not taken for it."""
    mine = type(module).forward
    return next((known for known in types if isinstance(module, known) and known.forward is mine), None)


def _kind(path: str, module: nn.Module) -> _Known:
    known = _own_forward(module, MODULES)
    if known is None:
        names = ", ".join(sorted(each.__name__ for each in MODULES))
        raise ArgumentError(
            f"module '{path}' is a {type(module).__name__}, of which no network can be made; known are {names}, in "
            "nn.Sequential, nn.ModuleList or a list in the order of the data"
        )
    if any(map(is_lazy, module.parameters())):
        raise _error(path, module, "has no parameters before it has seen data")
    if module._forward_hooks or module._forward_pre_hooks:
        raise _error(path, module, "has hooks, which a network cannot call: remove them first")
    return MODULES[known]


def _dim(path: str, module: nn.Module, known: _Known) -> int | None:
    """Returns the number of columns that a module takes, None if it takes any."""
    value = getattr(module, known.dim) if known.dim else None
    if isinstance(value, tuple):
        if len(value) != 1:
            raise _error(path, module, f"normalises over {len(value)} dimensions: a network can over columns only")
        value = value[0]
    return value


def _node_name(path: str, module: nn.Module) -> str:
    """Returns the module's path, behind its type where the path alone is no name of a node."""
    is_free = is_valid_name(path) and path not in ("input", "output")
    return path if is_free else f"{type(module).__name__.lower()}{path}"
