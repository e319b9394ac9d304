"""Random computational networks: any operations of fitting shapes, delays, loops, parameters shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.cn.nodes.delay import DelayNode

T = TypeVar("T")
RandomGraph = tuple[Node, Node, dict[str, cn.Sequences | np.ndarray]]
ONE_OPERAND = (cn.negate, cn.sigmoid, cn.tanh, cn.softmax, cn.log_softmax, cn.copy)
TWO_OPERANDS = (cn.plus, cn.minus, cn.element_times)
ROWS = (1, 2, 3)
KINDS = (
    *("one", "two", "times", "delay", "loop", "slice", "stack", "scale", "fixed", "rao"),
    *("log", "cos", "diag", "image"),
)


class Maker:
    """Draws nodes one after the other; `pool` holds what may be an operand."""

    def __init__(self, random: Random, kinds: Sequence[str] = KINDS):
        self.kinds, self.random, self.rng = kinds, random, np.random.default_rng(random.randrange(2**31))
        self.pool: list[Node] = [cn.input("x", 3), cn.input("y", 2)]
        self.parameters: dict[tuple[int, int], list[Node]] = {}
        self.open: list[DelayNode] = []

    def choose(self, choices: Iterable[T]) -> T:
        return self.random.choice(list(choices))

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def parameter(self, rows: int, cols: int) -> Node:
        """A parameter of this shape, sometimes one that is used already."""
        known = self.parameters.setdefault((rows, cols), [])
        if not known or self.coin():
            name = f"P{rows}{cols}_{len(known)}"
            known.append(cn.parameter(name, (rows, cols), self.rng.normal(size=(rows, cols))))
        return self.choose(known)

    def samples(self, rows: int | None = None) -> Node:
        found = [node for node in self.pool if node.shape.has_samples and rows in (None, node.shape.rows)]
        if found:
            return self.choose(found)
        assert rows is not None
        other = self.choose([node for node in self.pool if node.shape.has_samples])
        return cn.times(self.parameter(rows, other.shape.rows), other)

    def step(self) -> None:
        kind = self.choose(self.kinds)
        if kind == "one":
            self.pool.append(self.choose(ONE_OPERAND)(self.samples()))
        elif kind == "two":
            x = self.samples()
            rows = x.shape.rows
            others = [lambda: self.samples(rows), lambda: self.parameter(rows, 1), lambda: self.samples(1)]
            self.pool.append(self.choose(TWO_OPERANDS)(x, self.choose(others)()))
        elif kind == "times":
            x = self.samples()
            self.pool.append(cn.times(self.parameter(self.choose(ROWS), x.shape.rows), x))
        elif kind == "delay":
            lag = self.choose((1, 2, -1, -2))
            self.pool.append(cn.delay(self.samples(), lag, self.choose((0.0, 0.5))))
        elif kind == "loop":
            delay = cn.delay(None, self.loop_lag(), dim=self.choose(ROWS))
            self.open.append(delay)
            self.pool.append(delay)
        elif kind == "slice":
            x = self.samples(3)
            self.pool.append(cn.row_slice(x, self.choose((0, 1)), 2))
        elif kind == "stack":
            self.pool.append(cn.row_slice(cn.row_stack(self.samples(), self.samples()), 0, 2))
        elif kind == "scale":
            self.pool.append(cn.scale(self.parameter(1, 1), self.samples()))
        elif kind == "log":
            self.pool.append(cn.log(self._positive()))
        elif kind == "cos":
            x = self.samples()
            away = cn.constant([0.37, 0.91, -0.53][: x.shape.rows])  # zeros have no direction
            self.pool.append(cn.cos(cn.plus(x, away), cn.plus(self.samples(x.shape.rows), away)))
        elif kind == "diag":
            x = self.samples()
            self.pool.append(cn.diag_times(self.parameter(x.shape.rows, 1), x))
        elif kind == "image":
            self.pool.append(self._image())
        elif kind == "rao":
            self.pool.append(cn.times(self.parameter(2, 4), cn.khatri_rao_product(self.samples(2), self.samples(2))))
        else:
            x = cn.tanh(self.parameter(2, 3) @ self.parameter(3, 2))
            self.pool.append(x @ self.samples(2))

    def _positive(self) -> Node:
        return cn.plus(cn.exp(cn.tanh(self.samples())), cn.constant(0.1))

    def _image(self) -> Node:
        """A convolution or a pooling of images of 2 x 3 pixels and one channel."""
        image = cn.times(self.parameter(6, 2), self.samples(2))
        made = self.choose(
            (
                lambda: cn.convolution(self.parameter(2, 4), image, image=(2, 3, 1), window=2),
                lambda: cn.convolution(
                    self.parameter(1, 3), image, self.parameter(1, 1), image=(2, 3, 1), window=(1, 3), pad=True
                ),
                lambda: cn.transposed_convolution(
                    self.parameter(2, 4), image, self.parameter(2, 1), image=(3, 1, 2), window=(1, 2), stride=(2, 1)
                ),
                lambda: cn.max_pooling(image, image=(2, 3, 1), window=(2, 2)),
                lambda: cn.average_pooling(image, image=(1, 3, 2), window=(1, 2)),
            )
        )()
        return cn.row_slice(made, 0, 2)

    def loop_lag(self) -> int:
        """One direction for all loops, which may be nested: else a value might need itself."""
        return self.choose((1, 2))

    def close(self) -> None:
        for delay in self.open:
            others = [
                n for n in self.pool if n.shape.rows == delay.shape.rows and n.shape.has_samples and n is not delay
            ]
            source = self.choose(others) if others else self.samples(delay.shape.rows)
            delay.connect(cn.tanh(cn.plus(source, self.parameter(delay.shape.rows, 1))))


def networks() -> st.SearchStrategy[RandomGraph]:
    return st.randoms(use_true_random=False).map(random_graph)


def random_graph(random: Random) -> RandomGraph:
    """(criterion, output, inputs): inputs are independent samples or sequences of random lengths."""
    maker = Maker(random)
    for _ in range(random.randint(2, 9)):
        maker.step()
    maker.close()
    last = maker.pool[-1]
    terms = [cn.square_error(cn.tanh(maker.parameter(2, last.shape.rows) @ last), maker.pool[1])]
    if maker.coin():
        norm = maker.choose((cn.l2_norm, cn.squared_norm))
        terms.append(cn.scale(0.1, norm(maker.parameter(2, last.shape.rows))))
    if maker.coin():
        terms.append(cn.sum_elements(cn.sigmoid(maker.choose(maker.pool))))
    if maker.coin():
        one, other = cn.softmax(maker.samples(2)), maker.samples(2)
        criteria: list[Callable[..., Node]] = [cn.cross_entropy, cn.cross_entropy_with_softmax]
        terms.append(maker.choose(criteria)(one, cn.softmax(other)))
    if maker.coin():
        terms.append(cn.l1_norm(cn.tanh(maker.samples())))
    criterion = terms[0]
    for term in terms[1:]:
        criterion = cn.plus(criterion, term)
    lengths = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    rng = maker.rng
    inputs: dict[str, cn.Sequences | np.ndarray]
    if maker.coin():
        inputs = {n: cn.sequences([rng.normal(size=(r, t)) for t in lengths]) for n, r in (("x", 3), ("y", 2))}
    else:
        inputs = {n: rng.normal(size=(r, len(lengths))) for n, r in (("x", 3), ("y", 2))}
    return criterion, last, inputs
