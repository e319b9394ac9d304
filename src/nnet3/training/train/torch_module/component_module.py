"""A component as a `torch.nn.Module`: its parameters and running statistics, under their own names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from nnet3.errors import ArgumentError, NetworkError
from nnet3.model.components.base import Component, Properties
from nnet3.training.train.autograd import uncompiled
from nnet3.training.train.torch_module.memory import check_conversion, moved, with_own_storage
from nnet3.training.train.torch_module.run_component import ComponentRun, RunComponent, rows_of
from nnet3.training.train.torch_module.shared_count import COUNT, SharedCount
from nnet3.training.train.torch_module.views import ComponentView

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ComponentModule(nn.Module):
    """A module that shares its parameters' memory with a component. `align` restores the sharing after a move of
    either.

    Buffers are the component's own tensors: constants, and running statistics (float64 for every dtype of the module).
    `training` is the mode of the component, if the component has modes. A call computes the component on rows
    (..., input_dim), with the parameters that the module has at the moment, whoever gave them.
    """

    component: Component | None
    #: Multiplies running statistics after each forward pass in training.
    statistics_scale: float = 1.0

    def __init__(self, name: str) -> None:
        nn.Module.__init__(self)
        self.component_name = name
        self.component = None
        self._is_part = False  # of a composite
        self.has_moved = False  # some parameter, since somebody last asked
        self.part_names: list[str] = []  # if it is a composite: which modules below are its parts
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

    @property
    def has_running_statistics(self) -> bool:
        return self.component is not None and self.component.has_running_statistics

    @property
    def has_modes(self) -> bool:
        """True if training differs from test."""
        component = self.component
        assert component is not None
        return component.has_running_statistics or bool(component.properties & Properties.RANDOM)

    @property
    def must_be_called(self) -> bool:
        """True if the module computes something else than its component: because of hooks, a parametrization, a
        parameter or a buffer given for a while, a forward of its own, or such a part."""
        return (
            type(self).forward is not ComponentModule.forward
            or "forward" in self.__dict__
            or "parametrizations" in self._modules
            or any(self.__dict__[hooks] for hooks in _HOOKS)
            or any(self._parameters.get(name) is not parameter for name, parameter in self._known.items())
            or any(self._buffers.get(name) is not tensor for name, tensor in self._own.items())
            or not all(map(is_just, self.parts(), getattr(self.component, "parts", ())))
        )

    def parts(self) -> list[nn.Module]:
        """Returns the modules in the places of the parts of a composite."""
        for name in self.part_names:
            if self._modules.get(name) is None:
                raise NetworkError(f"part '{name}' of component '{self.component_name}' was taken away")
        return [cast("nn.Module", self._modules[name]) for name in self.part_names]

    def tensors(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Yields each parameter and its tensor in the component."""
        for name, parameter in self._known.items():
            yield parameter, getattr(self.component, name)

    def tie(self, parameter: nn.Parameter, tensor: Tensor) -> None:
        """Let the component have this very tensor where the module has this parameter."""
        for name, known in self._known.items():
            if known is parameter:
                setattr(self.component, name, tensor)

    # ---- computing ----

    @uncompiled("a component's arithmetic is compiled already")
    def forward(self, x: Tensor) -> Tensor:
        """Returns outputs (..., output_dim) for (..., input_dim); not for components that need their rows' times."""
        parts = self.parts()
        if not parts:
            return self._compute(x)
        component: Any = self.component
        flat = x.reshape(-1, x.shape[-1])
        size = component.max_rows_process if component.max_rows_process > 0 else max(len(flat), 1)
        pieces = []
        for piece in flat.split(size):
            for part in parts:
                piece = part(piece)
            pieces.append(piece)
        return torch.cat(pieces).unflatten(0, x.shape[:-1])

    def _compute(self, x: Tensor) -> Tensor:
        """Returns outputs (..., output_dim) for (..., input_dim), of a component that is no composite.

        Within a program x is the rows that the program has for the component. Raises NetworkError for a component that
        needs the times of its rows and is called from elsewhere.
        """
        component = self.component
        if component is None:
            raise NetworkError(f"the module of component '{self.component_name}' has lost its network")
        if not isinstance(x, Tensor) or x.shape[-1:] != (component.input_dim,):
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ArgumentError(f"component '{self.component_name}' takes (..., {component.input_dim}), got {got}")
        rows, inside = rows_of(self.component_name)
        if not inside and (component.needs_indexes or not component.identity_indexes):
            raise NetworkError(
                f"component '{self.component_name}' ({component.type_name}) needs to know at which times its rows are: "
                "it computes inside the network only"
            )
        tensors, view = (
            self.effective_parameters(),
            ComponentView(component, training={id(component): self.training}, frozen=False),
        )
        view.follow()
        view.view.__dict__.update(self.effective_buffers())
        stores = self.stores_statistics and (rows is None or rows.takes_statistics)
        flat = x.reshape(-1, x.shape[-1])
        run = ComponentRun(
            view.view,
            list(tensors),
            rows.indexes if rows is not None and inside else None,
            rows.num_outputs if rows is not None and inside else len(flat),
            self.fixed_buffers,
            store_forward=partial(self._store, finish=rows is None) if stores and not self._is_part else None,
            store_backward=partial(self._store, finish=False) if stores and self._is_part else None,
        )
        y: Tensor = RunComponent.apply(run, flat, *tensors.values())
        return y if inside and not component.identity_indexes else y.view(*x.shape[:-1], y.shape[-1])

    def _store(self, x: Tensor, y: Tensor, memo: Any, *, finish: bool) -> None:
        """Store statistics of a call; `finish`: of all parts of the component, since no program calls it."""
        with self.statistics() as component:
            component.store_stats(x, y, memo)
        if finish:
            self.finish_statistics()

    def effective_parameters(self) -> dict[str, Tensor]:
        """Returns the component's present tensors by name: its own, or their replacements.

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

    def fixed_buffers(self) -> list[Tensor]:
        """Returns the component's own buffers, except running statistics, changed by forwards."""
        changing = self.component.statistic_names if self.component is not None and self.stores_statistics else ()
        return [tensor for name, tensor in self._own.items() if name not in changing]

    # ---- running statistics ----

    @property
    def stores_statistics(self) -> bool:
        return self.training and self.has_running_statistics

    @contextmanager
    def statistics(self) -> Iterator[Component]:
        """Gives the component to which statistics of a forward are added, on the present buffers."""
        component = self.component
        assert component is not None
        self.align()
        if all(self._buffers.get(name) is tensor for name, tensor in self._own.items()):
            yield component
            self._count.align(component, self._own)
            return
        given = component.shared_copy()
        given.__dict__.update(self.effective_buffers())
        yield given
        count = self._buffers[COUNT]
        assert count is not None
        count.fill_(cast("Any", given).count)

    def finish_statistics(self) -> None:
        """Scale running statistics down after a forward in training."""
        with self.statistics() as component:
            if self.statistics_scale != 1.0:
                component.scale_stats_(self.statistics_scale)

    # ---- keeping module and component in step ----

    def align(self) -> None:
        """Give module and component common memory again after a move of either; note a move.

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
            place, tensor = self._memory[name], getattr(component, name)
            here, there = parameter.data_ptr(), tensor.data_ptr()
            if here == place == there and parameter.dtype == tensor.dtype:
                continue
            if here != place:
                self._check_shape(name, parameter, tensor)
                tensor.data = parameter.data
            else:
                parameter.data = tensor.data
            self._memory[name], self.has_moved = tensor.data_ptr(), True
        if component.has_running_statistics:
            self._count.align(component, self._own)

    def write_back(self) -> None:
        """Give the component the values of parameters and buffers that are not its own memory.

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

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ComponentModule:
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


def is_just(module: nn.Module, component: Component) -> bool:
    """Returns true if a module does what a component does, and nothing else."""
    return isinstance(module, ComponentModule) and module.component is component and not module.must_be_called


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


def component_modules(module: nn.Module) -> Iterator[ComponentModule]:
    """Yields the component modules inside a module, itself included."""
    return (each for each in module.modules() if isinstance(each, ComponentModule))
