"""Toy cases: a graph with a random request that fits it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.lowering.source import LoweringRequest, NodeKind, RequestedRows, Use
from tests.lowering.toy_front_end import ToyGraph
from tests.lowering.toy_oracle import Oracle


@dataclass
class ToyCase:
    """A graph, what is given to it, and what is asked of it. `derivs` are of something to be maximised."""

    seed: int
    graph: ToyGraph
    memory: dict[str, Tensor]  # parameters and gradients
    given: dict[int, dict[tuple[int, ...], Tensor]] = field(default_factory=dict)
    samples: list[tuple[int, ...]] = field(default_factory=list)
    request: LoweringRequest | None = None
    derivs: dict[str, Tensor] = field(default_factory=dict)

    def oracle(self) -> Oracle:
        times = None if self.request is None else self.request.deriv_times
        return Oracle(self.graph, self.given, self.memory, self.samples, times)

    def given_rows(self, rows: RequestedRows) -> Tensor:
        found = [self.given[rows.node][tuple(index)] for index in rows.indexes.tolist()]
        return torch.cat(found).detach()

    def __repr__(self) -> str:
        lines = [f"toy graph of seed {self.seed}"]
        for number, node in enumerate(self.graph.nodes):
            lines.append(f"  {number}: {node} {self.graph.gatherings.get(number, '')}")
        for rows in (*self.request.inputs, *self.request.outputs) if self.request else ():
            lines.append(f"  {rows.name} deriv={rows.has_deriv} {rows.indexes.tolist()}")
        return "\n".join(lines)


def random_tensor(generator: torch.Generator, *shape: int) -> Tensor:
    return 0.5 * torch.randn(*shape, dtype=torch.float64, generator=generator)


def ask(case: ToyCase, rng: random.Random, generator: torch.Generator, clock: int, summed: Sequence[int]) -> bool:
    """Give the case its inputs and its request; whether anything can be computed.

    `clock` is the input that has the fewest rows, `summed` are the values that sums over all samples need.
    """
    return _Asker(case, rng, generator, clock, summed).ask()


class _Asker:
    def __init__(
        self, case: ToyCase, rng: random.Random, generator: torch.Generator, clock: int, summed: Sequence[int]
    ):
        self.case, self.rng, self.generator, self.clock, self.summed = case, rng, generator, clock, summed
        self.graph = case.graph

    def _random(self, *shape: int) -> Tensor:
        return random_tensor(self.generator, *shape)

    def ask(self) -> bool:
        rng, case, nodes = self.rng, self.case, self.graph.nodes
        self._give()
        xs = sorted({index[2] for index in case.given[self.clock]})
        ns = sorted({index[0] for index in case.given[self.clock]})
        everywhere: list[tuple[int, ...]] = [(n, t, x) for n in ns for t in range(-6, 16) for x in xs]
        if self.summed:
            values = case.oracle()
            case.samples = [i for i in everywhere if all(values.row(node, i) is not None for node in self.summed)]
            if not case.samples:
                return False
        oracle = case.oracle()
        outputs = []
        for node in self._outputs():
            if nodes[node].num_rows is not None:
                if oracle.whole(node) is not None:
                    outputs.append(RequestedRows(node, f"out{node}", np.zeros((0, 3), np.int32), rng.random() < 0.8))
                continue
            rows = [index for index in everywhere if oracle.row(node, index) is not None]
            rows = [index for index in rows if rng.random() < 0.8] if rng.random() < 0.5 else rows
            if rows:
                outputs.append(RequestedRows(node, f"out{node}", self._in_some_order(rows), rng.random() < 0.8))
        if not outputs:
            return False
        case.derivs = {rows.name: self._random(*oracle.output(rows).shape) for rows in outputs if rows.has_deriv}
        backward = bool(case.derivs)
        inputs = [
            RequestedRows(node, f"in{node}", self._in_some_order(list(rows)), backward and rng.random() < 0.6)
            for node, rows in case.given.items()
        ]
        samples = self._in_some_order(case.samples) if case.samples else None
        learns, times = backward and rng.random() < 0.8, None
        if backward and rng.random() < 0.3:
            first, last = sorted(rng.choices(range(-3, 13), k=2))
            times = first, last
        case.request = LoweringRequest(inputs, outputs, learns, samples=samples, deriv_times=times)
        return True

    def _outputs(self) -> list[int]:
        nodes = self.graph.nodes
        private = {operand.node for node in nodes for operand in node.operands
                   if operand.use in (Use.INDEXED, Use.ALL_SAMPLES)}  # fmt: skip
        bound = {number for number, node in enumerate(nodes) if node.kind is NodeKind.PROVIDED and node.num_rows}
        allowed = [number for number in range(len(nodes)) if number not in private | bound]
        late = allowed[-4:] if self.rng.random() < 0.8 else allowed
        return sorted(self.rng.sample(late, min(len(late), self.rng.choice([1, 1, 2, 3]))))

    def _give(self) -> None:
        """Rows of the inputs, of equal or different length; now and then rows of something computed."""
        rng, num_sequences = self.rng, self.rng.choice([1, 2, 3, 4, 6])
        ns = sorted(rng.sample(range(8), num_sequences))
        equal, length = rng.random() < 0.6, rng.choice([1, 2, 5, 9, 14])
        xs = rng.choice([[0], [0], [0], [0, 1]])
        lengths = {n: length if equal else rng.choice([length, length, rng.randint(1, 9)]) for n in ns}
        begin = {n: 0 if equal else rng.choice([0, 0, rng.randint(-2, 3)]) for n in ns}
        for node in [n for n, spec in enumerate(self.graph.nodes) if spec.kind is NodeKind.PROVIDED]:
            if self.graph.nodes[node].num_rows is not None:
                continue
            times = {n: range(begin[n], begin[n] + lengths[n]) for n in ns}
            if node != self.clock:
                times = {n: range(span.start - 2, span.stop + 2) for n, span in times.items()}
            rows = [(n, t, x) for n in ns for t in times[n] for x in xs]
            if rng.random() < 0.15 and not equal:
                rows = [index for index in rows if rng.random() < 0.9] or rows
            self.case.given[node] = {
                index: self._random(1, self.graph.nodes[node].num_cols).requires_grad_() for index in rows
            }
        kernels = [n for n, spec in enumerate(self.graph.nodes) if spec.kind is NodeKind.KERNEL and not spec.num_rows]
        if kernels and rng.random() < 0.15:
            node = rng.choice(kernels)
            span = rng.randint(-2, 3), rng.randint(4, 6)
            rows = [(n, t, x) for n in ns for t in range(*span) for x in xs]
            num_cols = self.graph.nodes[node].num_cols
            self.case.given[node] = {index: self._random(1, num_cols).requires_grad_() for index in rows}

    def _in_some_order(self, rows: list[tuple[int, ...]]) -> np.ndarray:
        table = np.array(rows, np.int32)
        order = self.rng.choice(["ntx", "txn", "shuffled"])
        if order == "shuffled":
            self.rng.shuffle(rows)
            return np.array(rows, np.int32)
        keys = (2, 1, 0) if order == "ntx" else (0, 2, 1)
        return table[np.lexsort([table[:, key] for key in keys])]
