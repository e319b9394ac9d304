"""Machine: runs a program on elements of the field, and keeps all matrices handed out or changed outside.

Memory holds, for each row of a matrix, an element for each block of columns. Unwritten memory, and memory after the
end of a matrix, is random, with new elements in each program: results of commands reading random memory differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3.errors import ProofError
from nnet3.index import distinct
from nnet3.ir.declarations import AccessKind, Command
from nnet3.ir.proof import field
from nnet3.ir.proof.columns import ColumnSpan
from nnet3.ir.proof.field import Elements
from nnet3.ir.proof.randoms import Randoms
from nnet3.ir.repeats import repeats, with_references_moved
from nnet3.ir.shape_rules import overlap

if TYPE_CHECKING:
    from nnet3.ir.computation import NnetComputation, SubMatrix
    from nnet3.ir.proof.kernels import Memo


class Machine:
    """The state of a run. Commands describe themselves by its methods, and kernels by `randoms`."""

    def __init__(
        self, computation: NnetComputation, number: int, randoms: Randoms, undefined: int | None = None
    ) -> None:
        """`number`: the program's number among the programs with columns cut together.

        `undefined` numbers the random elements of unwritten memory, `number` by default.
        """
        self.computation, self.randoms = computation, randoms
        self._number, self._columns = number, randoms.columns
        self._undefined = field.Drawing(randoms.seed, number if undefined is None else undefined)
        self._memory: dict[int, Elements] = {}
        self._blocks: dict[int, tuple[int, slice, slice]] = {}
        self._turn, self._moving = 0, frozenset[int]()
        self.memos: dict[int, Memo] = {}
        #: What is the same for all commands of a kernel and a node.
        self.calls: dict[Hashable, Any] = {}
        #: What was handed out and what lies outside, by kind, name and number of those of this name before it.
        self.outputs: dict[tuple[str, str, int], Elements] = {}
        #: What kernels have learned or counted, by kind and name: (2,), sums over all of it.
        self.effects: dict[tuple[str, str, int], Elements] = {}
        self._times: Counter[Hashable] = Counter()

    def run(self) -> None:
        """Run the program, each Repeat turn by turn."""
        computation = self.computation
        self._moving = frozenset(
            [number for number, block in enumerate(computation.submatrices) if block.row_step] + [*computation.turns]
        )
        for bound in computation.outside:
            block = computation.submatrices[bound.submatrix]
            self._memory[block.matrix] = self._named(("outside", bound.name), bound.submatrix)
        bodies = {body.start - 1: (repeat, body) for repeat, body in repeats(computation)}
        number = 0
        while number < len(computation.commands):
            if number not in bodies:
                self._evaluate(computation.commands[number])
                number += 1
                continue
            repeat, body = bodies[number]
            for self._turn in range(repeat.turns):
                for each in body:
                    self._evaluate(with_references_moved(computation.commands[each], repeat, self._turn))
            self._turn, number = 0, body.stop
        for bound in computation.outside:
            if bound.writable:
                self.outputs["memory", bound.name, 0] = self.read(bound.submatrix)
        for kept in (self._memory, self.memos, self.calls):  # which refer to the machine: programs are large
            kept.clear()

    def _evaluate(self, command: Command) -> None:
        command.evaluate(self)
        for submatrix in self._spoiled(command):
            self.write(submatrix, self._random(self.read(submatrix).shape))

    def _spoiled(self, command: Command) -> list[int]:
        """Returns the sub-matrices overwritten by a command still reading them."""
        blocks = self.computation.submatrices
        matrices = [blocks[number].matrix for number in command.form.operands(command) if number]
        if len(matrices) == len(set(matrices)) and not command.form.table_fields:
            return []
        accesses = command.accesses(self.computation)
        written = [access for access in accesses if access.kind != AccessKind.READ]
        allowed = command.in_place_pairs(self.computation)
        return [
            one.submatrix
            for one in written
            for other in accesses
            if other is not one
            and blocks[one.submatrix].matrix == blocks[other.submatrix].matrix
            and (other.submatrix, one.submatrix) not in allowed
            and (other.kind == AccessKind.READ or one.kind == AccessKind.WRITE)
            and overlap(self.at_turn(one.submatrix), self.at_turn(other.submatrix))
        ]

    def at_turn(self, submatrix: int) -> SubMatrix:
        """Returns where a sub-matrix lies now."""
        return self.computation.block_at(submatrix, self._turn)

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
        matrix, rows, blocks = self._place(submatrix)
        if matrix not in self._memory:
            raise ProofError(f"matrix m{matrix} is used before it begins")
        return self._memory[matrix][rows, blocks]

    def write(self, submatrix: int, values: Elements) -> None:
        """Change the contents of a sub-matrix."""
        self.read(submatrix)[...] = values

    def add(self, submatrix: int, values: Elements) -> None:
        """Add to the contents of a sub-matrix."""
        place = self.read(submatrix)
        place[...] = field.reduced(place + values)

    def num_rows(self, submatrix: int) -> int:
        return self.at_turn(submatrix).num_rows

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
            place, rows = self.read(number), pairs[entries, 1]
            np.add.at(place, rows, values[entries])
            place[...] = field.reduced(place)

    def _entries(self, table: int) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
        """Returns a multi table, and the entries of its sub-matrices."""
        pairs = self.computation.multi_tables[table]
        numbers = distinct(pairs[pairs[:, 0] >= 0, 0]).tolist()
        return pairs, [(number, np.flatnonzero(pairs[:, 0] == number)) for number in numbers]

    def _place(self, submatrix: int) -> tuple[int, slice, slice]:
        place = self._blocks.get(submatrix)
        if place is None:
            block = self.at_turn(submatrix)
            if not 0 <= block.row_offset <= self.computation.matrices[block.matrix].num_rows - block.num_rows:
                raise ProofError(f"rows of sub-matrix {submatrix} are none of matrix m{block.matrix}")
            span = ColumnSpan((self._number, block.matrix), block.col_offset, block.num_cols)
            rows = slice(block.row_offset, block.row_offset + block.num_rows)
            place = block.matrix, rows, self._columns.blocks(span)
            if submatrix not in self._moving:
                self._blocks[submatrix] = place
        return place

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
