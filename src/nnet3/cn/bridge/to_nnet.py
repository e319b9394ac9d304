"""The nnet3 network of a computational network, given equal operations on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.base.kaldi_io.format_numbers import format_double
from nnet3.cn.network_state import NetworkState
from nnet3.cn.node import Node
from nnet3.cn.nodes.convolution import Convolution, ImageOperation
from nnet3.cn.order import needed_nodes
from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.model.nnet import Nnet
from nnet3.model.structure.parts import NetworkParts


def average_kernels(operation: ImageOperation) -> Tensor:
    """Returns the kernels, (channels, K_r K_c channels), whose convolution is average pooling."""
    pixels = operation.window[0] * operation.window[1]
    return torch.eye(operation.image[2]).tile(1, pixels) / pixels


def convolution_config(operation: ImageOperation, num_filters: int) -> str:
    """Returns the component line; kernels with gaps become wider ones with zeros."""
    return (
        f"ConvolutionComponent {_dims(operation)} filt-x-dim={operation.extent[0]} "
        f"filt-y-dim={operation.extent[1]} filt-x-step={operation.stride[0]} filt-y-step={operation.stride[1]} "
        f"num-filters={num_filters} input-vectorization-order=zyx"
    )


def convolution_parameters(operation: ImageOperation, kernels: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    """Returns the parameters of the component, of kernels (output channels, K_r K_c C_x)."""
    pixels = kernels.unflatten(1, (*operation.window, operation.image[2]))
    wide = kernels.new_zeros(len(kernels), *operation.extent, operation.image[2])
    down, across = operation.dilation if isinstance(operation, Convolution) else (1, 1)
    wide[:, ::down, ::across] = pixels
    return {
        "filter_params": wide.flatten(1),
        "bias_params": torch.zeros_like(kernels[:, 0]) if bias is None else bias,
    }


def pooling_config(operation: ImageOperation) -> str:
    window, stride = operation.window, operation.stride
    return (
        f"MaxpoolingComponent {_dims(operation)} pool-x-size={window[0]} pool-y-size={window[1]} pool-z-size=1 "
        f"pool-x-step={stride[0]} pool-y-step={stride[1]} pool-z-step=1"
    )


def _dims(operation: ImageOperation) -> str:
    rows, cols = framed_size(operation)
    return f"input-x-dim={rows} input-y-dim={cols} input-z-dim={operation.image[2]}"


def framed_size(operation: ImageOperation) -> tuple[int, int]:
    """Rows and columns that the windows touch, margins included: the last pixels may be left over."""
    sizes: Any = zip(operation.value_size, operation.extent, operation.stride, strict=True)
    rows, cols = ((number - 1) * stride + window for number, window, stride in sizes)
    return rows, cols


def framed_rows(operation: ImageOperation) -> list[tuple[int, int, int, int]]:
    """The rows touched by the windows: the first element and the number of elements taken of the image, and the zeros
    before and after. Empty where the windows touch exactly the image.
    """
    (rows, cols), (down, across) = framed_size(operation), operation.margins
    height, width, channels = operation.image
    if (rows, cols) == (height, width) and not down and not across:
        return []
    taken = min(width, cols - across)
    found = []
    for row in range(rows):
        inside = 0 <= row - down < height
        first, count = ((row - down) * width * channels, taken * channels) if inside else (0, 0)
        before = across * channels if inside else cols * channels
        found.append((first, count, before, cols * channels - before - count))
    return found


_ELEMENTWISE = {
    "sigmoid": "SigmoidComponent",
    "tanh": "TanhComponent",
    "relu": "RectifiedLinearComponent",
    "softmax": "SoftmaxComponent",
    "log_softmax": "LogSoftmaxComponent",
    "copy": "NoOpComponent",
}

_PRODUCTS = {"times", "sparse_times"}
_IMAGES = {"convolution", "max_pooling", "average_pooling"}
_REFER = {"delay", "row_slice", "scale", *_IMAGES}  # what may write the name of an operand


def to_nnet(network: NetworkState) -> Nnet:
    """Returns the nnet3 network with equal outputs, by name. Its `config_lines()` are the config.

    W X becomes a LinearComponent, or with a bias column an AffineComponent; sums, stacks and delays become descriptors,
    a delay IfDefined(Offset(...)), which is zero before the first frame, like a default of 0. Convolution and maximum
    pooling become ConvolutionComponent and MaxpoolingComponent, average pooling a convolution that does not learn;
    margins are Const(0) between the rows of the image.
    Raises NetworkError for operations without a counterpart in nnet3, naming the node: criteria, norms, products of
    parameters, defaults other than 0, initial states, and so on.
    """
    if not network.outputs:
        raise NetworkError("a network without outputs has no nnet3 counterpart: give the criterion's operand as one")
    return _Writer(network).nnet()


class _Writer:
    def __init__(self, network: NetworkState):
        self.network, self.names = network, network.names
        self.component_lines: list[str] = []
        self.node_lines: list[str] = []
        self.taken: set[str] = set()  # names of the lines
        self.values: dict[str, dict[str, Tensor]] = {}
        self.components: dict[str, Component] = {}
        self.descriptors: dict[Node, str] = {}

    def nnet(self) -> Nnet:
        nodes = needed_nodes(self.network.nodes, list(self.network.outputs.values()), ())
        users: dict[Node, list[Node]] = {}
        for node in nodes:
            for operand in node.operands:
                users.setdefault(operand, []).append(node)
        self.users = users
        self.anchored = anchored(nodes)
        for node in nodes:
            if node.lag:  # loops refer to what comes later
                self.descriptors[node] = self._named(node, self._delay(node))
        for node in nodes:
            if not node.is_stored and not node.lag:
                self.descriptors[node] = self._named(node, self._node(node))
        for name, node in self.network.outputs.items():
            self._node_line("output", self._free(name), f"input={self._seen(node)} objective=linear")
        result = Nnet.from_config("\n".join([*self.component_lines, *self.node_lines])).to(self.network.dtype)
        for name, tensors in self.values.items():
            for key, tensor in result.components[name].parameters().items():
                tensor.copy_(tensors[key].reshape(tensor.shape))
        if self.components:
            result.replace_parts(NetworkParts(result.parts.nodes, {**result.parts.components, **self.components}))
        return result

    def _free(self, name: str) -> str:
        """Returns a free name for an output that may be called like a node: nnet3 has one space of names."""
        while name in self.taken:
            name = f"{name}.output"
        return name

    # ---- what others write to look at a node ----

    def _seen(self, node: Node) -> str:
        if node not in self.descriptors:
            raise self._error(node, "belongs to no sample")
        return self.descriptors[node]

    def _delay(self, node: Node) -> str:
        default = node.operation.options()["default"]
        if default:
            raise self._error(node, f"has default {default}, where IfDefined has 0")
        if node.initial is not None:
            raise self._error(node, "has an initial state")
        if node.operands[0] not in self.anchored:
            raise self._error(node, "delays a value of delays alone, which in nnet3 goes on beyond the last frame")
        return f"IfDefined(Offset({self.names[node.operands[0]]}, {-node.lag}))"

    def _named(self, node: Node, seen: str) -> str:
        """Gives a separate node to each descriptor used by delays, slices or scales, which take only names.

        Stacks and scales in sums get a node too: the terms of a sum must have equal parts, and a node one scale.
        """
        users = {user.type for user in self.users.get(node, ())}
        refers = users & _REFER or ("plus" in users and node.type in ("row_stack", "scale"))
        if seen == self.names[node] or not seen or not refers:
            return seen
        return self._line(self.names[node], f"NoOpComponent dim={node.shape.rows}", seen)

    def _error(self, node: Node, what: str) -> NetworkError:
        return NetworkError(f"'{self.names[node]}' ({node.type}) {what}: nnet3 has no counterpart")

    # ---- nodes ----

    def _node(self, node: Node) -> str:
        operation: Any = node.operation
        name = self.names[node]
        if node.type == "input" and node.shape.has_samples:
            return self._node_line("input", name, f"dim={node.shape.rows}")
        if node.type == "row_slice":
            return self._range(name, node.operands[0], operation.first, operation.rows)
        if node.type == "component":
            self.components[name] = operation.component.copy()
            dims = f"input-dim={node.operands[0].shape.rows} output-dim={node.shape.rows}"
            return self._line(name, f"LinearComponent {dims}", self._seen(node.operands[0]))  # replaced in the end
        if node.type in _ELEMENTWISE:
            return self._line(name, f"{_ELEMENTWISE[node.type]} dim={node.shape.rows}", self._seen(node.operands[0]))
        if node.type == "row_stack":
            return f"Append({', '.join(self._seen(operand) for operand in node.operands)})"
        if node.type in _IMAGES:
            return self._images(node)
        if node.type == "plus":
            return self._plus(node)
        if node.type in _PRODUCTS:
            return self._times(node)
        if node.type == "scale" and node.operands[0].is_parameter and not node.operands[0].trainable:
            factor: Any = node.operands[0]
            number, is_double = factor.numbers.item(), self.network.dtype == torch.float64
            shown = format_double(number) if is_double else f"{number:.9g}"
            return f"Scale({shown}, {self._seen(node.operands[1])})"
        if node.type == "diag_times" and node.operands[0].is_parameter:
            self.values[name] = {"params": node.operands[0].memory}
            return self._line(name, f"PerElementScaleComponent dim={node.shape.rows}", self._seen(node.operands[1]))
        if node.type == "element_times" and node.operands[0].shape == node.operands[1].shape:
            rows = node.shape.rows
            both = ", ".join(self._seen(operand) for operand in node.operands)
            dims = f"input-dim={2 * rows} output-dim={rows}"
            return self._line(name, f"ElementwiseProductComponent {dims}", f"Append({both})")
        raise self._error(node, "is an operation of computational networks")

    def _range(self, name: str, whole: Node, first: int, rows: int) -> str:
        """Returns a dim-range node. A range of a range becomes a range of the node below both."""
        while whole.type == "row_slice":
            operation: Any = whole.operation
            whole, first = whole.operands[0], first + operation.first
        return self._node_line("dim-range", name, f"input-node={self._seen(whole)} dim-offset={first} dim={rows}")

    def _line(self, name: str, component: str, seen: str) -> str:
        self.component_lines.append(f"component name={name} type={component}")
        return self._node_line("component", name, f"component={name} input={seen}")

    def _node_line(self, kind: str, name: str, options: str) -> str:
        self.node_lines.append(f"{kind}-node name={name} {options}")
        self.taken.add(name)
        return name

    def _plus(self, node: Node) -> str:
        product = self._bias_of(node)
        if product is None:
            x, y = node.operands
            if x.is_parameter:
                x, y = y, x
            if y.is_parameter and y.shape.rows == node.shape.rows:
                self.values[self.names[node]] = {"offsets": y.memory}
                return self._line(self.names[node], f"PerElementOffsetComponent dim={node.shape.rows}", self._seen(x))
            if x.shape != y.shape:
                raise self._error(node, "repeats an operand")
            return f"Sum({self._seen(x)}, {self._seen(y)})"
        bias = next(operand for operand in node.operands if operand is not product)
        W, x = product.operands
        self.values[self.names[node]] = {"linear_params": W.memory.T, "bias_params": bias.memory}
        dims = f"input-dim={x.shape.rows} output-dim={node.shape.rows}"
        return self._line(self.names[node], f"NaturalGradientAffineComponent {dims}", self._seen(x))

    def _images(self, node: Node) -> str:
        operation: Any = node.operation
        if node.type == "max_pooling":
            if operation.pad or max(s - w for s, w in zip(operation.stride, operation.window, strict=True)) > 0:
                raise self._error(node, "has margins, or steps wider than its window")
            line, images = pooling_config(operation), node.operands[0]
        elif node.type == "average_pooling":
            images, averaging = node.operands[0], average_kernels(operation)
            line = convolution_config(operation, len(averaging)) + " learning-rate-factor=0"
            self.values[self.names[node]] = convolution_parameters(operation, averaging, None)
        else:
            kernels, images, *bias = node.operands
            if not all(operand.is_parameter for operand in (kernels, *bias)):
                raise self._error(node, "has kernels or a bias that are no parameters")
            line = convolution_config(operation, kernels.shape.rows)
            given = bias[0].memory.flatten() if bias else None
            self.values[self.names[node]] = convolution_parameters(operation, kernels.memory.T, given)
        return self._line(self.names[node], line, self._framed(node, images))

    def _framed(self, node: Node, images: Node) -> str:
        """Returns the image that the windows of a node touch: rows of pixels between zeros."""
        parts = []
        for number, (first, count, before, after) in enumerate(framed_rows(node.operation)):  # type: ignore[arg-type]
            parts += [f"Const(0.0, {before})"] * bool(before)
            if count:
                parts.append(self._range(self._free(f"{self.names[node]}.row{number}"), images, first, count))
            parts += [f"Const(0.0, {after})"] * bool(after)
        return f"Append({', '.join(parts)})" if parts else self._seen(images)

    def _bias_of(self, node: Node) -> Node | None:
        """Returns the product of W X + b, if the node is that and nobody else uses the product."""
        for product, bias in (node.operands, node.operands[::-1]):
            is_bias = bias.is_parameter and bias.shape.rows == node.shape.rows
            is_product = product.type in _PRODUCTS and product.operands[0].is_parameter
            is_seen = len(self.users[product]) > 1 or product in self.network.outputs.values()
            if is_bias and is_product and not is_seen:
                return product
        return None

    def _times(self, node: Node) -> str:
        W, x = node.operands
        if not W.is_parameter:
            raise self._error(node, "has a first operand that is no parameter")
        if any(user.type == "plus" and self._bias_of(user) is node for user in self.users.get(node, ())):
            return ""  # part of an AffineComponent
        self.values[self.names[node]] = {"params": W.memory.T}
        dims = f"input-dim={x.shape.rows} output-dim={node.shape.rows}"
        return self._line(self.names[node], f"LinearComponent {dims}", self._seen(x))


def anchored(nodes: Sequence[Node]) -> set[Node]:
    """Nodes (in forward order) that exist only in frames of an input: not everything in them is a delay."""
    found: set[Node] = set()
    for node in nodes:
        is_input = not node.operands and node.shape.has_samples
        if is_input or (not node.lag and any(operand in found for operand in node.operands)):
            found.add(node)
    return found
