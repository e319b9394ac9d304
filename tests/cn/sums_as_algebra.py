"""Sums and products as what they are, polynomials, so that programs can be compared that have others of them.

Proofs of passes take each kernel for some function. Here sums, products of matrices and products of elements are
computed column by column on elements of the field, forward and backward; other kernels stay random functions.

    sum.Propagate([v, W, x])            v + x W
    W_x.Propagate([W, x]), sum.Propagate([v, W_x])            the same
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from unittest import mock

import numpy as np

from nnet3.cn.fusing import ELEMENTS, PRODUCT, VALUE, SumOfProducts
from nnet3.cn.nodes.products import DiagTimes, Times
from nnet3.cn.nodes.sums import ElementTimes, Minus, Plus
from nnet3.cn.operation import Operation
from nnet3.cn.source import CnSource
from nnet3.engine.driver import ComputationCache, task
from nnet3.engine.ir.commands import Backprop, Command, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.equal import add_columns, differences
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.seeds import by_each_seed
from nnet3.engine.lowering.source import GraphSource, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.errors import ProofError
from nnet3.options import CompileOptions

#: Kind and factor of each term of a sum; the operands follow each other in this order.
Terms = Sequence[tuple[str, float]]
#: The plain program of a graph, and the terms of its kernels that are sums, by name.
Lowered = tuple[NnetComputation, Mapping[str, Terms]]
Run = Callable[[CompileOptions, ComputationCache], object]


def terms_of(operation: Operation) -> Terms | None:
    """The terms of a sum; None for another operation."""
    if isinstance(operation, SumOfProducts):
        return [term[:2] for term in operation._terms]
    if isinstance(operation, (Plus, Minus)):
        return [(VALUE, factor) for factor in operation.linear_factors]
    if isinstance(operation, (ElementTimes, DiagTimes)):
        return [(ELEMENTS, 1.0)]
    return [(PRODUCT, 1.0)] if isinstance(operation, Times) else None


def lowered_programs(
    options: CompileOptions, run: Callable[[CompileOptions, ComputationCache], object]
) -> list[Lowered]:
    """What is lowered for a network that is made and run with these options, in the order of compiling."""
    found: list[Lowered] = []
    lower = task.lower

    def lowered(source: GraphSource, request: LoweringRequest, sweeps: Sweeps | None) -> NnetComputation:
        program = lower(source, request, sweeps)
        assert isinstance(source, CnSource)
        terms = {info.name: terms_of(operation) for operation, info in source._kernels.values()}
        found.append((program, {name: each for name, each in terms.items() if each is not None}))
        return program

    with mock.patch.object(task, "lower", lowered):
        run(options, ComputationCache())
    return found


@by_each_seed
def prove_same_sums(one: Lowered, other: Lowered, seed: int = 0) -> None:
    """Raise ProofError unless two programs compute the same, as polynomials."""
    columns = Columns()
    for number, (program, _) in enumerate((one, other)):
        add_columns(columns, number, program)
        for matrix, size in enumerate(program.matrices):
            for column in range(size.num_cols):
                columns.use(ColumnSpan((number, matrix), column, 1))
    columns.settle()
    randoms = Randoms(columns, seed)
    machines = [_SumsMachine(program, number, randoms, terms) for number, (program, terms) in enumerate((one, other))]
    with np.errstate(over="ignore"):
        for machine in machines:
            machine.run()
    for difference in differences(*machines):
        raise ProofError(difference)


class _SumsMachine(ProgramMachine):
    def __init__(self, computation: NnetComputation, number: int, randoms: Randoms, sums: Mapping[str, Terms]) -> None:
        super().__init__(computation, number, randoms)
        self._sums = sums

    def _evaluate(self, command: Command) -> None:
        terms = None
        if isinstance(command, (Propagate, Backprop)):
            terms = self._sums.get(self.computation.kernels[command.kernel].name)
        if terms is None:
            super()._evaluate(command)
        elif isinstance(command, Backprop):
            self._send(command, terms)
        elif isinstance(command, Propagate):
            self.write(command.output, self._sum(command, terms))

    def _sum(self, command: Propagate, terms: Terms) -> Elements:
        total, operands = np.zeros_like(self.read(command.output)), iter(map(self.read, command.inputs))
        for kind, factor in terms:
            value = next(operands)
            if kind == PRODUCT:
                value = field.combined(next(operands), value)
            elif kind == ELEMENTS:
                value = field.product(value, next(operands))
            total = field.reduced(total + field.scaled(value, factor))
        return total

    def _send(self, command: Backprop, terms: Terms) -> None:
        gradient, place = self.read(command.output_deriv), 0
        for kind, factor in terms:
            scaled = field.scaled(gradient, factor)
            for each in range(place, place + (1 if kind == VALUE else 2)):
                written, added = command.input_derivs[each], command.added_derivs[each]
                if not (written or added):
                    continue
                sent = scaled
                if kind != VALUE:
                    other = self.read(command.inputs[2 * place + 1 - each])
                    sent = _sent_by_product(other, scaled, each == place) if kind == PRODUCT else scaled
                    sent = field.product(scaled, other) if kind == ELEMENTS else sent
                sent = _folded(sent, self.read(written or added))
                (self.write if written else self.add)(written or added, sent)
            place += 1 if kind == VALUE else 2


def _sent_by_product(other: Elements, gradient: Elements, is_matrix: bool) -> Elements:
    """The derivative of W in y = x W from x, or of x from W."""
    if is_matrix:
        return field.combined(other.swapaxes(0, 1), gradient)
    return field.combined(gradient, other.swapaxes(0, 1))


def _folded(sent: Elements, like: Elements) -> Elements:
    """The sums over the rows and columns that were repeated."""
    for axis in (0, 1):
        if like.shape[axis] == 1 and sent.shape[axis] != 1:
            sent = field.reduced(np.add.reduce(sent, axis, keepdims=True))
    return sent
