"""Coalescing: letting matrices share storage where they do not interfere.

A pass offers candidates: pairs of matrices to unite for the sake of some commands.

    c4: m2 = m1                   share_copies offers (m1, m2): the copy would have nothing to do
    c5: relu.Propagate(m2, &m3)   work_in_place offers (m2, m3): the kernel can run in place

Pairs with matrices in common make a group, laid into its largest matrix. Two matrices of a group
interfere if a read of the first would find a value written to the second and not copied from the second.
Interference takes candidates away until the rest has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, T, distinct
from nnet3.engine.ir.analysis import READ, UPDATE, WRITE, Analysis, analyse
from nnet3.engine.ir.commands import AllocMatrix, Command, DeallocMatrix, ProvideOutput
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.variables import Integers, Variables, matrix_sizes

COPY = 0  # beside READ, WRITE and UPDATE: a copy within the group, which has nothing to do any more
_TURN = np.zeros(4, dtype=np.int64)  # within a command
_TURN[[READ, COPY, UPDATE, WRITE]] = 0, 1, 2, 3


class Pair(NamedTuple):
    """Two matrices that may be one: some commands read the first and write the second.

    Row r and column c of `dest` are row r + row_shift and column c + col_shift of `source`.
    """

    source: int
    dest: int
    row_shift: int
    col_shift: int


@dataclass(frozen=True)
class Candidates:
    """The commands of each pair; `are_copies`: the commands are superfluous once source and destination are one."""

    commands: dict[Pair, list[int]]
    are_copies: bool


class CoalescedMatrix(NamedTuple):
    """The position of one matrix in another."""

    matrix: int
    row: int
    col: int


class MergeConflicts:
    """All accesses to groups, as rows: arrays (rows,) of shared variable, command, mode and matrix."""

    def __init__(self, analysis: Analysis, candidates: Candidates, groups: dict[int, CoalescedMatrix]) -> None:
        self.analysis, self.candidates, self.groups = analysis, candidates, groups
        self.pairs = {pair: commands for pair, commands in candidates.commands.items() if self._agrees(pair)}
        accesses = analysis.accesses
        command, submatrix, mode = accesses.command, accesses.submatrix, accesses.mode
        matrix = analysis.table[submatrix, 0]
        in_group = np.zeros(len(analysis.computation.matrices), dtype=bool)
        in_group[[m for m, where in groups.items()]] = True
        chosen = np.flatnonzero(in_group[matrix])
        command, submatrix, mode, matrix = command[chosen], submatrix[chosen], mode[chosen], matrix[chosen]
        self.variables = self._shared_variables(distinct(submatrix))
        if candidates.are_copies:
            copies = [number for commands in self.pairs.values() for number in commands]
            mode = np.where(np.isin(command, copies) & (mode == WRITE), COPY, mode)
        counts = self.variables.counts(submatrix)
        self.variable = self.variables.of_submatrices(submatrix)
        self.command, self.mode, self.matrix = (np.repeat(part, counts) for part in (command, mode, matrix))
        self._add_outputs()
        self._sort()
        self._add_zeros()

    def _agrees(self, pair: Pair) -> bool:
        """Returns true if source and destination of the commands of a pair are a single block now."""
        source, dest = self.groups.get(pair.source), self.groups.get(pair.dest)
        if source is None or dest is None:
            return False
        return dest == (source.matrix, source.row + pair.row_shift, source.col + pair.col_shift)

    def _shared_variables(self, used: Integers) -> Variables:
        table = self.analysis.table.copy()
        shift = np.zeros((len(self.analysis.computation.matrices), 3), dtype=np.int64)  # those not used stay zero
        for matrix, where in self.groups.items():
            shift[matrix] = where
        moved = shift[table[:, 0]]
        table[:, 0] = moved[:, 0]
        table[:, 1:3] += moved[:, 1:2]
        table[:, 3:5] += moved[:, 2:3]
        return Variables(table, matrix_sizes(self.analysis.computation), used)

    def _add_rows(self, variable: Integers, command: int, mode: int, matrix: Integers) -> None:
        self.variable = np.append(self.variable, variable)
        self.command = np.append(self.command, np.full(len(variable), command))
        self.mode = np.append(self.mode, np.full(len(variable), mode))
        self.matrix = np.append(self.matrix, matrix)

    def _add_outputs(self) -> None:
        """Add a read after the last command for each matrix handed to the user."""
        computation = self.analysis.computation
        for number in self.analysis.accesses.numbers_of_class.get(ProvideOutput, ()):
            source = computation.commands[number].schema.operands(computation.commands[number])
            matrix = computation.submatrices[source[0]].matrix
            if matrix in self.groups:
                variable = self.variables.of_submatrices(np.array(source))
                self._add_rows(variable, self.analysis.num_commands, READ, np.full(len(variable), matrix))

    def _add_zeros(self) -> None:
        """Add a write before the first command for every matrix with initial zeros read by a command."""
        zeroed = self.analysis.begins_as_zeros
        order = np.lexsort((np.arange(len(self.variable)), self.matrix, self.variable))
        key = self.variable[order] * len(zeroed) + self.matrix[order]
        first = order[np.append(True, key[1:] != key[:-1])] if len(order) else order
        seen = first[((self.mode[first] & READ) != 0) & zeroed[self.matrix[first]]]
        if len(seen):
            self._add_rows(self.variable[seen], -1, WRITE, self.matrix[seen])
            self._sort()

    def _sort(self) -> None:
        """Sort the rows by variable, command, and iteration within a command."""
        order = np.lexsort((_TURN[self.mode], self.command, self.variable))
        self.variable, self.command, self.mode, self.matrix = (
            part[order] for part in (self.variable, self.command, self.mode, self.matrix)
        )

    def found(self) -> set[tuple[int, int]]:
        """Returns pairs of matrices: a matrix, and a matrix written over it before a read."""
        if len(self.variable) == 0:
            return set()
        return self._overwritten() | self._at_once()

    def _overwritten(self) -> set[tuple[int, int]]:
        rows = np.arange(len(self.variable))
        latest = _latest(np.where((self.mode & WRITE) != 0, rows, -1))
        latest = np.where((latest >= 0) & (self.variable[latest] == self.variable), latest, -1)
        wrong = ((self.mode & READ) != 0) & (latest >= 0) & (self.matrix[latest] != self.matrix)
        if not wrong.any():
            return set()
        if self.candidates.are_copies:
            wrong &= self._latest_copy() < latest
        return set(zip(self.matrix[wrong].tolist(), self.matrix[latest[wrong]].tolist(), strict=True))

    def _latest_copy(self) -> Integers:
        """Returns for every row the latest earlier row with a copy to the same variable and matrix, or -1."""
        order = np.lexsort((self.command, self.matrix, self.variable))
        copy = _latest(np.where(self.mode[order] == COPY, np.arange(len(order)), -1))
        same = (copy >= 0) & (self.variable[order[copy]] == self.variable[order])
        same &= self.matrix[order[copy]] == self.matrix[order]
        result = np.empty(len(order), dtype=np.int64)
        result[order] = np.where(same, order[copy], -1)
        return result

    def _at_once(self) -> set[tuple[int, int]]:
        """Returns pairs (read, changed) of matrices in one command, unless the command may work in place on them."""
        ends = np.append((self.variable[1:] != self.variable[:-1]) | (self.command[1:] != self.command[:-1]), True)
        end = np.flatnonzero(ends)
        last = np.repeat(end, np.diff(np.append(-1, end)))  # the last row of the same command and variable
        both = (self.matrix != self.matrix[last]) & ((self.mode[last] & WRITE) != 0)
        count = len(self.analysis.computation.matrices)
        code = (self.command * count + self.matrix) * count + self.matrix[last]
        allowed = [
            (number * count + pair.source) * count + pair.dest
            for pair, commands in self.pairs.items()
            for number in commands
            if not self.candidates.are_copies
        ]
        both &= ~(np.isin(code, allowed) & (self.mode == READ))
        return set(zip(self.matrix[both].tolist(), self.matrix[last[both]].tolist(), strict=True))


def _latest(numbers: Integers) -> Integers:
    """Returns the largest number before each position, -1 before the first."""
    return np.append(-1, np.maximum.accumulate(numbers)[:-1]) if len(numbers) else numbers


def merge_matrices(computation: NnetComputation, candidates: Candidates) -> NnetComputation:
    """Let the two matrices of every candidate pair share storage, where all reads still find their values."""
    analysis = analyse(computation)
    pairs = _possible(analysis, candidates.commands)
    coalesced: dict[int, CoalescedMatrix] = {}
    while pairs:
        groups = _groups(pairs, computation)
        conflicts = MergeConflicts(analysis, candidates, groups).found()
        failed = {groups[victim].matrix for victim, _ in conflicts}
        coalesced.update({m: own for m, own in groups.items() if own.matrix not in failed})
        pairs = _without(pairs, conflicts, coalesced)
    return relocate(analysis, coalesced, candidates) if coalesced else computation


# ---- candidates ----


def _possible(analysis: Analysis, pairs: Iterable[Pair]) -> list[Pair]:
    """Returns the pairs of matrices free to share storage, at most one pair for any source and destination."""
    computation = analysis.computation
    given, fixed = computation.exchanged_matrices(), _fixed(analysis)  # those stay whole
    is_step_buffer = cache(partial(_is_step_buffer, computation))
    chosen: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        source, dest = pair.source, pair.dest
        one, other = computation.matrices[source], computation.matrices[dest]
        if source == dest or source in fixed or dest in fixed:
            continue
        if is_step_buffer(source) != is_step_buffer(dest):
            continue
        num_given = (source in given) + (dest in given)
        if num_given == 2 or (num_given == 1 and (one != other or pair[2:] != (0, 0))):
            continue
        chosen.setdefault((source, dest), pair)
    return list(chosen.values())


def _fixed(analysis: Analysis) -> set[int]:
    """Returns the matrices in outside memory and the matrices that are compressed for a while."""
    compressed = [matrix for _, matrix in analysis.accesses.lives[Life.COMPRESSES]]
    return {0, *analysis.computation.outside_by_matrix(), *compressed}


def _is_step_buffer(computation: NnetComputation, matrix: int) -> bool:
    """True for a matrix holding one time step after another, to keep out of rows with times of their own."""
    info = computation.matrix_info.get(matrix)
    times = None if info is None or info.indexes is None else info.indexes[:, T]
    return times is not None and bool((times[:1] == NO_TIME).all() and (times == NO_TIME).all())


# ---- groups ----


def _groups(pairs: Sequence[Pair], computation: NnetComputation) -> dict[int, CoalescedMatrix]:
    """Returns where the matrices of the pairs lie: in the largest connected matrix, if the matrix fits."""
    neighbours: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        neighbours[pair.source].append(pair)
        neighbours[pair.dest].append(Pair(pair.dest, pair.source, -pair.row_shift, -pair.col_shift))
    sizes = computation.matrices
    coalesced: dict[int, CoalescedMatrix] = {}
    for root in sorted(neighbours, key=lambda m: -sizes[m].num_rows * sizes[m].num_cols):
        if root in coalesced:
            continue
        coalesced[root] = CoalescedMatrix(root, 0, 0)
        waiting = [root]
        while waiting:
            matrix = waiting.pop()
            for _, other, row_shift, col_shift in neighbours[matrix]:
                row, col = coalesced[matrix].row + row_shift, coalesced[matrix].col + col_shift
                fits = 0 <= row <= sizes[root].num_rows - sizes[other].num_rows
                if other not in coalesced and fits and 0 <= col <= sizes[root].num_cols - sizes[other].num_cols:
                    coalesced[other] = CoalescedMatrix(root, row, col)
                    waiting.append(other)
    alone = {own.matrix for own in coalesced.values()} - {p.matrix for m, p in coalesced.items() if m != p.matrix}
    return {matrix: own for matrix, own in coalesced.items() if own.matrix not in alone}


def _without(pairs: Sequence[Pair], conflicts: set[tuple[int, int]], done: dict[int, CoalescedMatrix]) -> list[Pair]:
    """Returns the pairs left to try, fewer than before: pairs of failed groups that are part of no conflict."""
    left = [pair for pair in pairs if pair.source not in done and pair.dest not in done]
    for victim, other in conflicts:
        direct = [pair for pair in left if {pair.source, pair.dest} == {victim, other}]
        gone = direct or [pair for pair in left if pair.source == victim] or [p for p in left if victim in p[:2]]
        left = [pair for pair in left if pair not in gone]
    # A pair that did not fit into its group waits for the group to fall apart, unless nothing else will happen.
    return left if conflicts else []


# ---- rewriting ----


def relocate(analysis: Analysis, coalesced: dict[int, CoalescedMatrix], candidates: Candidates) -> NnetComputation:
    """Move coalesced matrices into the storage of one, and drop copies with equal source and destination.

    Sub-matrices keep their numbers, and commands and tables stay unchanged. A matrix made of several matrices
    lives from the first allocation of a part to the last deallocation.
    """
    computation = analysis.computation
    result = computation.copy()
    for number, block in enumerate(computation.submatrices):
        own = coalesced.get(block.matrix)
        if own is not None and own.matrix != block.matrix:
            row, col = block.row_offset + own.row, block.col_offset + own.col
            result.submatrices[number] = SubMatrix(own.matrix, row, block.num_rows, col, block.num_cols)
    dropped = _join_lives(analysis, result, coalesced)
    if candidates.are_copies:
        copies = {number for commands in candidates.commands.values() for number in commands}
        dropped |= {number for number in copies if _is_one_block(result, result.commands[number])}
    result.commands = [command for number, command in enumerate(result.commands) if number not in dropped]
    return result


def _is_one_block(result: NnetComputation, command: Command) -> bool:
    one, other = (result.submatrices[number] for number in command.schema.operands(command))
    return one == other


def _join_lives(analysis: Analysis, result: NnetComputation, coalesced: dict[int, CoalescedMatrix]) -> set[int]:
    """Leave a single allocation and at most one deallocation for shared storage; returns the commands to drop."""
    members: dict[int, list[int]] = {}
    for matrix, own in coalesced.items():
        members.setdefault(own.matrix, []).append(matrix)
    dropped: set[int] = set()
    for root, matrices in members.items():
        allocation = analysis.computation.commands[analysis.alloc_command[root]]
        (whole,) = allocation.schema.operands(allocation)
        begins = sorted(analysis.alloc_command[matrices].tolist())
        ends = sorted(analysis.dealloc_command[matrices].tolist())
        result.commands[begins[0]] = AllocMatrix(whole, bool(analysis.begins_as_zeros[matrices].any()))
        dropped |= set(begins[1:])
        if ends[0] == -1:  # one of them is never deallocated
            dropped |= set(ends) - {-1}
            continue
        result.commands[ends[-1]] = DeallocMatrix(whole)
        dropped |= set(ends[:-1])
    return dropped
