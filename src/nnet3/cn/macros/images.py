"""A block of a convolutional network: convolution, bias, nonlinearity, pooling (Section 1.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nnet3.cn.macros.layers import check_activation
from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import relu
from nnet3.cn.nodes.convolution import Convolution
from nnet3.cn.nodes.leaves import parameter
from nnet3.cn.nodes.pooling import MaxPooling
from nnet3.cn.nodes.windows import window_options

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
    down, across = operation.windows.output_size
    convolved = Node(operation, (kernels, x, bias))
    active = activation(convolved, name=name if pool is None else "")
    if pool is None:
        return active, (down, across, channels)
    pooling = MaxPooling(*window_options((down, across, channels), pool, pool, False))
    return Node(pooling, (active,), name), (*pooling.windows.output_size, channels)
