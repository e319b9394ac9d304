"""A layer of a tensor network: a bilinear form of two hidden vectors, by their Khatri-Rao product."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.cn.macros.layers import affine, check_activation
from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import sigmoid
from nnet3.cn.nodes.products import khatri_rao_product


def tensor_layer(x: Node, y: Node, dim: int, *, name: str, activation: Callable[..., Node] = sigmoid) -> Node:
    """activation(W vec(x_j y_j^T) + b) for each column j: each output sees all products of an element of x and of y."""
    check_activation(activation)
    return activation(affine(khatri_rao_product(x, y), dim, name=f"{name}.affine"), name=name)
