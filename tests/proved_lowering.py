"""Proofs of lowering, for plain programs that tests compile and that are small enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from unittest import mock

from nnet3.engine.driver import task
from nnet3.engine.driver.proving import PROVE, proves_all
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.source import GraphSource, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps
from tests.cindex_graph import TooLargeError
from tests.cindex_proof import prove_lowered

_MOST_COMMANDS, _MOST_CELLS = 200, 100_000  # of a program that is proved: of the grid, for each node and time


@contextmanager
def lowering_proved(most_commands: int = _MOST_COMMANDS, *, each: bool = False) -> Iterator[list[str]]:
    """Yields a list of a line for what is compiled meanwhile and proved to be what its graph means.

    `each`: all programs are proved, not those alone that the environment chooses, one of each size. Nothing is proved
    while somebody counts calls.
    """
    lower, proved, known = task.lower, list[str](), set[tuple[int, ...]]()

    def is_chosen(program: NnetComputation) -> bool:
        rows = sum([matrix.num_rows for matrix in program.matrices])
        mark = len(program.commands), len(program.submatrices), len(program.kernels), rows
        if os.environ.get(PROVE) != "some":
            return proves_all()
        is_known = mark in known
        known.add(mark)
        return not is_known and proves_all(mark=mark)

    def lowered(source: GraphSource, request: LoweringRequest, sweeps: Sweeps | None) -> NnetComputation:
        program = lower(source, request, sweeps)
        if len(program.commands) <= most_commands and (each or is_chosen(program)) and sys.getprofile() is None:
            with suppress(TooLargeError):
                prove_lowered(source, request, program, most_cells=_MOST_CELLS)
                proved.append(program.summary())  # programs are forgotten when nobody has them any more
        return program

    with mock.patch.object(task, "lower", lowered):
        yield proved
