"""The computational network of an nnet3 network.

Frame k of a sequence is frame t = k of nnet3. Where the context reaches beyond the input, nnet3 has no value, and a CN
has one that was computed with zeros: the first `left` and the last `right` frames of an output, by the contexts of the
nnet3 network. `IfDefined` sees zeros there, so recurrences begin where nnet3's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from nnet3.cn.network import Network
from nnet3.cn.network_state import DTYPES
from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import copy, exp, log_softmax, relu, sigmoid, softmax, tanh
from nnet3.cn.nodes.columns import row_slice, row_stack
from nnet3.cn.nodes.component import component
from nnet3.cn.nodes.delay import DelayNode, delay
from nnet3.cn.nodes.leaves import constant, input, parameter
from nnet3.cn.nodes.products import diag_times, scale, times
from nnet3.cn.nodes.sums import element_times, plus
from nnet3.cn.order import forward_order
from nnet3.components import Component
from nnet3.errors import NetworkError, check_kind
from nnet3.index import T, X
from nnet3.nnet import Nnet
from nnet3.structure.descriptor import Const, Descriptor, IfDefined, Simple, Sum, SumDescriptor
from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference, Offset
from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode

_FUNCTIONS: dict[str, Callable[..., Node]] = {
    "SigmoidComponent": sigmoid,
    "TanhComponent": tanh,
    "RectifiedLinearComponent": relu,
    "SoftmaxComponent": softmax,
    "LogSoftmaxComponent": log_softmax,
    "NoOpComponent": copy,
}


@dataclass(frozen=True)
class OffsetReference:
    """`scale` times the value of a node `offset` frames ahead; an optional one is zero where that is not there."""

    node: str
    offset: int = 0
    scale: float = 1.0
    is_optional: bool = False


def references(descriptor: Descriptor, name: str) -> list[OffsetReference]:
    """All references in order. Raises NetworkError for what has no counterpart, saying in which node."""
    return [reference for part in descriptor.parts for reference in _of_part(part, name, False)]


def _of_part(part: SumDescriptor, name: str, optional: bool) -> list[OffsetReference]:
    if isinstance(part, Sum):
        return [reference for term in part.terms for reference in _of_part(term, name, optional)]
    if isinstance(part, IfDefined):
        if optional or not isinstance(part.source, Simple):
            raise NetworkError(f"'{name}': {part} has no counterpart in a computational network")
        return _of_part(part.source, name, True)
    if isinstance(part, Const):
        return []
    if not isinstance(part, Simple):
        raise NetworkError(f"'{name}': {part} has no counterpart in a computational network")
    return [_of_forward(part.source, name, optional)]


def _of_forward(source: ForwardingDescriptor, name: str, optional: bool, offset: int = 0) -> OffsetReference:
    if isinstance(source, NodeReference):
        return OffsetReference(source.node, offset, source.scale, optional)
    if isinstance(source, Offset) and not source.x_offset:
        return _of_forward(source.source, name, optional, offset + source.t_offset)
    raise NetworkError(f"'{name}': {source} has no counterpart in a computational network")


@dataclass(frozen=True)
class Margins:
    """The numbers of first and of last frames that nnet3 cannot compute."""

    left: int = 0
    right: int = 0

    def moved(self, offset: int) -> Margins:
        """The margins of something that looks `offset` frames ahead."""
        return Margins(max(self.left - offset, 0), max(self.right + offset, 0))

    def joined(self, other: Margins) -> Margins:
        return Margins(max(self.left, other.left), max(self.right, other.right))


def from_nnet(nnet: Nnet) -> Network:
    """The CN with the same inputs and outputs, by name, copies of the parameters, and their type of numbers.

    Affine, linear and elementwise components become nodes of the CN's own types, others `component` nodes. Raises
    NetworkError for what has no counterpart: Round, Switch, ReplaceIndex, Failover, offsets in x, components that look
    at frames that depend on t. Values are computed in test mode, as by `nnet.in_test_mode()`; in training a
    batch-norm normalizes over all frames that there are, which are more here.
    """
    check_kind(nnet, Nnet, "what is made a computational network", "a network")
    return _Bridge(nnet).network()


class _Bridge:
    def __init__(self, nnet: Nnet):
        self.parts = nnet.parts
        self.made: dict[int, Node] = {}
        self.margins: dict[int, Margins] = {}
        self.later: list[tuple[DelayNode, int, bool]] = []
        self.shared: dict[str, dict[str, Node]] = {}
        self.existing: dict[Margins, Node] = {}

    def network(self) -> Network:
        numbers = range(len(self.parts.nodes))
        for number in forward_order(numbers, self._needed_at_once):
            self._make(number)
        for waiting, number, masked in self.later:
            waiting.connect(self._masked(number) if masked else self.made[number])
        outputs = [i for i in numbers if self.parts.nodes[i].is_output]
        tensors = [tensor for each in self.parts.components.values() for tensor in each.parameters().values()]
        dtype = reduce(torch.promote_types, [tensor.dtype for tensor in tensors], torch.float16)
        dtype = dtype if tensors and dtype in DTYPES else torch.float32
        return Network(outputs={self.parts.nodes[i].name: self.made[i] for i in outputs}, dtype=dtype)

    def _needed_at_once(self, number: int) -> list[int]:
        """The nodes that must be made before this one: those that it looks at in the same frame, or must see."""
        node = self.parts.nodes[number]
        if not isinstance(node, DescriptorNode):
            return self.parts.sources(number)
        found = references(node.descriptor, node.name)
        return [self.parts.node_number[r.node] for r in found if not (r.is_optional and r.offset)]

    def _make(self, number: int) -> None:
        node = self.parts.nodes[number]
        sources = self.parts.sources(number)
        if isinstance(node, InputNode):
            self.made[number], self.margins[number] = input(node.name, node.dim), Margins()
        elif isinstance(node, DimRangeNode):
            self.made[number] = row_slice(self.made[sources[0]], node.dim_offset, node.dim, name=node.name)
            self.margins[number] = self.margins[sources[0]]
        elif isinstance(node, ComponentNode):
            if not sources:
                raise NetworkError(f"component node '{node.name}' has no input: a CN has no counterpart")
            self._component(number, node, sources[0])
        else:
            assert isinstance(node, DescriptorNode)
            self._descriptor(number, node)

    # ---- descriptors ----

    def _descriptor(self, number: int, node: DescriptorNode) -> None:
        margins = Margins()
        for reference in references(node.descriptor, node.name):
            if not reference.is_optional:
                source = self.margins[self.parts.node_number[reference.node]]
                margins = margins.joined(source.moved(reference.offset))
        self.margins[number] = margins
        self.made[number] = self._whole(node.descriptor, node.name)

    def _whole(self, descriptor: Descriptor, name: str) -> Node:
        parts = [self._part(part, name) for part in descriptor.parts]
        return parts[0] if len(parts) == 1 else row_stack(*parts, name=name)

    def _part(self, part: SumDescriptor, name: str, optional: bool = False) -> Node:
        if isinstance(part, Sum):
            return reduce(plus, [self._part(term, name, optional) for term in part.terms])
        if isinstance(part, IfDefined):
            return self._part(part.source, name, True)
        if isinstance(part, Const):
            return constant(np.full((part.size, 1), part.value))
        assert isinstance(part, Simple)
        (reference,) = references(Descriptor((IfDefined(part) if optional else part,)), name)
        value = self._looked_at(reference)
        return value if reference.scale == 1 else scale(reference.scale, value)

    def _looked_at(self, reference: OffsetReference) -> Node:
        number = self.parts.node_number[reference.node]
        if not reference.offset:
            return self._masked(number) if reference.is_optional else self.made[number]
        waiting = delay(None, -reference.offset, dim=self.parts.dim(reference.node))
        self.later.append((waiting, number, reference.is_optional))
        return waiting

    def _masked(self, number: int) -> Node:
        """The value, zero in frames that nnet3 cannot compute."""
        margins = self.margins[number]
        if margins == Margins():
            return self.made[number]
        return element_times(self.made[number], self._existing(margins))

    def _existing(self, margins: Margins) -> Node:
        """One row: 1 in frames within the margins, else 0."""
        if margins not in self.existing:
            some_input = next(number for number, node in enumerate(self.parts.nodes) if isinstance(node, InputNode))
            ones = exp(scale(0.0, row_slice(self.made[some_input], 0, 1)))
            early = delay(ones, margins.left) if margins.left else ones
            late = delay(ones, -margins.right) if margins.right else ones
            self.existing[margins] = element_times(early, late)
        return self.existing[margins]

    # ---- components ----

    def _component(self, number: int, node: ComponentNode, source: int) -> None:
        made, margins = self.parts.component(node), Margins()
        offsets = _offsets(made, node.name)
        for offset, is_required in offsets.items():
            if is_required:
                margins = margins.joined(self.margins[source].moved(offset))
        self.margins[number] = margins
        # Where a frame may be missing, the component takes zeros for it.
        x = self.made[source] if all(offsets.values()) else self._masked(source)
        self.made[number] = self._applied(made, node, x)

    def _applied(self, made: Component, node: ComponentNode, x: Node) -> Node:
        name = node.name
        if made.type_name in _FUNCTIONS:
            return _FUNCTIONS[made.type_name](x, name=name)
        if made.type_name == "ElementwiseProductComponent":
            rows = made.output_dim
            *parts, last = [row_slice(x, first, rows) for first in range(0, made.input_dim, rows)]
            return element_times(reduce(element_times, parts), last, name=name)
        if made.type_name in ("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent"):
            p = self._parameters(node.component, made)
            return plus(times(p["linear_params"], x), p["bias_params"], name=name)
        if made.type_name == "LinearComponent":
            return times(self._parameters(node.component, made)["params"], x, name=name)
        if made.type_name in ("PerElementScaleComponent", "NaturalGradientPerElementScaleComponent"):
            return diag_times(self._parameters(node.component, made)["params"], x, name=name)
        return component(made.copy(), x, name=name)

    def _parameters(self, name: str, made: Component) -> dict[str, Node]:
        """Parameter nodes, shared by the nodes that share a component."""
        if name not in self.shared:
            tensors = dict(made.parameters())
            for constant_name in made.constant_names if not tensors else ():
                tensors[constant_name] = getattr(made, constant_name)
            self.shared[name] = {
                key: parameter(
                    f"{name}.{key}",
                    (*tensor.shape, 1)[:2],
                    tensor.reshape(len(tensor), -1),
                    trainable=bool(made.parameters()),
                )
                for key, tensor in tensors.items()
            }
        return self.shared[name]


def _offsets(made: Component, name: str) -> dict[int, bool]:
    """The frames, relative to its own, that a component looks at, and whether it must have each.

    Raises NetworkError if they depend on t.
    """
    if made.identity_indexes:
        return {0: True}
    moves = made.moves()
    if moves[:, :, X].any() or (moves != moves[0]).any():
        raise NetworkError(f"component of '{name}' ({made.type_name}) looks at frames that depend on t, or at other x")
    one_missing = ~np.eye(moves.shape[1], dtype=bool)
    computable = made.computable(np.zeros((len(one_missing), 3), np.int32), one_missing)[0]
    found: dict[int, bool] = {}
    for offset, is_optional in zip(moves[0, :, T].tolist(), computable.tolist(), strict=True):
        found[offset] = found.get(offset, False) or not is_optional
    return found
