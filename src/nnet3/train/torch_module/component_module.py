"""One component as a `torch.nn.Module`: its parameters and running statistics, under their own names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nnet3.components import Component, Properties
from nnet3.errors import NetworkError

_COUNT = "count"


class ComponentModule(nn.Module):
    """Parameters share the memory of the component's tensors; `align` makes it so again when either has got other.

    Buffers are the component's own tensors: constants, and running statistics (float64 whatever the module's dtype).
    `training` says whether the component is in training mode, if it has one.
    """

    _count_seen: int  # the version of the buffer of the count, and the count, when both last agreed
    _count: float

    def __init__(self, name: str) -> None:
        super().__init__()
        self.component_name = name
        self.component: Component | None = None
        self._memory: dict[str, int] = {}  # where the parameters were when component and module last agreed

    def attach(self, component: Component, parameters: dict[int, nn.Parameter]) -> None:
        """Become the module of a component; `parameters` has those of tensors that occurred before, by their id.

        Whether parameters require grad stays as it is.
        """
        self.component = component
        wants = {name: bool(getattr(found, "requires_grad", found)) for name, found in self._parameters.items()}
        self._parameters.clear()
        self._buffers.clear()
        if not has_parts(component):
            self._attach_tensors(component, parameters, wants)

    def _attach_tensors(
        self, component: Component, parameters: dict[int, nn.Parameter], wants: dict[str, bool]
    ) -> None:
        trained = component.parameters()
        for name in component.parameter_names:
            tensor = getattr(component, name)
            if name not in trained:
                self.register_buffer(name, tensor)
            elif tensor.numel():
                if id(tensor) not in parameters:
                    parameters[id(tensor)] = nn.Parameter(tensor, wants.get(name, True))
                self.register_parameter(name, parameters[id(tensor)])
                self._memory[name] = tensor.data_ptr()
        for name in component.constant_names:
            self.register_buffer(name, getattr(component, name), persistent=not name.startswith("_"))
        if component.has_running_statistics:
            for name in component.statistic_names:
                value = getattr(component, name)
                self.register_buffer(
                    name, value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
                )
            self._note_count()

    @property
    def has_running_statistics(self) -> bool:
        component = self.component
        assert component is not None
        return component.has_running_statistics

    @property
    def has_modes(self) -> bool:
        """Whether training differs from test."""
        component = self.component
        assert component is not None
        return component.has_running_statistics or bool(component.properties & Properties.RANDOM)

    def tensors(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter, and the tensor of the component that it is."""
        for name in self._memory:
            parameter = self._parameters[name]
            assert parameter is not None
            yield parameter, getattr(self.component, name)

    # ---- keeping module and component in step ----

    def align(self) -> None:
        """Let module and component have the same memory again, wherever either has moved to.

        Raises NetworkError for a parameter that was replaced by something else.
        """
        component = self.component
        assert component is not None
        for name, place in self._memory.items():
            parameter, tensor = self._parameters.get(name), getattr(component, name)
            if parameter is None or not isinstance(parameter, nn.Parameter):
                raise NetworkError(
                    f"parameter '{name}' of component '{self.component_name}' was replaced by something that is no "
                    "parameter: a TorchModule's parameters are its network's; change them in place"
                )
            here, there = parameter.data_ptr(), tensor.data_ptr()
            if here == place == there and parameter.dtype == tensor.dtype:
                continue
            if here != place:
                self._check_replacement(name, parameter, tensor)
                tensor.data = parameter.data
            else:
                parameter.data = tensor.data
            self._memory[name] = tensor.data_ptr()
        if component.has_running_statistics:
            self._align_count(component)

    def _check_replacement(self, name: str, parameter: nn.Parameter, tensor: Tensor) -> None:
        if parameter.shape != tensor.shape:
            raise NetworkError(
                f"parameter '{name}' of component '{self.component_name}' was replaced by one of shape "
                f"{tuple(parameter.shape)}, but the component has {tuple(tensor.shape)}"
            )

    def _align_count(self, component: Any) -> None:
        """The count is a number in the component and a buffer here; who has changed it is right."""
        count = self._buffers[_COUNT]
        assert count is not None
        if count._version != self._count_seen:
            component.count = count.item()
        elif component.count != self._count:
            count.fill_(component.count)
        self._note_count()

    def _note_count(self) -> None:
        count, component = self._buffers[_COUNT], self.component
        assert count is not None
        assert component is not None
        self._count_seen, self._count = count._version, float(getattr(component, _COUNT))

    # ---- what PyTorch calls ----

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ComponentModule:
        buffers = self._buffers.copy()
        self._buffers.clear()
        super()._apply(fn, recurse)
        self._buffers.update(buffers)
        component = self.component
        for name, buffer in buffers.items():
            assert buffer is not None
            assert component is not None
            buffer.data = _moved(fn, buffer.data) if name in component.statistic_names else fn(buffer.data)
        if component is not None:
            self.align()
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.align()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        before = dict(self._buffers)
        super()._load_from_state_dict(*arguments)
        for name, buffer in before.items():
            loaded = self._buffers[name]
            assert buffer is not None
            assert loaded is not None
            if loaded is not buffer:  # with assign=True
                buffer.data = loaded.data.to(buffer.dtype)
                self._buffers[name] = buffer
                self._count_seen = -1
        self.align()

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which the network has; `attach` brings them back."""
        wants = {name: parameter.requires_grad for name, parameter in self._parameters.items() if parameter is not None}
        return {**self.__dict__, "component": None, "_parameters": wants, "_buffers": {}, "_memory": {}}

    def extra_repr(self) -> str:
        return repr(self.component)


def _moved(fn: Callable[[Tensor], Tensor], statistics: Tensor) -> Tensor:
    """What `fn` does to numbers that are no floats: it moves them, but leaves their type."""
    return fn(statistics.view(torch.int64)).view(torch.float64)


def has_parts(component: Component) -> bool:
    """Whether it is made of other components, which then have the tensors."""
    return bool(getattr(component, "parts", ()))


def component_modules(module: nn.Module) -> Iterator[ComponentModule]:
    """Those inside a module, itself included."""
    return (each for each in module.modules() if isinstance(each, ComponentModule))
