"""The LSTM with peepholes, node for node as (1.152) to (1.164), and the bidirectional one."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.cn.macros.layers import macro_2w1b, macro_3w1b
from nnet3.cn.node import Node, checked_name
from nnet3.cn.nodes.activations import sigmoid, tanh
from nnet3.cn.nodes.delay import delay
from nnet3.cn.nodes.leaves import input, parameter
from nnet3.cn.nodes.recurrent import lstm_layer
from nnet3.cn.nodes.rows import row_stack
from nnet3.cn.nodes.scaling import diag_times
from nnet3.cn.nodes.sums import element_times, plus
from nnet3.errors import check_kind


@dataclass(frozen=True)
class Lstm:
    """Nodes of one LSTM: `h` is the output, `c` the cell. The states are inputs if the state is carried, else None."""

    h: Node
    c: Node
    h_state: Node | None = None
    c_state: Node | None = None


def lstm(x: Node, cells: int, *, name: str = "lstm", lag: int = 1, diagonal: bool = True, carry: bool = False) -> Lstm:
    """An LSTM over the frames of `x`; lag -1 makes it run backward in time.

    The chapter says that the weights from the cell to the gates are diagonal, but writes W^(cf) C and W^(co) C as
    full products in (1.156) and (1.162): `diagonal` takes d^(cf) and d^(co), else all of the matrices W^(cf), W^(co).
    With `carry` the first h and c come from inputs `name.h0` and `name.c0`, a column for each sequence. Parameters are
    `name.Wxi`, `name.Whi`, `name.dci`, `name.bi` and so on.
    """
    check_kind(x, Node, "the input of an LSTM", "a node")
    check_kind(cells, int, "the number of cells of an LSTM", "an integer")
    checked_name(name)
    rows, axis = x.shape.rows, x.shape.axis or None

    def W(gate: str) -> Node:
        return parameter(f"{name}.Wx{gate}", (cells, rows))

    def R(gate: str) -> Node:
        return parameter(f"{name}.Wh{gate}", (cells, cells))

    def b(gate: str) -> Node:
        return parameter(f"{name}.b{gate}", (cells, 1))

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


def fast_lstm(x: Node, cells: int, *, name: str = "lstm", reverse: bool = False) -> Node:
    """An LSTM without peepholes over the frames of `x`, as one node (see `lstm_layer`): its outputs, called `name`.

    Parameters are `name.W`, `name.R` and `name.b`; with `reverse` it runs backward in time.
    """
    check_kind(x, Node, "the input of an LSTM", "a node")
    check_kind(cells, int, "the number of cells of an LSTM", "an integer")
    checked_name(name)
    W, R = parameter(f"{name}.W", (4 * cells, x.shape.rows)), parameter(f"{name}.R", (4 * cells, cells))
    return lstm_layer(x, W, R, parameter(f"{name}.b", (4 * cells, 1)), reverse=reverse, name=name)


def blstm(x: Node, cells: int, *, name: str = "blstm", diagonal: bool = True) -> Node:
    """An LSTM forward in time and one backward, their outputs on top of each other: 2 * cells rows."""
    forward = lstm(x, cells, name=f"{name}.forward", diagonal=diagonal)
    backward = lstm(x, cells, name=f"{name}.backward", lag=-1, diagonal=diagonal)
    return row_stack(forward.h, backward.h, name=name)
