"""Proofs of lowering, for every plain program that a test compiles and that is small enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from unittest import mock

from nnet3.driver import task
from nnet3.driver.proving import PROVE
from nnet3.ir.computation import NnetComputation
from nnet3.ir.printer import summary
from nnet3.lowering.source import GraphSource, LoweringRequest
from tests.cindex_graph import TooLargeError
from tests.cindex_proof import prove_lowered

_MOST_COMMANDS, _MOST_CELLS = 200, 100_000  # of a program that is proved: of the grid, for each node and time


@contextmanager
def lowering_proved(most_commands: int = _MOST_COMMANDS) -> Iterator[list[str]]:
    """Yields a list of a line for what is compiled meanwhile and proved to be what its graph means.

    Nothing is if the environment says so, or while somebody counts calls.
    """
    lower, proved = task.lower, list[str]()

    def lowered(source: GraphSource, request: LoweringRequest) -> NnetComputation:
        program = lower(source, request)
        if os.environ.get(PROVE) == "all" and len(program.commands) <= most_commands and sys.getprofile() is None:
            with suppress(TooLargeError):
                prove_lowered(source, request, program, most_cells=_MOST_CELLS)
                proved.append(summary(program))  # programs are forgotten when nobody has them any more
        return program

    with mock.patch.object(task, "lower", lowered):
        yield proved
