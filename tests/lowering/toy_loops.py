"""Loops of toy graphs over many time steps, with requests: what repeats, and what nearly does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.lowering.source import LoweringRequest, Operand, RequestedRows, Use
from tests.lowering.toy_front_end import Gathering, Look, Part, Term, ToyGraph
from tests.lowering.toy_operations import (
    Affine,
    MatMul,
    MemoTanh,
    MergingAddBias,
    MergingMatMul,
    Plus,
    Product,
    Tanh,
    Window,
)
from tests.lowering.toy_requests import ToyCase
from tests.seeds import shifted

WIDTH = 2


class LoopCase:
    """Makes a graph with loops; `ask` makes it a case. Parameters are random, of a fixed seed."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = ToyGraph()
        self.generator = torch.Generator().manual_seed(shifted(seed))
        self.case = ToyCase(seed, self.graph, {})
        self.input = self.graph.input(WIDTH)

    def random(self, *shape: int) -> Tensor:
        return 0.5 * torch.randn(*shape, dtype=torch.float64, generator=self.generator)

    def parameter(self, num_rows: int = WIDTH) -> int:
        node = self.graph.parameter(num_rows, WIDTH)
        spec = self.graph.nodes[node]
        self.case.memory[spec.memory] = self.random(num_rows, WIDTH)
        self.case.memory[spec.gradient] = self.random(num_rows, WIDTH)
        return node

    def delay(self) -> int:
        return self.graph.gather(Part((), WIDTH))

    def close(self, delay: int, source: int, lag: int = 1, default: float = 0.0) -> None:
        part = Part((Term((Look(source, -lag),), optional=True),), WIDTH, 0.0, default)
        self.graph.set_gathering(delay, Gathering((part,), self.input))

    def compute(self, operation: Tanh | Plus | Product | Affine, *operands: int) -> int:
        return self.graph.compute(operation, *map(Operand, operands), num_cols=WIDTH)

    def multiply(self, rows: int, matrix: int, name: str, merges: bool = True) -> int:
        return self.graph.multiply(rows, matrix, (MergingMatMul if merges else MatMul)(name))

    def ask(self, *outputs: int, ns: tuple[int, ...] = (0, 1, 2), lengths: tuple[int, ...] = (40,)) -> ToyCase:
        """Sequences of these lengths, in turn, with all derivatives."""
        rows = [(n, t, 0) for i, n in enumerate(ns) for t in range(lengths[i % len(lengths)])]
        self.case.given[self.input] = {index: self.random(1, WIDTH).requires_grad_() for index in rows}
        oracle = self.case.oracle()
        tables = [np.array([r for r in rows if oracle.row(node, r) is not None], np.int32) for node in outputs]
        wanted = [RequestedRows(node, f"out{node}", table, True) for node, table in zip(outputs, tables, strict=True)]
        self.case.derivs = {io.name: self.random(len(io.indexes), WIDTH) for io in wanted}
        inputs = [
            RequestedRows(node, f"in{node}", np.array([*given], np.int32), True)
            for node, given in self.case.given.items()
        ]
        self.case.request = LoweringRequest(inputs, wanted, need_model_derivative=True)
        return self.case


def simple(lag: int = 1, merges: bool = True, **asked: tuple[int, ...]) -> ToyCase:
    """h(t) = tanh(x(t) W + h(t - lag) U)."""
    case = LoopCase()
    delay = case.delay()
    below = case.multiply(case.input, case.parameter(), "below")
    around = case.multiply(delay, case.parameter(), "around", merges)
    loop = case.compute(Tanh("tanh"), case.compute(Plus("plus"), below, around))
    case.close(delay, loop, lag, default=0.3)
    return case.ask(loop, **asked)


def bias() -> ToyCase:
    """h(t) = tanh(x(t) + b + h(t - 1)): the gradient of b looks at no value."""
    case = LoopCase()
    delay = case.delay()
    operands = Operand(case.compute(Plus("plus"), case.input, delay)), Operand(case.parameter(1), Use.WHOLE)
    loop = case.compute(Tanh("tanh"), case.graph.compute(MergingAddBias("bias"), *operands, num_cols=WIDTH))
    case.close(delay, loop)
    return case.ask(loop)


def two_rates(num_frames: int = 40) -> ToyCase:
    """One node has a row at each frame, another at every second one; both look back at both."""
    case = LoopCase()
    often, seldom = case.input, case.graph.input(WIDTH)
    case.case.given[seldom] = {
        (n, t, 0): case.random(1, WIDTH).requires_grad_() for n in range(3) for t in range(0, num_frames, 2)
    }
    delays = case.delay(), case.delay()
    fast = case.compute(Tanh("fast"), case.compute(Plus("plus"), often, delays[0]))
    slow = case.compute(Tanh("slow"), case.compute(Plus("plus too"), seldom, delays[1]))
    terms = Term((Look(fast, -1),), optional=True), Term((Look(slow, -2),), optional=True)
    for delay, clock in zip(delays, (often, seldom), strict=True):
        case.graph.set_gathering(delay, Gathering((Part(terms, WIDTH),), clock))
    return case.ask(fast, slow, lengths=(num_frames,))


def shared_kernel() -> ToyCase:
    """Two products in a loop by one kernel, of different matrices."""
    case = LoopCase()
    delay = case.delay()
    first = case.multiply(delay, case.parameter(), "product")
    second = case.multiply(case.compute(MemoTanh("memo"), first), case.parameter(), "product")
    loop = case.compute(Tanh("tanh"), case.compute(Plus("plus"), case.input, second))
    case.close(delay, loop)
    return case.ask(loop)


def shared_matrix(first: str = "product", second: str = "product") -> ToyCase:
    """Two products in a loop by a matrix that is itself computed, and one after it."""
    case = LoopCase()
    delay = case.delay()
    parameters = case.parameter(), case.parameter()
    operands = [Operand(node, Use.WHOLE) for node in parameters]
    matrix = case.graph.compute(MatMul("matrix"), *operands, num_cols=WIDTH, num_rows=WIDTH)
    one = case.multiply(delay, matrix, first)
    other = case.multiply(case.compute(MemoTanh("memo"), one), matrix, second)
    loop = case.compute(Tanh("tanh"), case.compute(Plus("plus"), case.input, other))
    case.close(delay, loop)
    return case.ask(loop)


def nested() -> ToyCase:
    """Two loops that share a node, with delays of 1 and 2, and a memo in each."""
    case = LoopCase()
    inner, outer = case.delay(), case.delay()
    a = case.compute(MemoTanh("a"), case.compute(Plus("plus a", False), case.input, inner))
    b = case.compute(Product("b", False), a, case.multiply(outer, case.parameter(), "w"))
    c = case.compute(MemoTanh("c"), case.compute(Plus("plus c"), b, a))
    case.close(inner, a, 1)
    case.close(outer, c, 2, default=0.5)
    return case.ask(c, a)


def windows(order: str = "as it is", rows_last: bool = False) -> ToyCase:
    """A kernel with indexes of its own within a loop, where nothing can be foreseen.

    `rows_last`: the node that gathers its rows has a higher number than its own.
    """
    case = LoopCase()
    case.graph.order = order
    delay = case.delay()
    mixed = case.compute(Plus("plus"), case.input, delay)
    operation = Window("window", True, case.random(WIDTH, WIDTH), False, [0])
    rows = Part((Term((Look(mixed, scale=0.5),)),), WIDTH)
    operand = len(case.graph.nodes) + 1 if rows_last else case.graph.gather(rows)
    window = case.graph.compute(operation, Operand(operand, Use.INDEXED), num_cols=WIDTH)
    if rows_last:
        case.graph.gather(rows)
    loop = case.compute(Tanh("tanh"), window)
    case.close(delay, loop, 1, default=0.2)
    return case.ask(loop)


def own_weights() -> ToyCase:
    """Updates that are made step by step, and updates that are merged, of kernels with two nodes each."""
    case = LoopCase()
    delay = case.delay()
    merged = Affine("merged", True, case.random(WIDTH, WIDTH), True)
    stepwise = Affine("stepwise", False, case.random(WIDTH, WIDTH), False)
    a = case.compute(Plus("plus"), case.compute(merged, case.input), case.compute(stepwise, delay))
    loop = case.compute(Tanh("tanh"), case.compute(merged, a))
    case.close(delay, loop)
    return case.ask(loop, case.compute(stepwise, loop))


LOOPS: dict[str, Callable[[], ToyCase]] = {
    "simple": simple,
    "backward in time": lambda: simple(lag=-1),
    "delay of three": lambda: simple(lag=3),
    "not merged": lambda: simple(merges=False),
    "different lengths": lambda: simple(lengths=(40, 23)),
    "one sequence": lambda: simple(ns=(4,)),
    "shared kernel": shared_kernel,
    "shared matrix": shared_matrix,
    "shared matrix, two kernels": lambda: shared_matrix("first", "second"),
    "nested": nested,
    "window": windows,
    "window, blocks": lambda: windows("blocks"),
    "window, sequences": lambda: windows("sequences"),
    "window, rows last": lambda: windows(rows_last=True),
    "own weights": own_weights,
    "bias": bias,
    **{f"two rates, {count} frames": partial(two_rates, count) for count in (40, 42)},
}
