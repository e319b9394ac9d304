"""Runs one component on rows as an operation of autograd: the call of a component's module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nnet3.model.components.base import Component
from nnet3.training.train.autograd import BackwardOnly, Gradients, only_once
from nnet3.training.train.torch_module.memory import Witness
from nnet3.training.train.torch_module.views import as_gradient


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
    """Marks calls of component modules inside the `with` block as calls by a program, with these rows."""
    token = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


def rows_of(component_name: str) -> tuple[Rows | None, bool]:
    """Returns the rows of the running program, None without one, and whether it calls the component's module."""
    rows = _ROWS.get()
    return rows, rows is not None and rows.component_name == component_name


@dataclass
class ComponentCall:
    """A call of a module: `view` is the component with the module's present tensors.

    `names` are the parameters' names, in the order of the given tensors. `store` is given input, output and memo, to
    store their statistics: in the forward pass, or in the backward pass.
    """

    view: Component
    names: Sequence[str]
    indexes: Any
    num_outputs: int
    fixed_buffers: Callable[[], list[Tensor]]
    store_forward: Callable[[Tensor, Tensor, Any], None] | None
    store_backward: Callable[[Tensor, Tensor, Any], None] | None
    memo: Any = None
    _witness: Witness = field(init=False)

    def forward(self, x: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        self._set(self.view, tensors)
        y = x.new_empty(self.num_outputs, self.view.output_dim)
        self.memo = self.view.forward(x, y, self.indexes)
        if self.store_forward is not None:
            self.store_forward(x, y, self.memo)
        self._witness = Witness(self.fixed_buffers())
        return y

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, tensors: Sequence[Tensor], *, of_x: bool, of_tensors: bool
    ) -> Gradients:
        self._witness.check("the statistics or constants of a component")
        self._set(self.view, tensors)
        if self.store_backward is not None:
            self.store_backward(x, y, self.memo)
            self.store_backward = None
        x_deriv, target = torch.empty_like(x) if of_x else None, None
        if of_tensors:
            target = as_gradient(self.view)
            self._set(target, [torch.zeros_like(tensor) for tensor in tensors])
        self.view.backward(x, y, y_deriv.contiguous(), self.memo, target, x_deriv, self.indexes)
        gradients = [None if target is None else getattr(target, name) for name in self.names]
        return x_deriv, *gradients

    def _set(self, component: Component, tensors: Sequence[Tensor]) -> None:
        component.__dict__.update(zip(self.names, tensors, strict=True))


class ComponentFunction(BackwardOnly, torch.autograd.Function):
    """Maps rows of input and the tensors of the parameters to rows of output."""

    @staticmethod
    def forward(run: ComponentCall, x: Tensor, *tensors: Tensor) -> Tensor:
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
