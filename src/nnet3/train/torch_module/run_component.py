"""Runs one component on rows as an operation of autograd: the call of a component's module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components import Component
from nnet3.errors import ArgumentError, NetworkError
from nnet3.train.autograd import BackwardOnly, Gradients, only_once
from nnet3.train.torch_module.memory import Witness
from nnet3.train.torch_module.views import ComponentView, as_gradient

if TYPE_CHECKING:
    from nnet3.train.torch_module.component_module import ComponentModule


@dataclass(frozen=True)
class Rows:
    """The rows that a program calls a module with."""

    component_name: str
    indexes: Any
    num_outputs: int
    takes_statistics: bool


_ROWS: ContextVar[Rows | None] = ContextVar("rows of a program", default=None)


@contextmanager
def within_a_program(rows: Rows) -> Iterator[None]:
    """Tells modules of components, inside the `with` block, that a program calls them, and with which rows."""
    token = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


@dataclass
class ComponentRun:
    """A call of a module: the component with the module's present tensors.

    `names` are its parameters' names, in the order of the given tensors; `buffers` everything else.
    """

    module: ComponentModule
    names: Sequence[str]
    buffers: dict[str, Any]
    indexes: Any
    num_outputs: int
    is_alone: bool  # not called by a program
    stores_forward: bool
    stores_backward: bool
    view: Component = field(init=False)
    memo: Any = None
    _witness: Witness = field(init=False)

    def forward(self, x: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        component = self.module.component
        assert component is not None
        view = ComponentView(component, training={id(component): self.module.training}, frozen=False)
        view.follow()
        self.view = view.view
        self.view.__dict__.update(self.buffers)
        self._set(self.view, tensors)
        y = x.new_empty(self.num_outputs, self.view.output_dim)
        self.memo = self.view.forward(x, y, self.indexes)
        if self.stores_forward:
            self._store(x, y)
            if self.is_alone:
                self.module.finish_statistics()
        self._witness = Witness(self.module.fixed_buffers())
        return y

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, tensors: Sequence[Tensor], *, of_x: bool, of_tensors: bool
    ) -> Gradients:
        self._witness.check("the statistics or constants of a component")
        self._set(self.view, tensors)
        if self.stores_backward:
            self.stores_backward = False
            self._store(x, y)
        x_deriv, target = torch.empty_like(x) if of_x else None, None
        if of_tensors:
            target = as_gradient(self.view)
            self._set(target, [torch.zeros_like(tensor) for tensor in tensors])
        self.view.backward(x, y, y_deriv.contiguous(), self.memo, target, x_deriv, self.indexes)
        gradients = [None if target is None else getattr(target, name) for name in self.names]
        return x_deriv, *gradients

    def _set(self, component: Component, tensors: Sequence[Tensor]) -> None:
        component.__dict__.update(zip(self.names, tensors, strict=True))

    def _store(self, x: Tensor, y: Tensor) -> None:
        with self.module.statistics() as component:
            component.store_stats(x, y, self.memo)


class RunComponent(BackwardOnly, torch.autograd.Function):
    """Maps rows of input and the tensors of the parameters to rows of output."""

    @staticmethod
    def forward(run: ComponentRun, x: Tensor, *tensors: Tensor) -> Tensor:
        return run.forward(x, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.run, *tensors = inputs
        ctx.save_for_backward(output, *tensors)

    @staticmethod
    def backward(ctx: Any, y_deriv: Tensor) -> Gradients:
        run, of_x, of_tensors = ctx.run, ctx.needs_input_grad[1], any(ctx.needs_input_grad[2:])

        def compute(given: Sequence[Any]) -> Gradients:
            y_deriv, y, x, *tensors = given
            return run.backward(x, y, y_deriv, tensors, of_x=of_x, of_tensors=of_tensors)

        return None, *only_once(compute, "a component", (y_deriv, *ctx.saved_tensors))


def call_component(module: ComponentModule, x: Tensor, *, is_part: bool) -> Tensor:
    """Returns outputs (..., output_dim) for (..., input_dim), of a component that is no composite.

    Within a program x is the rows that the program has for the component. Raises NetworkError for a component that
    needs the times of its rows and is called from elsewhere.
    """
    component = module.component
    if component is None:
        raise NetworkError(f"the module of component '{module.component_name}' has lost its network")
    if not isinstance(x, Tensor) or x.shape[-1:] != (component.input_dim,):
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(f"component '{module.component_name}' takes (..., {component.input_dim}), got {got}")
    rows = _ROWS.get()
    inside = rows is not None and rows.component_name == module.component_name
    if not inside and (component.needs_indexes or not component.identity_indexes):
        raise NetworkError(
            f"component '{module.component_name}' ({component.type_name}) needs to know at which times its rows are: "
            "it computes inside the network only"
        )
    tensors = module.effective_parameters()
    stores = module.stores_statistics and (rows is None or rows.takes_statistics)
    flat = x.reshape(-1, x.shape[-1])
    run = ComponentRun(
        module,
        list(tensors),
        module.effective_buffers(),
        rows.indexes if rows is not None and inside else None,
        rows.num_outputs if rows is not None and inside else len(flat),
        is_alone=rows is None,
        stores_forward=stores and not is_part,
        stores_backward=stores and is_part,
    )
    y: Tensor = RunComponent.apply(run, flat, *tensors.values())
    return y if inside and not component.identity_indexes else y.view(*x.shape[:-1], y.shape[-1])
