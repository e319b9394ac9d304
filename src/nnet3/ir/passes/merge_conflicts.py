"""Interference between the matrices of a group that would lie in one place."""

from __future__ import annotations

import numpy as np

from nnet3.index import distinct
from nnet3.ir.analysis import READ, UPDATE, WRITE, Analysis
from nnet3.ir.commands import ProvideOutput
from nnet3.ir.passes.places import Candidates, MatrixPlace, Pair
from nnet3.ir.variables import Integers, Variables, matrix_sizes

COPY = 0  # beside READ, WRITE and UPDATE: a copy within the group, which has nothing to do any more
_TURN = np.zeros(4, dtype=np.int64)  # within a command
_TURN[[READ, COPY, UPDATE, WRITE]] = 0, 1, 2, 3


class MergeConflicts:
    """All accesses to groups, one row each: arrays (rows,) of shared variable, command, kind and matrix."""

    def __init__(self, analysis: Analysis, candidates: Candidates, groups: dict[int, MatrixPlace]) -> None:
        self.analysis, self.candidates, self.groups = analysis, candidates, groups
        self.pairs = {pair: commands for pair, commands in candidates.commands.items() if self._agrees(pair)}
        accesses = analysis.accesses
        command, submatrix, kind = accesses.command, accesses.submatrix, accesses.kind
        matrix = analysis.table[submatrix, 0]
        in_group = np.zeros(len(analysis.computation.matrices), dtype=bool)
        in_group[[m for m, where in groups.items()]] = True
        chosen = np.flatnonzero(in_group[matrix])
        command, submatrix, kind, matrix = command[chosen], submatrix[chosen], kind[chosen], matrix[chosen]
        self.variables = self._shared_variables(distinct(submatrix))
        if candidates.are_copies:
            copies = [number for commands in self.pairs.values() for number in commands]
            kind = np.where(np.isin(command, copies) & (kind == WRITE), COPY, kind)
        counts = self.variables.counts(submatrix)
        self.variable = self.variables.of_submatrices(submatrix)
        self.command, self.kind, self.matrix = (np.repeat(part, counts) for part in (command, kind, matrix))
        self._add_outputs()
        self._sort()
        self._add_zeros()

    def _agrees(self, pair: Pair) -> bool:
        """Tells whether source and destination of the commands of this pair are one block now."""
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

    def _add_rows(self, variable: Integers, command: int, kind: int, matrix: Integers) -> None:
        self.variable = np.append(self.variable, variable)
        self.command = np.append(self.command, np.full(len(variable), command))
        self.kind = np.append(self.kind, np.full(len(variable), kind))
        self.matrix = np.append(self.matrix, matrix)

    def _add_outputs(self) -> None:
        """Add a read after the last command for each matrix that is handed to the user."""
        computation = self.analysis.computation
        for number in self.analysis.accesses.numbers_of_class.get(ProvideOutput, ()):
            source = computation.commands[number].form.operands(computation.commands[number])
            matrix = computation.submatrices[source[0]].matrix
            if matrix in self.groups:
                variable = self.variables.of_submatrices(np.array(source))
                self._add_rows(variable, self.analysis.num_commands, READ, np.full(len(variable), matrix))

    def _add_zeros(self) -> None:
        """Add a write before the first command for each matrix whose initial zeros are read."""
        zeroed = self.analysis.begins_as_zeros
        order = np.lexsort((np.arange(len(self.variable)), self.matrix, self.variable))
        key = self.variable[order] * len(zeroed) + self.matrix[order]
        first = order[np.append(True, key[1:] != key[:-1])] if len(order) else order
        seen = first[((self.kind[first] & READ) != 0) & zeroed[self.matrix[first]]]
        if len(seen):
            self._add_rows(self.variable[seen], -1, WRITE, self.matrix[seen])
            self._sort()

    def _sort(self) -> None:
        """Sort the rows by variable, command, and turn within a command."""
        order = np.lexsort((_TURN[self.kind], self.command, self.variable))
        self.variable, self.command, self.kind, self.matrix = (
            part[order] for part in (self.variable, self.command, self.kind, self.matrix)
        )

    def found(self) -> set[tuple[int, int]]:
        """Returns pairs of matrices: one that is read, and one that has been written over it."""
        if len(self.variable) == 0:
            return set()
        return self._overwritten() | self._at_once()

    def _overwritten(self) -> set[tuple[int, int]]:
        rows = np.arange(len(self.variable))
        latest = _latest(np.where((self.kind & WRITE) != 0, rows, -1))
        latest = np.where((latest >= 0) & (self.variable[latest] == self.variable), latest, -1)
        wrong = ((self.kind & READ) != 0) & (latest >= 0) & (self.matrix[latest] != self.matrix)
        if not wrong.any():
            return set()
        if self.candidates.are_copies:
            wrong &= self._latest_copy() < latest
        return set(zip(self.matrix[wrong].tolist(), self.matrix[latest[wrong]].tolist(), strict=True))

    def _latest_copy(self) -> Integers:
        """Returns for each row the latest before it that copies to the same variable of the same matrix, or -1."""
        order = np.lexsort((self.command, self.matrix, self.variable))
        copy = _latest(np.where(self.kind[order] == COPY, np.arange(len(order)), -1))
        same = (copy >= 0) & (self.variable[order[copy]] == self.variable[order])
        same &= self.matrix[order[copy]] == self.matrix[order]
        result = np.empty(len(order), dtype=np.int64)
        result[order] = np.where(same, order[copy], -1)
        return result

    def _at_once(self) -> set[tuple[int, int]]:
        """Returns pairs of which one command reads the first and changes the second, unless it may do so in place."""
        ends = np.append((self.variable[1:] != self.variable[:-1]) | (self.command[1:] != self.command[:-1]), True)
        end = np.flatnonzero(ends)
        last = np.repeat(end, np.diff(np.append(-1, end)))  # the last row of the same command and variable
        both = (self.matrix != self.matrix[last]) & ((self.kind[last] & WRITE) != 0)
        count = len(self.analysis.computation.matrices)
        code = (self.command * count + self.matrix) * count + self.matrix[last]
        allowed = [
            (number * count + pair.source) * count + pair.dest
            for pair, commands in self.pairs.items()
            for number in commands
            if not self.candidates.are_copies
        ]
        both &= ~(np.isin(code, allowed) & (self.kind == READ))
        return set(zip(self.matrix[both].tolist(), self.matrix[last[both]].tolist(), strict=True))


def _latest(numbers: Integers) -> Integers:
    """Returns the largest number before each position, -1 before the first."""
    return np.append(-1, np.maximum.accumulate(numbers)[:-1]) if len(numbers) else numbers
