"""Proofs of lowering: a plain program computes what its graph means, evaluated cindex by cindex."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy

import numpy as np

from nnet3.engine.driver.proving import looks_at
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.equal import add_columns, differences
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.seeds import by_each_seed
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, Use
from nnet3.errors import ProofError
from tests.cindex_graph import MOST_CELLS, CindexGraph
from tests.cindex_machine import CindexMachine

Arrays = Mapping[str, np.ndarray] | None


@by_each_seed
def prove_lowered(
    source: GraphSource, request: LoweringRequest, program: NnetComputation, seed: int = 0, most_cells: int = MOST_CELLS
) -> None:
    """Raise ProofError unless a plain program computes what the graph means. Raises TooLargeError for long requests."""
    graph, columns = CindexGraph(source, request, most_cells), Columns()
    add_columns(columns, 0, program)
    machine = CindexMachine(graph, columns)
    columns.settle()
    randoms = _SumRandoms(columns, seed, looks_at(source))
    plain = ProgramMachine(_comparable(source, program), 0, randoms)
    with np.errstate(over="ignore"):
        machine.run(randoms)
        plain.run()
    for each in (machine, plain):
        each.effects = {what: change for what, change in each.effects.items() if change.any()}
    for difference in differences(machine, plain):  # type: ignore[arg-type]
        raise ProofError(f"the plain program: {difference}")


def _comparable(source: GraphSource, program: NnetComputation) -> NnetComputation:
    """The program with kernels that look at rows by their times alone.

    What was precomputed of the rows of indexed operands is compared here: it hangs on their order.
    """
    result, numbers = copy(program), {node.name: number for number, node in enumerate(source.nodes)}
    result.precomputed = list(program.precomputed)
    for entry, rows in enumerate(program.precomputed_rows, 1):
        number = numbers[rows.node]
        made = source.precompute(number, rows.inputs, rows.outputs, need_backprop=rows.runs_backward)
        if not _are_equal(made, program.precomputed[entry]):
            raise ProofError(f"what was precomputed for node '{rows.node}' is not of its rows")
        if any(operand.use is Use.INDEXED for operand in source.nodes[number].operands):
            result.precomputed[entry] = {}
    return result


def _are_equal(one: Arrays, other: Arrays) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


class _SumRandoms(Randoms):
    """With kernels that learn, store and count sums over rows, whichever rows they are given in one call."""

    def of_call(self, change: Elements, what: tuple[Hashable, ...], count: int) -> Elements:
        return change
