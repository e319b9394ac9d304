"""An nnet3 component as a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import Operation, RunState
from nnet3.cn.options import checked_option
from nnet3.cn.shape import Shape
from nnet3.compiler.nnet_source import kernel_info
from nnet3.components import Component, Properties, create, read_from
from nnet3.computation.kernel import Kernel, KernelInfo
from nnet3.errors import NetworkError, ShapeError, check_kind
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.writer import Writer
from nnet3.nnet.fingerprint import network_fingerprint


@dataclass(eq=False)
class ComponentOperation(Operation):
    """Rows of samples through a component. One that looks at other frames sees zeros beyond both ends.

    `trainable`: whether its parameters are trained; they belong to the node, by the names of the component's class.
    """

    type: ClassVar[str] = "component"
    component: Component
    trainable: bool = True
    _gradient: Component | None = field(default=None, repr=False)

    def parameters(self) -> dict[str, Tensor]:
        """The component's own tensors, by name."""
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
        return Shape(self.component.output_dim)

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return frozenset()

    def info(self, name: str, operands: Sequence[Shape], value: Shape, wanted: Sequence[bool]) -> KernelInfo:
        made = self.component
        info = kernel_info(name, made.properties, 1, made.needs_indexes, made.backprop_needs_sign_only)
        return info if self.trainable else replace(info, updatable=False)

    def kernel(self, state: RunState) -> Kernel:
        return self.component

    def gradient_kernel(self) -> Component:
        """A component that collects plain gradients; the same one until `to`."""
        if self._gradient is None:
            self._gradient = self.component.gradient_copy()
        return self._gradient

    def to(self, dtype: torch.dtype, device: torch.device) -> None:
        self.component.to(dtype=dtype, device=device)
        self._gradient = None

    def options(self) -> dict[str, Any]:
        writer = Writer(binary=False)
        self.component.write_to(writer)
        return {"text": writer.getvalue().decode(), "trainable": self.trainable}

    def structure(self) -> dict[str, Any]:
        """What programs depend on: not the values of parameters."""
        return {"fingerprint": network_fingerprint("", {"it": self.component})["component it"]}

    @classmethod
    def from_options(cls, **options: Any) -> ComponentOperation:
        """What `options` describes. Raises ArgumentError, ModelFormatError."""
        text, trainable = checked_option(options.get("text"), "str", "component: text"), options.get("trainable", True)
        reader = Reader(text.encode(), "component", binary=False)
        component = read_from(reader)
        reader.finish()
        return cls(component, trainable)

    @classmethod
    def option_kinds(cls) -> dict[str, str]:
        return {"text": "str", "trainable": "bool"}


def component(made: Component | str, x: Node, *, name: str = "") -> Node:
    """An nnet3 component applied to X.

    `made`: a component (which the node then owns), or a type with its config, such as "TanhComponent dim=20". Raises
    NetworkError for a component without input, ShapeError if X does not fit.
    """
    if isinstance(made, str):
        type_name, _, config = made.partition(" ")
        made = create(type_name, config)
    check_kind(made, Component, "what is made a node", "a component, or a str such as 'TanhComponent dim=20'")
    return Node(ComponentOperation(made), (x,), name)
