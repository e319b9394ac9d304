"""The parameters and running statistics of a component as those of a `torch.nn.Module`, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.training.train.torch_module.memory import check_conversion, moved, with_own_storage
from nnet3.training.train.torch_module.shared_count import COUNT, SharedCount


class SharedTensors(nn.Module):
    """A module that shares its parameters' memory with a component. `align` restores the sharing after a move of
    either.

    Buffers are the component's own tensors: constants, and running statistics (float64 for every dtype of the module).
    """

    component: Component | None

    def __init__(self, name: str) -> None:
        nn.Module.__init__(self)
        self.component_name = name
        self.component = None
        self._is_part = False  # of a composite
        self.has_moved = False  # some parameter, since somebody last asked
        self._memory: dict[str, int] = {}  # where the parameters were when component and module last agreed
        self._known: dict[str, nn.Parameter] = {}  # the parameters that share the component's memory
        self._own: dict[str, Tensor] = {}  # the buffers that are the component's
        self._count = SharedCount()

    def attach(self, component: Component, parameters: dict[int, nn.Parameter], *, is_part: bool = False) -> None:
        """Become the module of a component; `parameters` has the parameters of tensors met before, by a tensor's id.

        In a copy, parameters of other names stay unchanged, and so does every `requires_grad`; tensors taken away by a
        parametrization stay away.
        """
        if self.component is None:
            self._is_part = is_part
            self._make_tensors(component, parameters)
        else:
            self._take_over(component, parameters)
        self.component = component
        if component.has_running_statistics:
            self._count.note(component, self._own)

    def _make_tensors(self, component: Component, parameters: dict[int, nn.Parameter]) -> None:
        for name, tensor in _trained(component).items():
            self._know(name, parameters.setdefault(id(tensor), nn.Parameter(tensor)), tensor)
        for name, tensor in _untrained(component).items():
            self.register_buffer(name, tensor, persistent=not name.startswith("_"))
            self._own[name] = tensor

    def _take_over(self, component: Component, parameters: dict[int, nn.Parameter]) -> None:
        for name, tensor in _trained(component).items():
            mine: Any = self._parameters.get(name)
            if mine is not None:
                parameter = nn.Parameter(tensor, bool(getattr(mine, "requires_grad", mine)))
                self._know(name, parameters.setdefault(id(tensor), parameter), tensor)
        for name, tensor in _untrained(component).items():
            if name in self._own and self._buffers.get(name) is self._own[name]:
                self._buffers[name] = self._own[name] = tensor

    def _know(self, name: str, parameter: nn.Parameter, tensor: Tensor) -> None:
        self._parameters[name] = self._known[name] = parameter
        self._memory[name] = tensor.data_ptr()

    def tensors(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Yields each parameter and its tensor in the component."""
        for name, parameter in self._known.items():
            yield parameter, getattr(self.component, name)

    def tie(self, parameter: nn.Parameter, tensor: Tensor) -> None:
        """Lets the component have this very tensor where the module has this parameter."""
        for name, known in self._known.items():
            if known is parameter:
                setattr(self.component, name, tensor)

    def effective_parameters(self) -> dict[str, Tensor]:
        """Returns the component's present tensors by name, replacements in place of replaced tensors.

        Raises NetworkError for a tensor that is missing or does not fit.
        """
        found = {}
        for name in self._memory:
            tensor = getattr(self, name, None)
            if not isinstance(tensor, Tensor):
                raise NetworkError(
                    f"parameter '{name}' of component '{self.component_name}' was replaced by something that is no "
                    "tensor: a TorchModule's parameters are its network's; change them in place"
                )
            self._check_replacement(name, tensor, getattr(self.component, name))
            found[name] = tensor
        return found

    def effective_buffers(self) -> dict[str, Any]:
        """Returns the constants and running statistics that the component computes with now."""
        buffers = {name: getattr(self, name) for name in self._own}
        return {name: float(value) if name == COUNT else value for name, value in buffers.items()}

    def _check_replacement(self, name: str, given: Tensor, tensor: Tensor) -> None:
        self._check_shape(name, given, tensor)
        if (given.dtype, given.device) != (tensor.dtype, tensor.device):
            raise NetworkError(
                f"{self._replaced(name)} in {given.dtype} on {given.device}, but the component computes in "
                f"{tensor.dtype} on {tensor.device}: convert one of them with .to(...)"
            )

    def _check_shape(self, name: str, given: Tensor, tensor: Tensor) -> None:
        if given.shape != tensor.shape:
            raise NetworkError(
                f"{self._replaced(name)} of shape {tuple(given.shape)}, but the component has {tuple(tensor.shape)}"
            )

    def _replaced(self, name: str) -> str:
        return f"parameter '{name}' of component '{self.component_name}' was replaced by one"

    # ---- keeping module and component in step ----

    def align(self) -> None:
        """Gives module and component common memory again after a move of either; notes a move.

        Parameters given for a while or made of other parameters are left alone. Raises NetworkError for a parameter
        that does not fit.
        """
        component = self.component
        assert component is not None
        for name in [name for name in self._known if name not in self._parameters]:
            # A parametrization has taken it, and goes on using its memory.
            del self._known[name]
            setattr(component, name, getattr(component, name).clone())
            self.has_moved = True
        for name, parameter in self._known.items():
            address, tensor = self._memory[name], getattr(component, name)
            here, there = parameter.data_ptr(), tensor.data_ptr()
            if here == address == there and parameter.dtype == tensor.dtype:
                continue
            if here != address:
                self._check_shape(name, parameter, tensor)
                tensor.data = parameter.data
            else:
                parameter.data = tensor.data
            self._memory[name], self.has_moved = tensor.data_ptr(), True
        if component.has_running_statistics:
            self._count.align(component, self._own)

    def write_back(self) -> None:
        """Gives the component the values of parameters and buffers that are not its own memory.

        Raises NetworkError for parameters that a hook makes when the module is called.
        """
        component = self.component
        assert component is not None
        with torch.no_grad():
            for name, tensor in self.effective_parameters().items():
                if tensor is self._known.get(name):
                    continue
                if name not in getattr(self, "parametrizations", {}):
                    raise NetworkError(
                        f"parameter '{name}' of component '{self.component_name}' is made anew by a hook whenever the "
                        "module is called: take that back first (torch.nn.utils.remove_weight_norm), or use "
                        "torch.nn.utils.parametrizations"
                    )
                getattr(component, name).copy_(tensor)
            for name, own in self._own.items():
                buffer = self._buffers.get(name)
                if buffer is not None and buffer is not own:
                    own.copy_(buffer)
                    self._buffers[name] = own
        if component.has_running_statistics:
            self._count.align(component, self._own)

    # ---- what PyTorch calls ----

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """A parameter in the place of one of the component's becomes the component's own."""
        tensor = getattr(self.component, name) if name in self.__dict__.get("_memory", ()) else None
        if tensor is not None:
            if not isinstance(param, nn.Parameter):
                raise NetworkError(
                    f"parameter '{name}' of component '{self.component_name}' cannot be taken away: the component "
                    "computes with it"
                )
            self._check_shape(name, param, tensor)
        super().register_parameter(name, param)
        if tensor is not None and param is not None:
            self._adopt(name, param)

    def _adopt(self, name: str, parameter: nn.Parameter) -> None:
        setattr(self.component, name, parameter.detach())
        self._known[name], self._memory[name] = parameter, 0

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SharedTensors:
        check_conversion(fn)
        if self.component is not None:
            self.align()
        buffers = self._buffers.copy()
        self._buffers.clear()
        super()._apply(fn, recurse)
        self._buffers.update(buffers)
        component = self.component
        for name, buffer in buffers.items():
            if buffer is not None:
                is_statistic = component is not None and name in component.statistic_names
                buffer.data = moved(fn, buffer.data) if is_statistic else fn(buffer.data)
        for name in self._memory.keys() - self._known.keys():  # what a parametrization stands for
            tensor = getattr(component, name)
            tensor.data = fn(tensor.data)
        for name, known in self._known.items():
            parameter = self._parameters[name]
            if parameter is not known and parameter is not None:  # torch.__future__.set_overwrite_module_params_...
                self._adopt(name, parameter)
        if component is not None:
            self.align()
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.align()
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._known:
            if not keep_vars and prefix + name in destination:
                destination[prefix + name] = with_own_storage(destination[prefix + name])

    def _load_from_state_dict(self, *arguments: Any) -> None:
        before = dict(self._buffers)
        super()._load_from_state_dict(*arguments)
        for name, buffer in before.items():
            loaded = self._buffers[name]
            if loaded is not buffer and buffer is not None and loaded is not None:  # with assign=True
                buffer.data = loaded.data.to(buffer.dtype)
                self._buffers[name] = buffer
                self._count.buffer_has_changed()
        self.align()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the component's tensors; `attach` brings them back."""
        known, own = self._known, self._own
        wants = {name: p.requires_grad for name, p in known.items() if p is self._parameters.get(name)}
        return {
            **self.__dict__,
            "_parameters": {**self._parameters, **wants},
            "_buffers": {name: None if b is own.get(name) else b for name, b in self._buffers.items()},
            "_known": {},
            "_count": SharedCount(),
            "_own": dict.fromkeys(own),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.component is not None:
            self.attach(self.component, {})

    def extra_repr(self) -> str:
        return repr(self.component)


def _trained(component: Component) -> dict[str, Tensor]:
    """Returns parameters that have elements, without the parameters of parts."""
    if has_parts(component):
        return {}
    return {name: tensor for name, tensor in component.parameters().items() if tensor.numel()}


def _untrained(component: Component) -> dict[str, Tensor]:
    """Returns parameters that are not trained, constants, and running statistics."""
    if has_parts(component):
        return {}
    trained = component.parameters()
    names = [name for name in component.parameter_names if name not in trained] + list(component.constant_names)
    if component.has_running_statistics:
        names += component.statistic_names
    values = {name: getattr(component, name) for name in names}
    return {
        name: value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        for name, value in values.items()
    }


def has_parts(component: Component) -> bool:
    """Returns true if the component is made of other components, the owners of the tensors."""
    return bool(getattr(component, "parts", ()))
