"""Checks that a computation is well formed, before and after optimization.

The rules:

* Operands exist (`references`), with agreeing sizes (the rule beside each command).
* The body of a Repeat stays inside its matrices. The rules hold in every iteration; none is written out.
* A matrix is allocated once, used only while allocated, and deallocated unless it was handed to the user.
* A matrix in outside memory is never allocated, and is changed only if it is writable.
* No command reads undefined elements. Sources and destinations do not overlap.
* Memos and compression come in pairs. In a segment, inputs come first and outputs last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NoReturn

import numpy as np

from nnet3.base.index import concatenate_ranges, distinct
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.analysis import READ, WRITE, Analysis
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life, Role
from nnet3.engine.ir.first_uses import Undefined, first_undefined, moving_matrices
from nnet3.engine.ir.formatting import format_submatrix
from nnet3.engine.ir.references import reference_problems, table_problems
from nnet3.engine.ir.repeats import Positions, rows_in_iterations
from nnet3.engine.ir.variables import submatrix_table
from nnet3.errors import ComputationCheckError

_NO_MEMOS = np.zeros((0, 3), np.int64)


def check_computation(computation: NnetComputation) -> None:
    """Raise ComputationCheckError at the first broken rule; the message prints the command."""
    for problem in table_problems(computation):
        raise ComputationCheckError(problem)
    outside = computation.outside_by_matrix()
    for number, command in enumerate(computation.commands):
        for problem in chain(reference_problems(computation, command, outside), command.problems(computation)):
            _fail(computation, number, problem)
    _check_bodies(computation)
    positions = Positions(computation)
    _check_memos(computation, positions)
    _check_segments(computation)
    analysis = Analysis(computation)
    _check_lifetimes(analysis)
    _check_end_of_life(analysis)
    _check_defined(analysis, positions)
    _check_overlap(analysis, positions)
    _check_compression(analysis)


def _fail(computation: NnetComputation, number: int, problem: str) -> NoReturn:
    raise ComputationCheckError(f"{computation.numbered_command(number)}\n  {problem}")


# ---- repeats ----


def _check_bodies(computation: NnetComputation) -> None:
    """A body lies in the program, computes, and stays inside its matrices in all iterations; nothing else moves."""
    moving = computation.moving_submatrices()
    iterations_of: dict[int, int] = {}
    for repeat, body in computation.repeats():
        if body.stop > len(computation.commands):
            _fail(computation, body.start - 1, f"it needs {repeat.length} commands behind it")
        for number in body:
            iterations_of[number] = repeat.iterations
            if computation.commands[number].role is not Role.COMPUTE:
                _fail(computation, number, f"it stands in the body of c{body.start - 1}, where commands only compute")
    for number, command in enumerate(computation.commands if moving else ()):
        operands = command.schema.operands(command)
        named = [a.submatrix for a in command.accesses(computation)] if command.schema.table_fields else operands
        for submatrix in sorted(moving.intersection(named)):
            block = format_submatrix(computation, submatrix)
            if submatrix not in operands:
                _fail(computation, number, f"a table of it names {block}, which moves")
            if number not in iterations_of:
                _fail(computation, number, f"it names {block}, which moves, outside of a body")
            uneven, wanted = computation.iterations.get(submatrix), iterations_of[number]
            if uneven is not None and len(uneven) < wanted:
                _fail(computation, number, f"{block} has rows for {len(uneven)} iterations, not for {wanted}")
            first, count = rows_in_iterations(computation, submatrix, wanted).T
            num_rows = computation.matrices[computation.submatrices[submatrix].matrix].num_rows
            for iteration in np.flatnonzero((first < 0) | (count < 1) | (first + count > num_rows))[-1:]:
                _fail(computation, number, f"{block} is outside of its matrix in iteration {iteration}")
        if not computation.iterations.keys().isdisjoint(operands):
            _check_uneven(computation, number, iterations_of[number])


def _check_uneven(computation: NnetComputation, number: int, iterations: int) -> None:
    """The operands of a command agree in all iterations, for any numbers of rows."""
    command = computation.commands[number]
    uneven = [submatrix for submatrix in command.schema.operands(command) if submatrix in computation.iterations]
    counts = np.stack([computation.iterations[submatrix][:iterations, 1] for submatrix in uneven], axis=1)
    for iteration in np.unique(counts, axis=0, return_index=True)[1].tolist():
        blocks = computation.submatrices.copy()
        for submatrix in uneven:
            blocks[submatrix] = computation.block_at(submatrix, iteration)
        for problem in command.problems(replace(computation, submatrices=blocks, iterations={})):
            _fail(computation, number, f"in iteration {iteration} {problem}")


# ---- memos ----


def _check_memos(computation: NnetComputation, positions: Positions) -> None:
    """All memos are made once, and used afterwards by the kernel of the maker."""
    steps = {number: repeat.memo_step for repeat, body in computation.repeats() for number in body}
    made, used = ([_NO_MEMOS] for _ in range(2))  # rows of memo, position, command
    for number, command in enumerate(computation.commands):
        for name, found in ((command.schema.makes_memo, made), (command.schema.uses_memo, used)):
            memo = getattr(command, name) if name else -1
            if memo >= 0:
                iterations = np.arange(positions.iterations[number])
                at = positions.first[number] + positions.length[number] * iterations
                columns = memo + steps.get(number, 0) * iterations, at, np.full(len(iterations), number)
                found.append(np.stack(columns, axis=1))
    makers, users = np.concatenate(made), np.concatenate(used)
    makers = makers[np.lexsort((makers[:, 1], makers[:, 0]))]
    for i in np.flatnonzero(makers[1:, 0] == makers[:-1, 0])[:1]:
        _fail(computation, makers[i + 1, 2], f"memo {makers[i, 0]} is made by c{makers[i, 2]} already")
    position = np.minimum(np.searchsorted(makers[:, 0], users[:, 0]), max(len(makers) - 1, 0))
    found_makers = makers[position] if len(makers) else np.full_like(users, -1)
    is_made = (found_makers[:, 0] == users[:, 0]) & (found_makers[:, 1] < users[:, 1])
    for memo, _, number in users[~is_made][:1].tolist():
        _fail(computation, number, f"no command before it makes memo {memo}")
    kernels = np.array([getattr(command, "kernel", -1) for command in computation.commands])
    for i in np.flatnonzero(kernels[found_makers[:, 2]] != kernels[users[:, 2]])[:1]:
        maker, (memo, _, number) = int(found_makers[i, 2]), users[i].tolist()
        name = computation.kernels[kernels[maker]].name
        _fail(computation, number, f"memo {memo} is that of kernel '{name}' at c{maker}")


# ---- segments, input and output ----


def _check_segments(computation: NnetComputation) -> None:
    """Each segment accepts input, then computes, then provides output, and uses no name twice."""
    computing = providing = -1
    accepted: set[str] = set()
    provided: set[str] = set()
    for number, command in enumerate(computation.commands):
        if isinstance(command, cmd.SegmentMarker):
            computing = providing = -1
            accepted, provided = set(), set()
        if command.role in (Role.MEMORY, Role.CONTROL):
            continue
        if isinstance(command, cmd.ProvideOutput):
            providing = number
            if command.name in provided:
                _fail(computation, number, f"'{command.name}' is provided twice in one segment")
            provided.add(command.name)
            continue
        if providing >= 0:
            _fail(computation, number, f"it stands after the output of c{providing}, which must end the segment")
        if not isinstance(command, cmd.AcceptInput):
            computing = number
            continue
        if computing >= 0:
            _fail(computation, number, f"input must begin the segment, but c{computing} stands before it")
        if command.name in accepted:
            _fail(computation, number, f"'{command.name}' is accepted twice in one segment")
        accepted.add(command.name)
    _check_all_io(computation)


def _check_all_io(computation: NnetComputation) -> None:
    """Every declared input and output is accepted or provided in its declared sub-matrix."""
    accepted = {(c.name, c.dest) for c in computation.commands if isinstance(c, cmd.AcceptInput)}
    provided = {(c.name, c.source) for c in computation.commands if isinstance(c, cmd.ProvideOutput)}
    wanted = (
        ("accepts input", accepted, [(i.name, i.value) for i in computation.inputs]),
        ("accepts the derivative of output", accepted, [(o.name, o.deriv) for o in computation.outputs if o.deriv]),
        ("provides output", provided, [(o.name, o.value) for o in computation.outputs]),
        ("provides the derivative of input", provided, [(i.name, i.deriv) for i in computation.inputs if i.deriv]),
    )
    for verb, done, pairs in wanted:
        for name, number in pairs:
            if (name, number) not in done:
                shown = format_submatrix(computation, number)
                raise ComputationCheckError(f"no command {verb} '{name}' in {shown}, where it is declared")


# ---- lifetimes ----


def _check_lifetimes(analysis: Analysis) -> None:
    """Every matrix is allocated once and accessed only between allocation and deallocation."""
    computation = analysis.computation
    for kind, pairs in (("allocated", analysis.accesses.allocations), ("deallocated", analysis.accesses.deallocations)):
        done: dict[int, int] = {}
        for number, matrix in pairs:
            if matrix in done:
                _fail(computation, number, f"m{matrix} is {kind} by c{done[matrix]} already")
            done[matrix] = number
    matrix_of_access, command = analysis.matrix_of_access, analysis.accesses.command
    alloc, dealloc = analysis.alloc_command[matrix_of_access], analysis.dealloc_command[matrix_of_access]
    outside = computation.outside_by_matrix()
    is_outside = np.isin(matrix_of_access, list(outside))
    for i in np.flatnonzero((alloc == -1) & ~is_outside)[:1]:
        _fail(computation, command[i], f"m{matrix_of_access[i]} is never allocated")
    read_only = [matrix for matrix, bound in outside.items() if not bound.writable]
    for i in np.flatnonzero((analysis.accesses.mode != READ) & np.isin(matrix_of_access, read_only))[:1]:
        m, bound = matrix_of_access[i], outside[matrix_of_access[i]]
        _fail(computation, command[i], f"it changes m{m}, outside memory '{bound.name}', which is read only")
    for i in np.flatnonzero(command < alloc)[:1]:
        _fail(computation, command[i], f"m{matrix_of_access[i]} is allocated later, by c{alloc[i]}")
    for i in np.flatnonzero((dealloc != -1) & (command > dealloc))[:1]:
        _fail(computation, command[i], f"m{matrix_of_access[i]} is deallocated by c{dealloc[i]}")
    for m in np.flatnonzero((analysis.dealloc_command != -1) & (analysis.alloc_command == -1))[:1]:
        _fail(computation, analysis.dealloc_command[m], f"m{m} is never allocated")
    for m in np.flatnonzero((analysis.dealloc_command != -1) & (analysis.dealloc_command < analysis.alloc_command))[:1]:
        _fail(computation, analysis.dealloc_command[m], f"m{m} is allocated later, by c{analysis.alloc_command[m]}")


def _check_end_of_life(analysis: Analysis) -> None:
    """Every matrix is deallocated, unless it was handed to the user."""
    alloc = analysis.alloc_command
    for m in np.flatnonzero((alloc != -1) & (analysis.dealloc_command == -1) & ~analysis.is_provided)[:1]:
        _fail(analysis.computation, alloc[m], f"m{m} is never deallocated, and it is not an output")


# ---- contents ----


def _check_defined(analysis: Analysis, positions: Positions) -> None:
    """A variable is written before any read, unless the matrix begins as zeros or lies outside."""
    computation = analysis.computation
    first = analysis.first_event
    is_defined = analysis.begins_as_zeros.copy()
    is_defined[list(computation.outside_by_matrix())] = True
    moving = [matrix for matrix in sorted(moving_matrices(computation)) if not is_defined[matrix]]
    found = [each for matrix in moving if (each := first_undefined(analysis, matrix, positions)) is not None]
    is_defined[moving] = True
    matrix_of_event = analysis.variables.matrix_of(analysis.event_variable[first])
    undefined = np.flatnonzero(~is_defined[matrix_of_event] & (analysis.event_mode[first] != WRITE))
    if len(undefined):
        earliest = undefined[np.argmin(analysis.event_command[first[undefined]])]
        found.append(Undefined(int(analysis.event_command[first[earliest]]), 0, int(matrix_of_event[earliest])))
    for number, iteration, matrix in sorted(found)[:1]:
        where = f"in iteration {iteration}" if positions.iterations[number] > 1 else "there"
        _fail(computation, number, f"it reads m{matrix}, part of which is undefined {where}")


def _check_overlap(analysis: Analysis, positions: Positions) -> None:
    """No command reads elements filled by itself, except in permitted work in place or updates of a destination."""
    computation = analysis.computation
    for number, source, dest in _overlapping_operands(analysis, positions):
        if not _may_be_in_place(computation, computation.commands[number], source, dest):
            source_text, dest_text = (format_submatrix(computation, s) for s in (source, dest))
            _fail(computation, number, f"it reads {source_text} and fills {dest_text}, which overlap")


def _overlapping_operands(analysis: Analysis, positions: Positions) -> Iterator[tuple[int, int, int]]:
    """Yields (command, sub-matrix read, sub-matrix filled) for each pair with a common element."""
    accesses, block = analysis.accesses, submatrix_table(analysis.computation)
    reads = np.flatnonzero(accesses.mode == READ)
    fills = np.flatnonzero(accesses.mode != READ)
    first = np.searchsorted(accesses.command[reads], accesses.command[fills], side="left")
    end = np.searchsorted(accesses.command[reads], accesses.command[fills], side="right")
    dest = accesses.submatrix[np.repeat(fills, end - first)]
    read = reads[concatenate_ranges(first, end - first)]
    a, b = block[accesses.submatrix[read]], block[dest]
    common = (a[:, 0] == b[:, 0]) & (np.maximum(a[:, 3], b[:, 3]) < np.minimum(a[:, 4], b[:, 4]))
    moves = np.zeros(len(analysis.computation.submatrices), dtype=bool)
    moves[list(analysis.computation.moving_submatrices())] = True
    is_moving = moves[accesses.submatrix[read]] | moves[dest]
    common &= is_moving | (np.maximum(a[:, 1], b[:, 1]) < np.minimum(a[:, 2], b[:, 2]))
    for i in np.flatnonzero(common).tolist():
        number, source, to = int(accesses.command[read[i]]), int(accesses.submatrix[read[i]]), int(dest[i])
        if not is_moving[i] or _meet(analysis.computation, source, to, int(positions.iterations[number])):
            yield number, source, to


def _meet(computation: NnetComputation, one: int, other: int, iterations: int) -> bool:
    """True if two sub-matrices of a matrix have rows in common in some iteration."""
    (first, count), (start, size) = (rows_in_iterations(computation, each, iterations).T for each in (one, other))
    return bool((np.maximum(first, start) < np.minimum(first + count, start + size)).any())


def _may_be_in_place(computation: NnetComputation, command: cmd.Command, source: int, dest: int) -> bool:
    is_one_block = computation.submatrices[source] == computation.submatrices[dest] and np.array_equal(
        computation.iterations.get(source, ()), computation.iterations.get(dest, ())
    )
    return is_one_block and (source, dest) in command.in_place_pairs(computation)


def _check_compression(analysis: Analysis) -> None:
    """No command touches a matrix between CompressMatrix and DecompressMatrix."""
    computation = analysis.computation
    lives = analysis.accesses.lives
    compressing, restoring = set(lives[Life.COMPRESSES]), set(lives[Life.DECOMPRESSES])
    for matrix in {matrix for _, matrix in compressing | restoring}:
        compressed = False
        for number in distinct(analysis.accesses.command[analysis.matrix_of_access == matrix]).tolist():
            if ((number, matrix) in restoring) != compressed:
                state = "compressed" if compressed else "not compressed"
                _fail(computation, number, f"m{matrix} is {state} there")
            compressed = (number, matrix) in compressing
