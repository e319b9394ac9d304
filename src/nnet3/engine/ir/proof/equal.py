"""prove_equal: programs are equal if they give equal elements of a field for random inputs, parameters and kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nnet3.base.native.library import library
from nnet3.engine.ir.commands_control import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Role
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.linked import LooksAt
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.notes import Notes
from nnet3.engine.ir.proof.program_columns import ProgramColumns, keys_of_rows
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.seeds import by_each_seed
from nnet3.engine.ir.proof.tape import Tape
from nnet3.errors import ProofError

_MOST_ROWS = 8


class PassResult(NamedTuple):
    """A program, and the name of the pass that made it of the program before."""

    name: str
    computation: NnetComputation
    first: int = 0  # a number of the program before all passes: programs with equal numbers are compared


@by_each_seed
def prove_equal(results: Sequence[PassResult], seed: int = 0, looks_at: LooksAt | None = None) -> None:
    """Raise ProofError unless all programs compute the results of the first program with their number.

    The error names the first pass with a different program, the output and rows. Any two different programs are called
    equal by a chance of one in 2^60; another `seed` gives new random elements. `looks_at` is given if
    programs may have rows in different orders: then random numbers drawn by kernels are not compared.
    """
    columns = Columns()
    for number, result in enumerate(results):
        add_columns(columns, number, result.computation)
    columns.settle()
    has_loops = any(isinstance(command, Repeat) for each in results for command in each.computation.commands)
    said_by_native_code: ProofError | None = None
    if not has_loops and looks_at is None and library(warns=False) is not None:
        notes = Notes(columns, seed)
        try:
            _compare(results, lambda computation, number: Tape(computation, number, notes))
            return
        except ProofError as error:
            said_by_native_code = error
    randoms = Randoms(columns, seed, looks_at)
    _compare(results, lambda computation, number: ProgramMachine(computation, number, randoms))
    if said_by_native_code is not None:
        warnings.warn(
            f"native code finds no proof of a program that is right ({said_by_native_code}): please report it",
            RuntimeWarning,
            stacklevel=2,
        )


def _compare(results: Sequence[PassResult], machine_of: Callable[[NnetComputation, int], ProgramMachine]) -> None:
    """Raise ProofError unless the machines of all programs give the same as the first machine with their number."""
    plain: dict[int, ProgramMachine] = {}
    for number, (name, computation, first) in enumerate(results):
        machine = machine_of(computation, number)
        try:
            machine.run()
            for difference in differences(plain.setdefault(first, machine), machine):
                raise ProofError(difference)
        except ProofError as error:
            raise ProofError(f"after pass '{name}': {error}" if name else str(error)) from None


def add_columns(columns: Columns, number: int, computation: NnetComputation) -> None:
    """Cut the columns of a program, number `number` of the compared programs, where its commands cut them."""
    program = columns.programs[number] = ProgramColumns(computation)

    def span(submatrix: int) -> ColumnSpan:
        block = computation.submatrices[submatrix]
        return ColumnSpan((number, block.matrix), block.col_offset, block.num_cols)

    for bound in computation.outside:
        own = span(bound.submatrix)
        columns.link(own, ColumnSpan(("outside", bound.name), 0, own.width))
    commands = computation.commands
    for command_class, numbers, operands in program.commands:
        schema = command_class.schema
        if not schema.table_fields and command_class.role is Role.COMPUTE:  # one of those at the steps of a recurrence
            kernels = [getattr(commands[n], schema.kernel, -1) for n in numbers]
            numbers = list(dict(zip(keys_of_rows(kernels, program.span[operands]), numbers, strict=True)).values())
        for command in [commands[n] for n in numbers]:
            first: ColumnSpan | None = None
            for submatrix, space, start in command.columns(computation):
                own = span(submatrix)
                if space is not None:
                    columns.link(own, ColumnSpan(space, start, own.width))
                elif first is None:
                    first = own
                    columns.use(own)
                else:
                    columns.link(own, first)


def differences(plain: Machine, other: Machine) -> Iterator[str]:
    """Yields a line for each output or effect in which two programs, run on the same inputs, differ."""
    for expected, got in ((plain.outputs, other.outputs), (plain.effects, other.effects)):
        for what in {**expected, **got}:
            one, another = expected.get(what), got.get(what)
            if one is None or another is None:
                yield f"{what_is(what)} is {'missing' if another is None else 'new'}"
            elif len(one) != len(another):
                yield f"{what_is(what)} has {len(another)} rows, expected {len(one)}"
            elif not np.array_equal(one, another):
                rows = np.flatnonzero((one != another).reshape(len(one), -1).any(axis=1))
                yield f"{what_is(what)} differs{_rows(rows) if one.ndim > 1 else ''}"


def what_is(what: tuple[str, str, int]) -> str:
    """Returns words for a key of outputs or effects."""
    kind, name, number = what
    return f"{kind} '{name}'{f' of run {number}' if number else ''}"


def _rows(rows: np.ndarray) -> str:
    shown = ", ".join(map(str, rows[:_MOST_ROWS].tolist()))
    return f" in {len(rows)} rows: {shown}{', ...' if len(rows) > _MOST_ROWS else ''}"
