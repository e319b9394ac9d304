"""The computational network of an nnet3 network.

Frame k of inputs and outputs is frame t = k of nnet3; other nodes may be shifted (see `frames`). Where the context
reaches beyond the input, nnet3 has no value, and a CN has a value computed with zeros: the first `left` and the
last `right` frames of an output, by the contexts of the nnet3 network. `IfDefined` sees zeros there, so recurrences
begin at the same frame as in nnet3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import torch

from nnet3.cn.bridge.frames import FramesOfNodes, Look, references
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
from nnet3.errors import check_kind
from nnet3.model.components.base import Component
from nnet3.model.nnet import Nnet
from nnet3.model.structure.descriptor import Const, Descriptor, IfDefined, Simple, Sum, SumDescriptor
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode

_FUNCTIONS: dict[str, Callable[..., Node]] = {
    "SigmoidComponent": sigmoid,
    "TanhComponent": tanh,
    "RectifiedLinearComponent": relu,
    "SoftmaxComponent": softmax,
    "LogSoftmaxComponent": log_softmax,
    "NoOpComponent": copy,
}


def from_nnet(nnet: Nnet) -> Network:
    """Returns a CN with inputs and outputs of the same names, copies of the parameters, and the network's dtype.

    Affine, linear and elementwise components become nodes of native CN types, others `component` nodes. Raises
    NetworkError for parts without a counterpart: Round, Switch, ReplaceIndex, Failover, offsets in x, components that
    look at frames that depend on t, nodes needed in more frames than the input has. Values are computed in test mode,
    as by `nnet.in_test_mode()`; in training a batch-norm normalizes over all existing frames, of which a CN has more.
    """
    check_kind(nnet, Nnet, "what is made a computational network", "a network")
    return _Bridge(nnet).network()


class _Bridge:
    def __init__(self, nnet: Nnet):
        self.parts, self.dtype = nnet.parts, nnet.dtype
        self.frames = FramesOfNodes(nnet.parts)
        self.made: dict[int, Node] = {}
        self.later: list[tuple[DelayNode, int, bool]] = []
        self.shared: dict[str, dict[str, Node]] = {}
        self.existing: dict[tuple[int, int], Node] = {}

    def network(self) -> Network:
        numbers = self.frames.numbers
        for number in forward_order(numbers, self._needed_at_once):
            self._make(number)
        for waiting, number, masked in self.later:
            waiting.connect(self._masked(number) if masked else self.made[number])
        outputs = [i for i in numbers if self.parts.nodes[i].is_output]
        dtype = self.dtype if self.dtype in DTYPES else torch.float32
        return Network(outputs={self.parts.nodes[i].name: self.made[i] for i in outputs}, dtype=dtype)

    def _needed_at_once(self, number: int) -> list[int]:
        """Returns the nodes to be made before this node: the nodes read in the same frame of the CN."""
        looks = self.frames.looks[number]
        if isinstance(self.parts.nodes[number], ComponentNode):
            looks = [Look(look.source) for look in looks]
        return [look.source for look in looks if not self.frames.ahead(number, look)]

    def _make(self, number: int) -> None:
        node = self.parts.nodes[number]
        sources = self.parts.sources(number)
        if isinstance(node, InputNode):
            self.made[number] = input(node.name, node.dim)
        elif isinstance(node, DimRangeNode):
            x = self._looked_at(number, Look(sources[0]))
            self.made[number] = row_slice(x, node.dim_offset, node.dim, name=node.name)
        elif isinstance(node, ComponentNode):
            # Where a frame may be missing, the component takes zeros for it.
            is_required = all(look.is_required for look in self.frames.looks[number])
            x = self._looked_at(number, Look(sources[0], is_required=is_required))
            self.made[number] = self._applied(self.parts.component(node), node, x)
        else:
            assert isinstance(node, DescriptorNode)
            self.made[number] = self._whole(number, node.descriptor, node.name)

    # ---- descriptors ----

    def _whole(self, number: int, descriptor: Descriptor, name: str) -> Node:
        parts = [self._part(number, part, name) for part in descriptor.parts]
        return parts[0] if len(parts) == 1 else row_stack(*parts, name=name)

    def _part(self, number: int, part: SumDescriptor, name: str, optional: bool = False) -> Node:
        if isinstance(part, Sum):
            return reduce(plus, [self._part(number, term, name, optional) for term in part.terms])
        if isinstance(part, IfDefined):
            return self._part(number, part.source, name, True)
        if isinstance(part, Const):
            return constant(np.full((part.size, 1), part.value))
        assert isinstance(part, Simple)
        (reference,) = references(Descriptor((part,)), name)
        look = Look(self.parts.node_number[reference.node], reference.offset, not optional)
        value = self._looked_at(number, look)
        return value if reference.scale == 1 else scale(reference.scale, value)

    def _looked_at(self, number: int, look: Look) -> Node:
        """Returns the value of another node, as seen by a node."""
        ahead = self.frames.ahead(number, look)
        if not ahead:
            return self.made[look.source] if look.is_required else self._masked(look.source)
        waiting = delay(None, -ahead, dim=self.parts.dim(self.parts.nodes[look.source].name))
        self.later.append((waiting, look.source, not look.is_required))
        return waiting

    def _masked(self, number: int) -> Node:
        """Returns the value, zero in frames in which nnet3 has none."""
        missing = self.frames.missing(number)
        return element_times(self.made[number], self._existing(*missing)) if any(missing) else self.made[number]

    def _existing(self, first: int, last: int) -> Node:
        """Returns one row: 0 in the given numbers of first and last frames, else 1."""
        if (first, last) not in self.existing:
            some_input = next(
                number for number in self.frames.numbers if isinstance(self.parts.nodes[number], InputNode)
            )
            ones = exp(scale(0.0, row_slice(self.made[some_input], 0, 1)))
            early = delay(ones, first) if first else ones
            late = delay(ones, -last) if last else ones
            self.existing[first, last] = element_times(early, late)
        return self.existing[first, last]

    # ---- components ----

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
        """Returns parameter nodes, shared by the nodes that share a component."""
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
