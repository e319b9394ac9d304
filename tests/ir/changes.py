"""Ways to break the computation of `training_step`, for tests of the checker."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.errors import ComputationCheckError
from tests.ir.programs import training_step

# training_step: 1 input, 2 its derivative, 3 affine_input, 4 affine, 5 sigmoid, 6 output, 7 to 10 derivatives of 3 to 6
INPUT, INPUT_DERIV, SPLICED, HIDDEN, Y, OUT, SPLICED_DERIV, HIDDEN_DERIV, Y_DERIV, OUT_DERIV = range(1, 11)
ACCEPT, AFFINE_PROPAGATE, ADD_OUT, PROVIDE, MARKER, ADD_Y_DERIV, AFFINE_BACKPROP = 10, 12, 14, 15, 16, 18, 20
LAST = 32

Change = Callable[[NnetComputation], None]


def put(number: int, *commands: Command) -> Change:
    """Insert commands before command `number`."""

    def change(c: NnetComputation) -> None:
        c.commands[number:number] = commands

    return change


def drop(number: int) -> Change:
    return lambda c: c.commands.__delitem__(number)


def move(number: int, to: int) -> Change:
    return lambda c: c.commands.insert(to, c.commands.pop(number))


def with_fields(number: int, **fields: object) -> Change:
    def change(c: NnetComputation) -> None:
        c.commands[number] = replace(c.commands[number], **fields)

    return change


def with_table(kind: str, table: object, command: Command, dtype: type = np.int32) -> Change:
    """Add a side table, which is number 9 of its kind, and the command that uses it before ADD_OUT."""

    def change(c: NnetComputation) -> None:
        tables = getattr(c, kind)
        tables += [np.zeros(0, dtype)] * (9 - len(tables))
        tables.append(np.array(table, dtype=dtype))
        c.commands.insert(ADD_OUT, command)

    return change


def with_kernel(kernel: int, **promises: Any) -> Change:
    def change(c: NnetComputation) -> None:
        c.kernels[kernel] = replace(c.kernels[kernel], **promises)
        c.num_memos = 3

    return change


def then(*changes: Change) -> Change:
    def change(c: NnetComputation) -> None:
        for one in changes:
            one(c)

    return change


def with_blocks(*blocks: SubMatrix) -> Change:
    """More sub-matrices; the first one is number 11."""
    return lambda c: c.submatrices.extend(blocks)


UPPER, MIDDLE = SubMatrix(Y, 0, 2, 0, 3), SubMatrix(Y, 1, 2, 0, 3)


def check_broken(change: Change, message: str) -> None:
    """Asserts that a training step is in order, and that the change breaks it with this message."""
    computation = training_step()
    check_computation(computation)
    change(computation)
    with pytest.raises(ComputationCheckError, match=re.escape(message)):
        check_computation(computation)
