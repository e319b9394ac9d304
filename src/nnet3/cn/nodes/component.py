"""An nnet3 component as a node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import IndexTable, T
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cn.node import Node
from nnet3.cn.operation import Operation, OperationState
from nnet3.cn.options import checked_option
from nnet3.cn.shape import Shape
from nnet3.cn.source_nodes import ComponentRule, NodeForm
from nnet3.engine.ir.kernel import Kernel, KernelInfo
from nnet3.engine.lowering.source import NodeKind
from nnet3.errors import NetworkError, ShapeError, check_kind
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import create, read_from
from nnet3.model.components.kernel_info import kernel_info
from nnet3.model.nnet.fingerprint import component_digest


@dataclass(eq=False)
class ComponentOperation(Operation):
    """Rows of samples through a component. A component that looks at other frames sees zeros beyond both ends.

    `trainable`: whether the component's parameters are trained. The parameters belong to the node, by the names of the
    component's class.
    """

    type: ClassVar[str] = "component"
    component: Component
    trainable: bool = True
    _gradient: Component | None = field(default=None, repr=False)

    @property
    def parts(self) -> list[Component]:
        """The component and its parts."""
        return [self.component, *(leaf for _, leaf in self.component.leaves() if leaf is not self.component)]

    def parameters(self) -> dict[str, Tensor]:
        """Returns the component's own tensors, by name."""
        return self.component.parameters()

    @property
    def needs_training(self) -> bool:
        return self.trainable and bool(self.component.properties & Properties.UPDATABLE)

    def check(self) -> None:
        if self.component.input_dim < 1:
            name = self.component.type_name
            raise NetworkError(f"component {name} has no input: a parameter can stand for it")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if not operands[0].has_samples:
            raise ShapeError("component needs an operand with samples")
        if operands[0].rows != self.component.input_dim:
            raise ShapeError(f"component {self.component.type_name} needs {self.component.input_dim} rows")
        return Shape(self.component.output_dim, operands[0].cols)

    def form(self, operands: Sequence[Shape], value: Shape) -> NodeForm:
        """Returns a kernel with an INDEXED operand for a component that looks at other frames."""
        if self.component.identity_indexes:
            return super().form(operands, value)
        return NodeForm(
            NodeKind.KERNEL,
            rule=lambda clock, sources: ComponentRule(sources[0], self.component),
            clock_for="looks at other frames",
        )

    @property
    def looks_at_other_frames(self) -> bool:
        return not self.component.identity_indexes and bool(self.component.moves()[:, :, T].any())

    def precompute_indexes(
        self, inputs: IndexTable, outputs: IndexTable, need_backprop: bool
    ) -> dict[str, np.ndarray] | None:
        if not self.component.needs_indexes:
            return None
        return self.component.precompute_indexes(inputs, outputs, need_backprop=need_backprop)

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return frozenset()

    def info(self, name: str, operands: Sequence[Shape], value: Shape, wanted: Sequence[bool]) -> KernelInfo:
        info = kernel_info(name, self.component, 1, has_slices=False)
        is_frozen = info.updatable and not self.trainable  # it has nothing to count in
        return replace(
            info,
            updatable=info.updatable and self.trainable,
            stores_stats=info.stores_stats and self.stores_statistics,
            counts_backward=info.counts_backward and not is_frozen,
        )

    def kernel(self, state: OperationState) -> Kernel:
        return self.component

    def gradient_kernel(self) -> Component:
        """Returns a component that collects plain gradients and statistics; kept until `component` lies elsewhere."""
        known, parameters = self._gradient, self.parameters()
        theirs = {} if known is None else known.parameters()
        if known is None or {n: _kind(t) for n, t in theirs.items()} != {n: _kind(t) for n, t in parameters.items()}:
            self._gradient = known = self.component.gradient_copy()
        return known

    def to(self, dtype: torch.dtype, device: torch.device) -> None:
        self.component.to(dtype=dtype, device=device)

    @property
    def converted(self) -> list[Tensor]:
        """The tensors that `to` converts to a type of floats."""
        names = ((part, (*part.parameter_names, *part.constant_names)) for part in self.parts)
        return [tensor for part, own in names for tensor in (getattr(part, name) for name in own)]

    # ---- modes: dropout and batch-norm have two ----

    @property
    def stores_statistics(self) -> bool:
        """True if a training pass collects the statistics of test mode."""
        return any(part.has_running_statistics and not part.test_mode for part in self.parts)

    @property
    def collects(self) -> bool:
        """True if a training pass leaves something in `gradient_kernel`."""
        return self.needs_training or self.stores_statistics

    def take_statistics(self) -> None:
        """Takes over the statistics that a training pass has left in `gradient_kernel`."""
        if self.stores_statistics:
            collected = ComponentOperation(self.gradient_kernel())
            for mine, theirs in zip(self.parts, collected.parts, strict=True):
                if mine.has_running_statistics:
                    mine.add_stats_(1.0, theirs)

    def in_mode(self, training: bool) -> ComponentOperation:
        """Returns a twin with the same tensors in test mode; in training the component in its own mode."""
        if training:
            return self
        twin = ComponentOperation(self.component.shared_copy(), self.trainable)
        twin.component.set_test_mode(True)
        has_modes = any(one.test_mode != other.test_mode for one, other in zip(self.parts, twin.parts, strict=True))
        if not has_modes:
            return self
        twin._gradient = self.gradient_kernel() if self.collects else None
        return twin

    def contents(self) -> tuple[list[Tensor], object]:
        numbers: list[Tensor] = []
        settings: list[object] = []
        for part in self.parts:
            numbers += [value for value in vars(part).values() if isinstance(value, Tensor)]
            plain = {name: value for name, value in vars(part).items() if isinstance(value, bool | int | float | str)}
            settings.append((part.type_name, plain))
        return numbers, settings

    def variant(self, training: bool) -> Hashable:
        return self.trainable, self.in_mode(training).structure()["fingerprint"]

    def held(self, training: bool) -> list[object]:
        kernels: list[object] = [self.component, *([self.gradient_kernel()] if self.collects else [])]
        # A twin in test mode is made of all that the component has, and only tensors change in place.
        return kernels if training else [*kernels, *(value for part in self.parts for value in vars(part).values())]

    def options(self) -> dict[str, Any]:
        writer = Writer(binary=False)
        self.component.write_to(writer)
        return {"text": writer.getvalue().decode(), "trainable": self.trainable}

    def structure(self) -> dict[str, Any]:
        """Returns the settings on which programs depend, as a digest: not the values of parameters."""
        return {"fingerprint": component_digest(self.component)}

    @classmethod
    def from_options(cls, **options: Any) -> ComponentOperation:
        """Returns the operation that `options` describes. Raises ArgumentError, ModelFormatError."""
        text, trainable = checked_option(options.get("text"), "str", "component: text"), options.get("trainable", True)
        component = Reader(text.encode(), "component", binary=False).whole(read_from)
        return cls(component, trainable)

    @classmethod
    def option_kinds(cls) -> dict[str, str]:
        return {"text": "str", "trainable": "bool"}


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def component(made: Component | str, x: Node, *, name: str = "") -> Node:
    """Returns an nnet3 component applied to X.

    `made`: a component (which the node then owns), or a type with its config, such as "TanhComponent dim=20". Raises
    NetworkError for a component without input, ShapeError if X does not fit.
    """
    if isinstance(made, str):
        type_name, _, config = made.partition(" ")
        made = create(type_name, config)
    check_kind(made, Component, "what is made a node", "a component, or a str such as 'TanhComponent dim=20'")
    return Node(ComponentOperation(made), (x,), name)
