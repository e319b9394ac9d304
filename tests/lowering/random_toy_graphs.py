"""Random toy graphs with requests that fit them: a function of a seed."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from nnet3.engine.lowering.source import Operand, Use
from tests.lowering.toy_front_end import Gathering, Look, Part, Term, ToyGraph
from tests.lowering.toy_operations import (
    AddBias,
    Affine,
    MatMul,
    MemoTanh,
    MergingMatMul,
    Plus,
    Product,
    SquaredNorm,
    Sum,
    Tanh,
    Window,
)
from tests.lowering.toy_requests import ToyCase, ask, random_tensor
from tests.seeds import shifted

LAYERS = (
    *("multiply", "multiply", "tanh", "product", "plus", "bias", "gathered_sum", "stack", "view", "shift", "delay"),
    *("loop", "loop", "nested_loop", "window", "affine", "sum", "norm", "matrix_product", "matrix_view"),
    "another_input",
)


def random_toy_case(seed: int) -> ToyCase:
    """Graph and request number `seed`."""
    for attempt in range(20):
        case = _Builder(random.Random(shifted(seed) + 10**6 * attempt), shifted(seed)).build()
        if case is not None:
            return case
    raise AssertionError(f"seed {seed}: no graph has anything computable")


class _Builder:
    def __init__(self, rng: random.Random, seed: int):
        self.rng = rng
        self.generator = torch.Generator().manual_seed(seed)
        self.case = ToyCase(seed, ToyGraph(), {})
        self.graph = self.case.graph
        self.graph.order = rng.choice(["as it is", "as it is", "blocks", "sequences"])
        self.width = rng.choice([1, 2, 3])
        self.rows: list[int] = []  # values with samples and self.width columns
        self.bounded: set[int] = set()  # those that only exist where an input is
        self.matrices: list[int] = []  # (width, width), without samples
        self.biases: list[int] = []  # (1, width), without samples
        self.summed: list[int] = []
        self.depth = 0

    def build(self) -> ToyCase | None:
        rng = self.rng
        self.clock = self._input()
        for _ in range(rng.randint(1, 2)):
            self.matrices.append(self._parameter(self.width))
        self.biases.append(self._parameter(1))
        for _ in range(rng.randint(1, 6)):
            getattr(self, "_" + rng.choice(LAYERS))()
        return self.case if ask(self.case, self.rng, self.generator, self.clock, self.summed) else None

    # ---- choosing ----

    def _random(self, *shape: int) -> Tensor:
        return random_tensor(self.generator, *shape)

    def _some(self, *, bounded: bool = False) -> int:
        """A value with samples, more often a late one."""
        choices = [node for node in self.rows if node in self.bounded] if bounded else self.rows
        return self.rng.choice(choices[-3:] if self.rng.random() < 0.7 else choices)

    def _keep(self, node: int, *operands: int) -> int:
        self.rows.append(node)
        if any(operand in self.bounded for operand in operands):
            self.bounded.add(node)
        return node

    def _adds(self) -> bool:
        return self.rng.random() < 0.6

    def _name(self) -> str:
        return f"kernel{len(self.graph.nodes)}"

    # ---- leaves ----

    def _input(self) -> int:
        node = self.graph.input(self.width)
        self.bounded.add(node)
        return self._keep(node)

    def _another_input(self) -> None:
        self._input()

    def _parameter(self, rows: int) -> int:
        trained = self.rng.random() < 0.8
        node = self.graph.parameter(rows, self.width, trained)
        spec = self.graph.nodes[node]
        self.case.memory[spec.memory] = self._random(rows, self.width)
        if trained:
            self.case.memory[spec.gradient] = self._random(rows, self.width)
        return node

    # ---- layers ----

    def _multiply(self) -> None:
        self._multiplied(self._some())

    def _multiplied(self, rows: int) -> int:
        """Kernels without a state of their own share a name now and then."""
        kind = self.rng.choice([MatMul, MergingMatMul])
        shared = self.rng.random() < 0.5
        operation = kind(f"shared.{kind.__name__}", True) if shared else kind(self._name(), self._adds())
        return self._keep(self.graph.multiply(rows, self.rng.choice(self.matrices), operation), rows)

    def _tanh(self) -> None:
        self._squashed(self._some())

    def _squashed(self, rows: int) -> int:
        operation = self.rng.choice([Tanh, MemoTanh])(self._name(), self._adds())
        return self._keep(self.graph.compute(operation, Operand(rows), num_cols=self.width), rows)

    def _both(self, kind: type[Plus] | type[Product], first: int, second: int) -> int:
        node = self.graph.compute(
            kind(self._name(), self._adds()), Operand(first), Operand(second), num_cols=self.width
        )
        return self._keep(node, first, second)

    def _product(self) -> None:
        self._both(Product, self._some(bounded=True), self._some())

    def _plus(self) -> None:
        self._both(Plus, self._some(bounded=True), self._some())

    def _bias(self) -> None:
        rows = self._some()
        operands = Operand(rows), Operand(self.rng.choice(self.biases), Use.WHOLE)
        self._keep(self.graph.compute(AddBias(self._name(), self._adds()), *operands, num_cols=self.width), rows)

    def _affine(self) -> None:
        weight = self._random(self.width, self.width)
        operation = Affine(self._name(), self._adds(), weight, self.rng.random() < 0.5)
        for _ in range(self.rng.choice([1, 1, 2])):
            rows = self._some()
            self._keep(self.graph.compute(operation, Operand(rows), num_cols=self.width), rows)

    def _window(self) -> None:
        offsets = sorted(self.rng.sample([-2, -1, 0, 1, 2], self.rng.randint(1, 3)))
        weight = self._random(self.width * len(offsets), self.width)
        rows = self._some(bounded=True)
        operation = Window(self._name(), self._adds(), weight, False, offsets)
        self._keep(self.graph.window(rows, operation, self.width), rows)

    # ---- gathered ----

    def _look(self, source: int, move: int, scales: dict[int, float]) -> Look:
        return Look(source, move, scales.setdefault(source, self.rng.choice([1.0, 1.0, 1.0, -0.5])))

    def _part(self) -> tuple[Part, bool]:
        """A sum of a few terms, and whether one of them exists only where an input is."""
        scales: dict[int, float] = {}
        terms, bounded = [], False
        for number in range(self.rng.randint(1, 3)):
            looks = [self._look(self._some(), self.rng.choice([0, 0, 0, -1, 2]), scales)]
            if self.rng.random() < 0.2:
                looks.append(self._look(self._some(), self.rng.choice([0, -1, 1]), scales))
            optional = number > 0 and self.rng.random() < 0.4
            terms.append(Term(tuple(looks), optional))
            bounded |= not optional and all(look.source in self.bounded for look in looks)
        constant = self.rng.choice([0.0, 0.0, 0.25])
        return Part(tuple(terms), self.width, constant), bounded

    def _gathered_sum(self) -> None:
        part, bounded = self._part()
        node = self._keep(self.graph.gather(part))
        if bounded:
            self.bounded.add(node)

    def _stack(self) -> None:
        """Two parts side by side, brought back to the usual width by views or a window."""
        parts = [self._part() for _ in range(2)]
        node = self.graph.gather(*(part for part, _ in parts))
        if any(bounded for _, bounded in parts):
            self.bounded.add(node)
        for first in {0, self.rng.randint(0, self.width)}:
            self._keep(self.graph.view(node, first, self.width), node)

    def _view(self) -> None:
        """Of a wide product, and a view of the view."""
        rows = self._some()
        matrix = self.graph.parameter(self.width, 3 * self.width, True)
        spec = self.graph.nodes[matrix]
        self.case.memory[spec.memory] = self._random(self.width, 3 * self.width)
        self.case.memory[spec.gradient] = self._random(self.width, 3 * self.width)
        node = self.graph.multiply(rows, matrix, MatMul(self._name(), self._adds()))
        outer = self.graph.view(node, self.rng.randint(0, self.width), 2 * self.width)
        for seen, width in ((node, 2 * self.width), (outer, self.width)):
            self._keep(self.graph.view(seen, self.rng.randint(0, width), self.width), rows)

    def _shift(self) -> None:
        source = self._some()
        part = Part((Term((Look(source, self.rng.choice([-2, -1, 1, 3])),)),), self.width)
        self._keep(self.graph.gather(part), source)

    def _delay(self) -> None:
        source, node = self._some(), self.graph.gather(Part((), self.width))
        self._close(node, source, self.rng.choice([1, 2, -1]))
        self._keep(node)

    def _close(self, delay: int, source: int, lag: int) -> None:
        """Make `delay` the rows of `source` `lag` frames ago, then an initial state's or a default."""
        clock = self.clock if self.rng.random() < 0.6 else -1
        looks = [Look(source, -lag)]
        if self.rng.random() < 0.4:
            looks.append(Look(self._input(), -lag))
        default = self.rng.choice([0.0, 0.0, 0.7])
        part = Part((Term(tuple(looks), optional=True),), self.width, 0.0, default)
        self.graph.set_gathering(delay, Gathering((part,), clock))
        if clock >= 0:
            self.bounded.add(delay)

    # ---- loops ----

    def _loop(self) -> None:
        self._looped(self.rng.choice([1, 1, 2, -1]), nested=False)

    def _nested_loop(self) -> None:
        self._looped(self.rng.choice([1, 2, -1]), nested=True)

    def _looped(self, lag: int, *, nested: bool) -> None:
        delays = [self.graph.gather(Part((), self.width)) for _ in range(1 + nested)]
        known = len(self.rows)
        anchor = self._some(bounded=True)
        value = anchor
        of_two: list[type[Plus] | type[Product]] = [Plus, Product]
        for delay in delays:
            value = self._both(self.rng.choice(of_two), value, delay)
            for _ in range(self.rng.randint(0, 2)):
                value = self.rng.choice([self._multiplied, self._squashed])(value)
            if self.rng.random() < 0.3:
                value = self._both(Product, value, self.rng.choice(self.rows[known:]))
        inner = self.rng.choice(self.rows[known:])
        self._squashed(value)
        for delay, source in zip(delays, (self.rows[-1], inner), strict=False):
            same_direction = lag if nested else self.rng.choice([lag, 2 * lag])
            self._close(delay, source, same_direction)
        self.rows += delays

    # ---- without samples ----

    def _sum(self) -> None:
        source = self._some(bounded=True)
        rows = self.graph.rows_of(source)
        self.summed.append(source)
        operation = Sum(self._name(), self._adds())
        operand = Operand(rows, Use.ALL_SAMPLES)
        self.biases.append(self.graph.compute(operation, operand, num_cols=self.width, num_rows=1))

    def _norm(self) -> None:
        """Of a matrix, or of all samples; asked for as an output."""
        operation = SquaredNorm(self._name(), self._adds())
        operand = Operand(self.rng.choice(self.matrices), Use.WHOLE)
        if self.rng.random() < 0.5:
            source = self._some(bounded=True)
            self.summed.append(source)
            operand = Operand(self.graph.rows_of(source), Use.ALL_SAMPLES)
        self.graph.compute(operation, operand, num_cols=1, num_rows=1)

    def _matrix_product(self) -> None:
        operands = [Operand(self.rng.choice(self.matrices), Use.WHOLE) for _ in range(2)]
        operation = MatMul(self._name(), self._adds())
        self.matrices.append(self.graph.compute(operation, *operands, num_cols=self.width, num_rows=self.width))

    def _matrix_view(self) -> None:
        wide = self.graph.parameter(self.width, 2 * self.width, True)
        spec = self.graph.nodes[wide]
        for name in (spec.memory, spec.gradient):
            self.case.memory[name] = self._random(self.width, 2 * self.width)
        self.matrices.append(self.graph.view(wide, self.rng.randint(0, self.width), self.width))
