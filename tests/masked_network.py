"""The backward pass one row at a time, with derivatives of rows outside a range of times set to zero: an oracle.

Values go forward as objects that PyTorch can differentiate; a row whose time is outside is detached, at every node and
at what goes into every component.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import nnet3
from nnet3.model.structure.nodes import ComponentNode
from tests.slow_descriptor import Cindex
from tests.slow_network import SlowNetwork


class MaskedNetwork(SlowNetwork):
    """A `SlowNetwork` (same arguments) that can also go backward: `gradients`."""

    def gradients(
        self, request: nnet3.ComputationRequest, derivs: dict[str, np.ndarray], times: tuple[int, int]
    ) -> dict[str, Tensor]:
        """Input derivatives (`deriv of NAME`) and gradients (`COMPONENT.PARAMETER`); `times`: first and last t."""
        self.first, self.last = times
        self.gradient = self.nnet.gradient_copy()
        self.anchor = torch.zeros((), dtype=torch.float64, requires_grad=True)  # what all that learns depends on
        given = {cindex: torch.from_numpy(row).clone().requires_grad_() for cindex, row in self.rows.items()}
        self.rows = {cindex: self._masked(cindex, _objects(row)) for cindex, row in given.items()}
        total = self.anchor * 0.0
        for io in request.outputs:
            if io.has_deriv:
                for index, deriv in zip(io.indexes.tolist(), derivs[io.name], strict=True):
                    total = total + _tensor(self.row((io.name, tuple(index)))) @ torch.from_numpy(deriv)
        total.backward()
        result = {}
        for io in request.inputs:
            if io.has_deriv:
                rows = [given[io.name, tuple(index)] for index in io.indexes.tolist()]
                found = [torch.zeros_like(row) if row.grad is None else row.grad for row in rows]
                result[f"deriv of {io.name}"] = torch.stack(found)
        for name, component in self.gradient.components.items():
            result.update({f"{name}.{key}": tensor for key, tensor in component.parameters().items()})
        return result

    def row(self, cindex: Cindex) -> np.ndarray:
        if cindex not in self.rows:
            self.rows[cindex] = self._masked(cindex, self._compute(cindex))
        return self.rows[cindex]

    def _masked(self, cindex: Cindex, row: np.ndarray) -> np.ndarray:
        if self.first <= cindex[1][1] <= self.last:
            return row
        return _objects(_tensor(row).detach())

    def _component(self, cindex: Cindex) -> np.ndarray:
        name, index = cindex
        node = self.nnet.node(name)
        assert isinstance(node, ComponentNode)
        component = self.nnet.component_of(node)
        line = self.graph.net.component_line(name)
        kind = line.string("type").removesuffix("Component")
        wanted = [(f"{name}_input", source) for source in self.graph.net.component_wants(name, index)[0]]
        inputs = torch.stack([_tensor(self.row(source)) for source in wanted if source in self.graph.computable])
        if kind == "Distribute":
            blocks = inputs[0].reshape(-1, component.output_dim)
            return _objects(blocks[index[2] % len(blocks)])
        if kind == "StatisticsExtraction":
            squares = [inputs.square().sum(0)] if line.boolean("include-variance", True) else []
            return _objects(torch.cat([torch.full((1,), float(len(inputs))), inputs.sum(0), *squares]))
        if kind == "StatisticsPooling":
            total = inputs.sum(0)
            counts = total[:1].log().repeat(line.integer("num-log-count-features", 0))
            return _objects(torch.cat([counts, total[1:] / total[0]]))
        to_update = self.gradient.components[node.component]
        if kind == "Tdnn":
            parameters, learned = component.parameters(), to_update.parameters()
            return _objects(_Splice.apply(self.anchor, inputs.reshape(-1), parameters, learned))
        return _objects(_Row.apply(self.anchor, inputs[0], component, to_update))


class _Row(torch.autograd.Function):
    """One row of a component that treats each row alone."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, x: Tensor, component: Any, to_update: Any) -> Tensor:
        x = x.detach().unsqueeze(0)
        y, memo = component.propagate(x)
        ctx.what = component, to_update, x, y, memo
        return y[0].clone()

    @staticmethod
    def backward(ctx: Any, deriv: Tensor) -> tuple[None, Tensor, None, None]:
        component, to_update, x, y, memo = ctx.what
        updated = to_update if component.parameters() else None
        return None, component.backprop(x, y, deriv.unsqueeze(0).contiguous(), memo, to_update=updated)[0], None, None


class _Splice(torch.autograd.Function):
    """An affine function of several rows."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, parameters: dict[str, Tensor], learned: dict[str, Tensor]
    ) -> Tensor:
        ctx.what = x.detach(), parameters, learned
        return parameters["linear_params"] @ x + parameters["bias_params"]

    @staticmethod
    def backward(ctx: Any, deriv: Tensor) -> tuple[None, Tensor, None, None]:
        x, parameters, learned = ctx.what
        learned["linear_params"] += torch.outer(deriv, x)
        learned["bias_params"] += deriv
        return None, parameters["linear_params"].T @ deriv, None, None


def _objects(row: Tensor) -> np.ndarray:
    """A row as an array of scalar tensors, with which NumPy calculates."""
    result = np.empty(len(row), object)
    for place, value in enumerate(row.unbind()):
        result[place] = value
    return result


def _tensor(row: np.ndarray) -> Tensor:
    return torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in row])
