"""Natural gradient of matrices that are operands of products, and of component nodes with natural gradient.

The gradient of V = W Y by W is dV Y^T (1.58): a sum, over samples, of columns of dV times columns of Y. A linear
component has an equal update, with columns as rows, so Kaldi's natural gradient applies (docs/formulas.md): Y
and dV are multiplied by the inverses of estimates of their covariances. In the compiled program Y and dV are the
operands of the product's backward command. A kernel records Y and dV in the command, so that all samples of a
minibatch, of a loop too, come together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.products import Times
from nnet3.cn.operation import Matrices
from nnet3.model.components.base import Component, UpdatableComponent
from nnet3.model.components.natural_gradient import OnlineNaturalGradient, add_natural_gradient
from nnet3.model.components.updatable import preconditioners

if TYPE_CHECKING:
    from nnet3.cn.network import Network


@dataclass(frozen=True, eq=False)
class RecordingTimes(Times):
    """The kernel of a product that records the operands of the first operand's gradient instead of computing it."""

    taken: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # rows of Y, and of dV

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        if child == 1:
            super().compute_partial_gradient(child, inputs, output, gradient, memo, dx, accumulate)
            return
        self.taken.append((inputs[1].clone(), gradient.clone()))
        if not accumulate:
            dx.zero_()

    def replay_state(self) -> list[object] | None:
        return None


@dataclass(eq=False)
class NaturalProduct:
    """A product of a parameter and a value with samples, and the preconditioners of its rows."""

    parameter: Node
    kernel: RecordingTimes
    into: OnlineNaturalGradient
    out: OnlineNaturalGradient

    def add(self, gradient: Tensor) -> None:
        """gradient, (columns, rows) as stored, += the natural gradient of the recorded operands."""
        rows, derivs = zip(*self.kernel.taken, strict=True) if self.kernel.taken else ((), ())
        self.kernel.taken.clear()
        if not rows:
            y, dv = (gradient.new_zeros(0, size) for size in gradient.shape)
        else:
            y, dv = torch.cat(rows), torch.cat(derivs)
        add_natural_gradient(gradient.T, None, 1.0, y, self.into, dv, self.out)


class NaturalGradients:
    """Natural gradients of a network, for the parameters `wanted` by name (None: for none). They learn all the time."""

    def __init__(self, network: Network, wanted: Callable[[str], bool] | None):
        self.network, self._wanted = network, wanted
        self._products: dict[str, NaturalProduct] = {}

    def products(self) -> dict[str, NaturalProduct]:
        """Returns the products by the names of their nodes, in order of names: the same in all processes."""
        if self._wanted is None:
            return {}
        network, found = self.network, dict[str, NaturalProduct]()
        for name, node in sorted((network.names[node], node) for node in network.nodes if _is_product(node)):
            parameter = cast(ParameterNode, node.operands[0])
            if parameter.trainable and self._wanted(network.names[parameter]):
                known = self._products.get(name)
                if known is None:
                    pair = preconditioners(parameter.shape.num_cols or 1, parameter.shape.rows)
                    known = NaturalProduct(parameter, RecordingTimes(), *pair)
                found[name] = known
        self._products = found
        return found

    def components(self) -> dict[str, Component]:
        """Returns the components that collect gradients of component nodes with natural gradient, by name."""
        network, wanted = self.network, self._wanted
        if wanted is None:
            return {}
        return {
            network.names[node]: operation.gradient_kernel()
            for node, operation in network._nodes.components
            if operation.needs_training
            and any(wanted(f"{network.names[node]}.{name}") for name in operation.parameters())
            and any(leaf.natural_gradients for _, leaf in operation.component.leaves())
        }

    def estimates(self) -> dict[str, OnlineNaturalGradient]:
        """Returns all preconditioners, by names."""
        found: dict[str, OnlineNaturalGradient] = {}
        for name, product in self.products().items():
            found |= {f"{name}.in": product.into, f"{name}.out": product.out}
        for name, component in self.components().items():
            for prefix, leaf in component.leaves():
                found |= {f"{name}.{prefix}{key}": each for key, each in leaf.natural_gradients.items()}
        return found

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Makes gradients computed inside the context natural gradients, complete at the context's end."""
        products = self.products()
        leaves = [
            cast(UpdatableComponent, leaf) for component in self.components().values() for _, leaf in component.leaves()
        ]
        try:
            self.network.recorders = {name: product.kernel for name, product in products.items()}
            for leaf in leaves:
                leaf.is_gradient = False
            yield
            for product in products.values():
                product.add(self.network._gradient(product.parameter))
        finally:
            self.network.recorders = {}
            for product in products.values():
                product.kernel.taken.clear()
            for leaf in leaves:
                leaf.is_gradient = True


def _is_product(node: Node) -> bool:
    is_of_parameter = isinstance(node.operation, Times) and node.operands[0].is_parameter
    return is_of_parameter and node.operands[1].shape.has_samples
