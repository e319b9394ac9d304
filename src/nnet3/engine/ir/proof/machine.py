"""Machine: what commands do to elements of the field; it keeps all matrices handed out or changed outside.

Memory holds, for each row of a matrix, an element for each block of columns. Unwritten memory, and memory after the
end of a matrix, is random, with new elements in each program: results of commands reading random memory differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.ir.program_tables import ProgramTables, SubMatrix
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.errors import ProofError


class Memo(NamedTuple):
    """The elements kept by a forward pass: of rows, of all rows together, and the random numbers of rows."""

    rows: Elements  # (rows, 2)
    together: Elements  # (2,)
    draws: Elements  # (rows, 2)


class Machine:
    """The state of a run. Commands describe themselves by its methods, and kernels by `randoms`."""

    def __init__(self, computation: ProgramTables, number: int, randoms: Randoms, undefined: int | None = None) -> None:
        """`number`: the program's number among the programs with columns cut together.

        `undefined` numbers the random elements of unwritten memory, `number` by default.
        """
        self.computation, self.randoms = computation, randoms
        self._number, self._columns = number, randoms.columns
        self._undefined = field.Drawing(randoms.seed, number if undefined is None else undefined)
        self._memory: dict[int, Elements] = {}
        self._blocks: dict[int, tuple[int, slice, slice]] = {}
        self._iteration, self._moving = 0, frozenset[int]()
        self.memos: dict[int, Memo] = {}
        #: What is the same for all commands of a kernel and a node.
        self.calls: dict[Hashable, Any] = {}
        #: What was handed out and what lies outside, by kind, name and number of those of this name before it.
        self.outputs: dict[tuple[str, str, int], Elements] = {}
        #: What kernels have learned or counted, by kind and name: (2,), sums over all of it.
        self.effects: dict[tuple[str, str, int], Elements] = {}
        self._times: Counter[Hashable] = Counter()

    def at_iteration(self, submatrix: int) -> SubMatrix:
        """Returns where a sub-matrix lies now."""
        return self.computation.block_at(submatrix, self._iteration)

    # ---- memory ----

    def begin(self, submatrix: int, zeroed: bool) -> None:
        """Begin the life of a matrix."""
        matrix = self.computation.submatrices[submatrix].matrix
        shape = self.computation.matrices[matrix].num_rows, self._columns.num_blocks((self._number, matrix)), 2
        self._memory[matrix] = np.zeros(shape, np.uint64) if zeroed else self._random(shape)

    def end(self, submatrix: int) -> None:
        """End the life of a matrix: later reads find random elements."""
        self.begin(submatrix, zeroed=False)

    def read(self, submatrix: int) -> Elements:
        """Returns the contents of a sub-matrix, (rows, blocks, 2): not a copy. Number 0 is empty."""
        if not submatrix:
            return np.zeros((0, 0, 2), np.uint64)
        matrix, rows, blocks = self._block(submatrix)
        if matrix not in self._memory:
            raise ProofError(f"matrix m{matrix} is used before it begins")
        return self._memory[matrix][rows, blocks]

    def write(self, submatrix: int, values: Elements) -> None:
        """Change the contents of a sub-matrix."""
        self.read(submatrix)[...] = values

    def add(self, submatrix: int, values: Elements) -> None:
        """Add to the contents of a sub-matrix."""
        target = self.read(submatrix)
        target[...] = field.reduced(target + values)

    def num_rows(self, submatrix: int) -> int:
        return self.at_iteration(submatrix).num_rows

    def rows_of_table(self, table: int) -> Elements:
        """Returns the rows named by a multi table, (rows, blocks, 2), zeros for none."""
        pairs, parts = self._entries(table)
        shape = len(pairs), max((self.read(number).shape[1] for number, _ in parts), default=1), 2
        result = np.zeros(shape, np.uint64)
        for number, entries in parts:
            result[entries] = self.read(number)[pairs[entries, 1]]
        return result

    def add_to_rows(self, table: int, values: Elements) -> None:
        """Add to the rows named by a multi table."""
        pairs, parts = self._entries(table)
        for number, entries in parts:
            target, rows = self.read(number), pairs[entries, 1]
            np.add.at(target, rows, values[entries])
            self.write(number, field.reduced(target))

    def _entries(self, table: int) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
        """Returns a multi table, and the entries of its sub-matrices."""
        pairs = self.computation.multi_tables[table]
        numbers = distinct(pairs[pairs[:, 0] >= 0, 0]).tolist()
        return pairs, [(number, np.flatnonzero(pairs[:, 0] == number)) for number in numbers]

    def _block(self, submatrix: int) -> tuple[int, slice, slice]:
        found = self._blocks.get(submatrix)
        if found is None:
            block = self.at_iteration(submatrix)
            if not 0 <= block.row_offset <= self.computation.matrices[block.matrix].num_rows - block.num_rows:
                raise ProofError(f"rows of sub-matrix {submatrix} are none of matrix m{block.matrix}")
            span = ColumnSpan((self._number, block.matrix), block.col_offset, block.num_cols)
            rows = slice(block.row_offset, block.row_offset + block.num_rows)
            found = block.matrix, rows, self._columns.blocks(span)
            if submatrix not in self._moving:
                self._blocks[submatrix] = found
        return found

    def _random(self, shape: tuple[int, ...]) -> Elements:
        return self._undefined.next(shape)

    # ---- the outside world ----

    def accept(self, submatrix: int, name: str) -> None:
        """Write the user's matrix under a name: the same in all programs."""
        self.write(submatrix, self._named(("accepted", name, self._count("accepted", name)), submatrix, name))

    def provide(self, submatrix: int, name: str) -> None:
        """Hand a sub-matrix out."""
        self.outputs["output", name, self._count("provided", name)] = self.read(submatrix).copy()

    def _named(self, what: tuple[Hashable, ...], submatrix: int, name: str = "") -> Elements:
        block = self.computation.submatrices[submatrix]
        space = ("name", name) if name else what
        columns = self._columns.cuts(ColumnSpan(space, 0, block.num_cols))
        return field.drawn(self.randoms.key(*what), np.arange(block.num_rows)[:, None], columns)

    def _count(self, *what: Hashable) -> int:
        self._times[what] += 1
        return self._times[what] - 1

    # ---- kernels ----

    def memo(self, number: int, num_rows: int) -> Memo | None:
        """Returns a memo, None for number -1. Raises ProofError for a missing memo or a wrong number of rows."""
        if number < 0:
            return None
        memo = self.memos.get(number)
        if memo is None or len(memo.rows) != num_rows:
            got = "is not there" if memo is None else f"has {len(memo.rows)} rows"
            raise ProofError(f"memo {number} {got}, where one of {num_rows} rows is used")
        return memo

    def keep(self, number: int, memo: Memo) -> None:
        """Keep a memo for the backward pass."""
        self.memos[number] = memo

    def effect(self, kind: str, name: str, change: Elements) -> None:
        """Add to what a kernel has learned or counted."""
        what = kind, name, 0
        self.effects[what] = field.reduced(self.effects.get(what, field.ZERO) + change)

    def draws(self, kernel: str, node: str, count: int) -> Elements:
        """Returns the next random numbers of a kernel of a node, (count, 2)."""
        first = self._times["draw", kernel, node]
        self._times["draw", kernel, node] += count
        return field.drawn(self.randoms.key(kernel, "draws", node), np.arange(first, first + count))
