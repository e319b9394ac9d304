"""Layers: sums of products with a bias (1.165 to 1.168), deep and tensor networks, images, LSTMs (1.152 to 1.164)."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nnet3.cn.node import Node, checked_name
from nnet3.cn.nodes.activations import relu, sigmoid, tanh
from nnet3.cn.nodes.columns import row_slice, row_stack
from nnet3.cn.nodes.component import component
from nnet3.cn.nodes.convolution import Convolution, MaxPooling, window_options
from nnet3.cn.nodes.delay import delay
from nnet3.cn.nodes.dropout import dropout
from nnet3.cn.nodes.leaves import input, parameter
from nnet3.cn.nodes.products import diag_times, khatri_rao_product, times
from nnet3.cn.nodes.recurrent import lstm_layer
from nnet3.cn.nodes.sequence import attention
from nnet3.cn.nodes.sums import element_times, minus, plus
from nnet3.errors import ArgumentError, check_kind


def macro_2w1b(w1: Node, i1: Node, w2: Node, i2: Node, b: Node, *, name: str = "") -> Node:
    """Returns W1 I1 + W2 I2 + b (1.165, 1.166)."""
    return plus(plus(times(w1, i1), times(w2, i2)), b, name=name)


def macro_3w1b(w1: Node, i1: Node, w2: Node, i2: Node, w3: Node, i3: Node, b: Node, *, name: str = "") -> Node:
    """Returns W1 I1 + W2 I2 + W3 I3 + b (1.167, 1.168)."""
    return plus(macro_2w1b(w1, i1, w2, i2, b), times(w3, i3), name=name)


def affine(x: Node, dim: int, *, name: str) -> Node:
    """Returns W X + b with parameters `name.W` (dim x rows of X) and `name.b`."""
    check_kind(x, Node, "the input of a layer", "a node")
    W, b = parameter(f"{name}.W", (dim, x.shape.rows)), parameter(f"{name}.b", (dim, 1))
    return plus(times(W, x), b, name=name)


def check_activation(activation: object) -> None:
    """Raises ArgumentError for what is no function of a node."""
    if not callable(activation):
        raise ArgumentError(f"an activation must be a function such as cn.relu, got {activation!r}")


def dnn_layer(
    x: Node, dim: int, *, name: str, activation: Callable[..., Node] = sigmoid, dropout_rate: float = 0.0
) -> Node:
    """Returns activation(W X + b), `dim` rows, named `name`; `dropout_rate` of the elements become 0 in training."""
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
    """Returns `name.output`, `outputs` rows before a softmax, above hidden layers `name.1`, ... of given sizes."""
    check_kind(hidden, (list, tuple), "the hidden layers of a dnn", "a list of sizes")
    for number, dim in enumerate(hidden, 1):
        x = dnn_layer(x, dim, name=f"{name}.{number}", activation=activation, dropout_rate=dropout_rate)
    return affine(x, outputs, name=f"{name}.output")


def tensor_layer(x: Node, y: Node, dim: int, *, name: str, activation: Callable[..., Node] = sigmoid) -> Node:
    """Returns a layer of a tensor network: activation(W vec(x_j y_j^T) + b) for each column j.

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


@dataclass(frozen=True)
class Lstm:
    """Nodes of one LSTM: `h` is the output, `c` the cell. The states are inputs if the state is carried, else None."""

    h: Node
    c: Node
    h_state: Node | None = None
    c_state: Node | None = None


def lstm(x: Node, cells: int, *, name: str = "lstm", lag: int = 1, diagonal: bool = True, carry: bool = False) -> Lstm:
    """Returns an LSTM of `cells` cells over the frames of `x`; lag -1 makes it run backward in time.

    The chapter says that the weights from the cell to the gates are diagonal, but writes W^(cf) C and W^(co) C as
    full products in (1.156) and (1.162): `diagonal` takes d^(cf) and d^(co), else all of the matrices W^(cf), W^(co).
    With `carry` the first h and c come from inputs `name.h0` and `name.c0`, a column for each sequence. Parameters are
    `name.Wxi`, `name.Whi`, `name.dci`, `name.bi` and so on.
    """
    check_kind(x, Node, "the input of an LSTM", "a node")
    check_kind(cells, int, "the number of cells of an LSTM", "an integer")
    checked_name(name)
    rows, axis = x.shape.rows, x.shape.axis or None

    W, R, b = _of_gates(name, cells, rows)
    h0 = input(f"{name}.h0", cells, axis=axis) if carry else None
    c0 = input(f"{name}.c0", cells, axis=axis) if carry else None
    Hd = delay(None, lag, dim=cells, initial=h0, axis=axis, name=f"{name}.Hd")  # (1.152)
    Cd = delay(None, lag, dim=cells, initial=c0, axis=axis, name=f"{name}.Cd")  # (1.153)

    def peephole(gate: str, c: Node) -> Node:
        # Small random weights, the same for the same name.
        small = 0.1 * parameter((name + gate).replace(".", "_"), (cells, 2)).value[:, :1]
        return diag_times(parameter(f"{name}.dc{gate}", (cells, 1), small), c)

    def gate_sum(gate: str, c: Node) -> Node:
        if diagonal or gate == "i":
            return plus(macro_2w1b(W(gate), x, R(gate), Hd, b(gate)), peephole(gate, c))
        return macro_3w1b(W(gate), x, R(gate), Hd, parameter(f"{name}.Wc{gate}", (cells, cells)), c, b(gate))

    i = sigmoid(gate_sum("i", Cd), name=f"{name}.i")  # (1.154, 1.155)
    f = sigmoid(gate_sum("f", Cd), name=f"{name}.f")  # (1.156, 1.157)
    T3 = macro_2w1b(W("c"), x, R("c"), Hd, b("c"))  # (1.158)
    T4 = element_times(f, Cd)  # (1.159)
    T5 = element_times(i, tanh(T3))  # (1.160)
    c = plus(T4, T5, name=f"{name}.c")  # (1.161)
    o = sigmoid(gate_sum("o", c), name=f"{name}.o")  # (1.162, 1.163)
    h = element_times(o, tanh(c), name=f"{name}.h")  # (1.164)
    Hd.connect(h)
    Cd.connect(c)
    return Lstm(h, c, h0, c0)


@dataclass(frozen=True)
class Gru:
    """The output node of a GRU, and the input for its first state, if any."""

    h: Node
    h0: Node | None = None


def fast_lstm(x: Node, cells: int, *, name: str = "lstm", reverse: bool = False) -> Node:
    """Returns the outputs, called `name`, of an LSTM without peepholes over the frames of `x`; see `lstm_layer`.

    Parameters are `name.W`, `name.R` and `name.b`; with `reverse` the LSTM runs backward in time.
    """
    check_kind(x, Node, "the input of an LSTM", "a node")
    check_kind(cells, int, "the number of cells of an LSTM", "an integer")
    checked_name(name)
    W, R = parameter(f"{name}.W", (4 * cells, x.shape.rows)), parameter(f"{name}.R", (4 * cells, cells))
    return lstm_layer(x, W, R, parameter(f"{name}.b", (4 * cells, 1)), reverse=reverse, name=name)


def blstm(x: Node, cells: int, *, name: str = "blstm", diagonal: bool = True) -> Node:
    """Returns an LSTM forward in time and an LSTM backward, outputs stacked: 2 * cells rows."""
    forward = lstm(x, cells, name=f"{name}.forward", diagonal=diagonal)
    backward = lstm(x, cells, name=f"{name}.backward", lag=-1, diagonal=diagonal)
    return row_stack(forward.h, backward.h, name=name)


def gru(x: Node, cells: int, *, name: str = "gru", lag: int = 1, carry: bool = False) -> Gru:
    """Returns a GRU of `cells` rows over the frames of `x`, as PyTorch's; lag -1 makes it run backward in time.

    r = sigmoid(Wxr x + Whr h(t-1) + br), z = sigmoid(Wxz x + Whz h(t-1) + bz),
    n = tanh(Wxn x + bn + r * (Whn h(t-1) + bhn)), h = (1 - z) * n + z * h(t-1).
    With `carry` the first h comes from an input `name.h0`, a column for each sequence. Parameters are `name.Wxr`,
    `name.Whr`, `name.br` and so on.
    """
    check_kind(x, Node, "the input of a GRU", "a node")
    check_kind(cells, int, "the number of cells of a GRU", "an integer")
    checked_name(name)
    rows, axis = x.shape.rows, x.shape.axis or None
    h0 = input(f"{name}.h0", cells, axis=axis) if carry else None
    before = delay(None, lag, dim=cells, initial=h0, axis=axis, name=f"{name}.Hd")

    W, R, b = _of_gates(name, cells, rows)
    r = sigmoid(macro_2w1b(W("r"), x, R("r"), before, b("r")), name=f"{name}.r")
    z = sigmoid(macro_2w1b(W("z"), x, R("z"), before, b("z")), name=f"{name}.z")
    seen = element_times(r, plus(times(R("n"), before), b("hn")))
    n = tanh(plus(plus(times(W("n"), x), b("n")), seen), name=f"{name}.n")
    h = plus(n, element_times(z, minus(before, n)), name=f"{name}.h")
    before.connect(h)
    return Gru(h, h0)


def multi_head_attention(
    query: Node, keys: Node, values: Node, heads: int, *, name: str, dim: int | None = None
) -> Node:
    """Attention by several heads, each in a part of `dim` rows (default: the rows of the query), mixed in the end.

    With q, k and v affine images of `dim` rows, head i attends by rows i of q to rows i of k, and takes rows i of v;
    the value is Wo times all heads on top of each other, plus bo. Parameters are `name.q.W`, `name.q.b`, `name.k.W`
    and so on to `name.o.b`. Raises ArgumentError where the heads do not divide `dim`.
    """
    check_kind(query, Node, "the query of an attention", "a node")
    check_kind(heads, int, "the number of heads", "an integer")
    dim = query.shape.rows if dim is None else dim
    check_kind(dim, int, "the dimension of an attention", "an integer")
    if heads < 1 or dim < 1 or dim % heads:
        raise ArgumentError(f"the heads of '{name}' must divide its {dim} rows, got {heads}")
    q, k, v = (affine(x, dim, name=f"{name}.{key}") for key, x in (("q", query), ("k", keys), ("v", values)))
    size = dim // heads
    parts = [[row_slice(x, first, size) for x in (q, k, v)] for first in range(0, dim, size)]
    found = [attention(*part) for part in parts]
    return affine(found[0] if heads == 1 else row_stack(*found), dim, name=f"{name}.o")


def batch_norm(images: Node, channels: int | None = None, *, name: str) -> Node:
    """Batch normalization with a learnt scale and offset: of every row, or of every one of so many channels.

    The channels of a pixel lie side by side, so that the rows of an image are channels again and again, and all
    pixels of all samples are normalized together. The components are `name.norm` and `name`.
    """
    check_kind(images, Node, "what is normalized", "a node")
    rows = images.shape.rows
    channels = rows if channels is None else channels
    check_kind(channels, int, "the number of channels", "an integer")
    if channels < 1 or rows % channels:
        raise ArgumentError(f"the channels of '{name}' must divide its {rows} rows, got {channels}")
    normed = component(f"BatchNormComponent dim={rows} block-dim={channels} epsilon=1e-5", images, name=f"{name}.norm")
    return component(f"ScaleAndOffsetComponent dim={rows} block-dim={channels}", normed, name=name)


def _of_gates(name: str, cells: int, rows: int) -> tuple[Callable[[str], Node], ...]:
    """Returns functions from a gate to its parameters: (cells, rows) of the input, (cells, cells), and the bias."""
    shapes = {"Wx": (cells, rows), "Wh": (cells, cells), "b": (cells, 1)}
    return tuple(
        lambda gate, kind=kind, shape=shape: parameter(f"{name}.{kind}{gate}", shape) for kind, shape in shapes.items()
    )
