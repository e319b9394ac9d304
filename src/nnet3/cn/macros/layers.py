"""Sums of products with a bias (1.165 to 1.168), layers of deep networks (Algorithm 1.1) and of tensor networks."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TypeAlias

from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import relu, sigmoid
from nnet3.cn.nodes.convolution import Convolution
from nnet3.cn.nodes.dropout import dropout
from nnet3.cn.nodes.leaves import parameter
from nnet3.cn.nodes.pooling import MaxPooling
from nnet3.cn.nodes.products import khatri_rao_product, times
from nnet3.cn.nodes.sums import plus
from nnet3.cn.nodes.windows import window_options
from nnet3.errors import ArgumentError, check_kind


def macro_2w1b(w1: Node, i1: Node, w2: Node, i2: Node, b: Node, *, name: str = "") -> Node:
    """W1 I1 + W2 I2 + b (1.165, 1.166)."""
    return plus(plus(times(w1, i1), times(w2, i2)), b, name=name)


def macro_3w1b(w1: Node, i1: Node, w2: Node, i2: Node, w3: Node, i3: Node, b: Node, *, name: str = "") -> Node:
    """W1 I1 + W2 I2 + W3 I3 + b (1.167, 1.168)."""
    return plus(macro_2w1b(w1, i1, w2, i2, b), times(w3, i3), name=name)


def affine(x: Node, dim: int, *, name: str) -> Node:
    """W X + b with parameters `name.W` (dim x rows of X) and `name.b`."""
    check_kind(x, Node, "the input of a layer", "a node")
    W, b = parameter(f"{name}.W", (dim, x.shape.rows)), parameter(f"{name}.b", (dim, 1))
    return plus(times(W, x), b, name=name)


def check_activation(activation: object) -> None:
    """Raise ArgumentError for what is no function of a node."""
    if not callable(activation):
        raise ArgumentError(f"an activation must be a function such as cn.relu, got {activation!r}")


def dnn_layer(
    x: Node, dim: int, *, name: str, activation: Callable[..., Node] = sigmoid, dropout_rate: float = 0.0
) -> Node:
    """activation(W X + b), with dropout if a rate is given. The value's node is called `name`."""
    check_activation(activation)
    check_kind(dropout_rate, numbers.Real, "a rate of dropout", "a number")
    plain = affine(x, dim, name=f"{name}.affine")
    if dropout_rate == 0:
        return activation(plain, name=name)
    return dropout(dropout_rate, activation(plain), name=name)


def dnn(
    x: Node,
    hidden: Sequence[int],
    outputs: int,
    *,
    name: str = "dnn",
    activation: Callable[..., Node] = sigmoid,
    dropout_rate: float = 0.0,
) -> Node:
    """Hidden layers `name.1`, `name.2`, ... of the given sizes, and `name.output`: values before a softmax."""
    check_kind(hidden, (list, tuple), "the hidden layers of a dnn", "a list of sizes")
    for number, dim in enumerate(hidden, 1):
        x = dnn_layer(x, dim, name=f"{name}.{number}", activation=activation, dropout_rate=dropout_rate)
    return affine(x, outputs, name=f"{name}.output")


def tensor_layer(x: Node, y: Node, dim: int, *, name: str, activation: Callable[..., Node] = sigmoid) -> Node:
    """A layer of a tensor network: activation(W vec(x_j y_j^T) + b) for each column j.

    Each output sees all products of an element of x and an element of y, by their Khatri-Rao product.
    """
    check_activation(activation)
    return activation(affine(khatri_rao_product(x, y), dim, name=f"{name}.affine"), name=name)


Image: TypeAlias = tuple[int, int, int]


def cnn_block(
    x: Node,
    image: Image,
    channels: int,
    *,
    name: str,
    window: tuple[int, int] | int = 3,
    pad: bool = True,
    pool: tuple[int, int] | int | None = 2,
    activation: Callable[..., Node] = relu,
) -> tuple[Node, Image]:
    """pool(activation(convolution + bias)), and the (rows, columns, channels) of the images it gives.

    Parameters `name.K` (channels x window) and `name.b` (channels x 1, the same for each pixel). `pool`: window and
    stride of max pooling, None for none.
    """
    check_activation(activation)
    operation = Convolution(*window_options(image, window, 1, pad))
    bias = parameter(f"{name}.b", (channels, 1))
    kernels = parameter(f"{name}.K", (channels, operation.num_weights))
    down, across = operation.value_size
    convolved = Node(operation, (kernels, x, bias))
    active = activation(convolved, name=name if pool is None else "")
    if pool is None:
        return active, (down, across, channels)
    pooling = MaxPooling(*window_options((down, across, channels), pool, pool, False))
    return Node(pooling, (active,), name), (*pooling.value_size, channels)
