"""A component as a `torch.nn.Module`, which computes with the module's parameters at the time of the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from nnet3.errors import ArgumentError, NetworkError
from nnet3.model.components.base import Component, Properties
from nnet3.training.train.autograd import uncompiled
from nnet3.training.train.torch_module.component_function import ComponentCall, ComponentFunction, rows_of
from nnet3.training.train.torch_module.shared_count import COUNT
from nnet3.training.train.torch_module.shared_tensors import SharedTensors
from nnet3.training.train.torch_module.views import ComponentView

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ComponentModule(SharedTensors):
    """A module of a component, with the component's parameters and running statistics.

    `training` is the mode of the component, if the component has modes. A call computes the component on rows
    (..., input_dim), with the parameters that the module has at the moment, whoever gave them.
    """

    #: Multiplies running statistics after each forward pass in training.
    statistics_scale: float = 1.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.part_names: list[str] = []  # if it is a composite: which modules below are its parts

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
        """Returns the modules that stand for the parts of a composite."""
        for name in self.part_names:
            if self._modules.get(name) is None:
                raise NetworkError(f"part '{name}' of component '{self.component_name}' was taken away")
        return [cast("nn.Module", self._modules[name]) for name in self.part_names]

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
            ComponentView(component, training={id(component): self.training}),
        )
        view.follow()
        view.view.__dict__.update(self.effective_buffers())
        stores = self.stores_statistics and (rows is None or rows.takes_statistics)
        flat = x.reshape(-1, x.shape[-1])
        run = ComponentCall(
            view.view,
            list(tensors),
            rows.indexes if rows is not None and inside else None,
            rows.num_outputs if rows is not None and inside else len(flat),
            self.fixed_buffers,
            store_forward=partial(self._store, finish=rows is None) if stores and not self._is_part else None,
            store_backward=partial(self._store, finish=False) if stores and self._is_part else None,
        )
        y: Tensor = ComponentFunction.apply(run, flat, *tensors.values())
        return y if inside and not component.identity_indexes else y.view(*x.shape[:-1], y.shape[-1])

    def _store(self, x: Tensor, y: Tensor, memo: Any, *, finish: bool) -> None:
        """Stores statistics of a call; `finish`: of all parts of the component, since no program calls it."""
        with self.statistics() as component:
            component.store_stats(x, y, memo)
        if finish:
            self.finish_statistics()

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
        """Scales running statistics down after a forward in training."""
        with self.statistics() as component:
            if self.statistics_scale != 1.0:
                component.scale_stats_(self.statistics_scale)


def is_just(module: nn.Module, component: Component) -> bool:
    """Returns true if a module does what a component does, and nothing else."""
    return isinstance(module, ComponentModule) and module.component is component and not module.must_be_called


def component_modules(module: nn.Module) -> Iterator[ComponentModule]:
    """Yields the component modules inside a module, itself included."""
    return (each for each in module.modules() if isinstance(each, ComponentModule))
