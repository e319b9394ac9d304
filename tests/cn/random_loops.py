"""Random recurrences of computational networks: lags in both directions, delays of delays, stacks, sums, functions."""

from __future__ import annotations

from random import Random

import numpy as np

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.engine.schedule import reached
from tests.cn.random_graphs import RandomGraph

LAGS = (1, 2, 3, -1, -2, -3)
_ROWS = 2  # of most nodes


def random_loop(random: Random, lag: int) -> tuple[Node, list[Node]]:
    """A criterion and outputs of a loop that goes back by `lag` frames, over inputs "x" of two rows and "u" of one."""
    rng = np.random.default_rng(random.randrange(2**31))

    def weights(rows: int, cols: int) -> Node:
        name = f"P{len(made)}"
        made.append(cn.parameter(name, (rows, cols), rng.normal(size=(rows, cols)) * 0.6))
        return made[-1]

    made: list[Node] = []
    x, u = cn.input("x", _ROWS), cn.input("u", 1)
    closed = [cn.delay(None, lag, dim=_ROWS)]
    pool: list[Node] = [closed[0]]
    if random.random() < 0.3:
        closed.append(cn.delay(None, random.choice([1, 2]) * lag, dim=_ROWS))
        pool.append(closed[-1])
    for _ in range(random.randint(1, 4)):
        a, b = pool[-1], random.choice([*pool, x])
        kind = random.choice(["operand", "add", "product", "function", "affine", "stack", "slice", "delay", "back"])
        if kind == "operand":
            a = random.choice([cn.plus, cn.minus, cn.element_times])(a, random.choice([u, x, b]))
        elif kind == "add":
            a = cn.plus(a, b)
        elif kind == "product":
            a = cn.element_times(a, cn.sigmoid(b))
        elif kind == "function":
            a = random.choice([cn.tanh, cn.sigmoid, cn.copy, cn.negate])(a)
        elif kind == "affine":
            a = cn.plus(weights(_ROWS, _ROWS) @ a, weights(_ROWS, 1))
        elif kind == "stack":
            parts = random.choice([(a, b), (b, a), (u, a), (a, u)])
            stack = cn.row_stack(*parts)
            a = weights(_ROWS, stack.shape.rows) @ stack
            pool.append(cn.row_slice(stack, random.choice([0, 1]), _ROWS))
        elif kind == "slice":
            a = cn.row_slice(cn.row_stack(b, a), random.choice([0, 1, 2]), _ROWS)
        elif kind == "delay":
            a = cn.delay(a, lag)
        else:
            a = cn.delay(cn.delay(a, 2 * lag), -lag)
        pool.append(a)
    top = pool[-1]
    ways = [lambda: weights(_ROWS, _ROWS) @ top, lambda: cn.tanh(top), lambda: weights(_ROWS, 3) @ cn.row_stack(u, top)]
    state = random.choice(ways)()
    if x not in reached([state], lambda node: node.operands) or random.random() < 0.3:
        state = cn.plus(state, x)
    for delay in closed:
        delay.connect(state if delay is closed[0] else random.choice([state, cn.tanh(state)]))
    shown = random.choice([state, top, random.choice(pool), cn.row_stack(x, top)])
    target = weights(1, shown.shape.rows) @ cn.tanh(shown)
    return cn.square_error(u, target), [shown]


def random_loop_graph(random: Random) -> RandomGraph:
    """(criterion, output, inputs) of a loop with any lag, for sequences of random lengths."""
    criterion, (last,) = random_loop(random, random.choice(LAGS))
    lengths = [random.randint(1, 7) for _ in range(random.randint(1, 3))]
    rng = np.random.default_rng(random.randrange(2**31))
    return (
        criterion,
        last,
        {
            name: cn.sequences([rng.normal(size=(rows, count)) for count in lengths])
            for name, rows in (("x", _ROWS), ("u", 1))
        },
    )
