"""The program of a family with parameters in the place of numbers: the printed program holds for every length.

Two tables say a table for all k, the pieces and their rows. In a family for all numbers of sequences either of the two
is made of pieces again, repeated in n. So a table is loops in loops, a nest, with polynomials for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from nnet3.engine.families.continued import Continued, ContinuedTwice, NotAffineError, TablePiece
from nnet3.engine.families.family import ProgramFamily, ShapeFamily
from nnet3.engine.families.number_table import NumberTable
from nnet3.engine.families.rolled import RolledCommands
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.nests import Loop, Nest, NestItem
from nnet3.engine.ir.program_tables import Matrix, MatrixInfo, OutsideMatrix, SubMatrix

_MIXED = "its rows are neither those of one time after the other nor those of one sequence after the other"

#: Rows in iteration j of a loop in n: base, slope and step of each, (3, columns).
_Rows = Callable[[Any], list[np.ndarray]]


def symbolic(family: ProgramFamily, k: Any, shapes: ShapeFamily | None = None, n: Any = 0) -> NnetComputation:
    """Returns the program for k and n, which may be polynomials, to be printed: its tables are nests.

    `shapes`: the families for all n, `family` included, if several exist. Raises NotAffineError for programs
    with commands for each sequence.
    """
    tables = family.tables if shapes is None else shapes.tables
    made = {name: _Table(*_sheets(tables, number), n) for number, name in enumerate(family.names)}
    nests = {name: Nest(table.loops(k)) for name, table in made.items()}
    first = family.first
    result = NnetComputation(
        matrices=[
            Matrix(rows[0], *matrix[1:]) for rows, matrix in zip(nests["matrices"].rows(), first.matrices, strict=True)
        ],
        matrix_info={
            matrix: MatrixInfo(info.node, info.is_deriv, cast(Any, nests.get(f"indexes {matrix}")))
            for matrix, info in first.matrix_info.items()
        },
        kernels=first.kernels,
    )
    program = RolledCommands(made["commands"].pieces(), family.patterns, object)
    result.add_submatrices(program.blocks_at(k))
    result.commands = program.commands_at(k)
    result.outside = [
        OutsideMatrix(bound.name, result.find_or_add(SubMatrix(*rows[:5])), bound.writable)
        for bound, rows in zip(first.outside, nests["outside"].rows(), strict=True)
    ]
    for name in ("index_tables", "range_tables", "multi_tables"):
        for number in range(len(getattr(first, name))):
            nest = nests[f"{name} {number}"]
            getattr(result, name).append(_rows_of_matrices(result, nest) if name == "multi_tables" else nest)
    return result


def _rows_of_matrices(result: NnetComputation, nest: Nest) -> Nest:
    """Returns a table with pairs of a sub-matrix, which is all rows of a matrix, and a row in it."""

    def pair(row: Any) -> Any:
        if isinstance(row, Loop):
            return Loop(row.count, row.fewest, lambda iteration: list(map(pair, row.iteration(iteration))))
        matrix, offset, _, column, columns, position = row
        if matrix < 0:
            return -1, -1
        whole = SubMatrix(matrix, 0, result.matrices[matrix].num_rows, column, columns)
        return result.find_or_add(whole), offset + position

    return Nest(list(map(pair, nest.parts)))


def _sheets(tables: Continued | ContinuedTwice, number: int) -> tuple[list[TablePiece], list[TablePiece]]:
    """Returns the pieces, repeated in n, of the two tables of a table for all k."""
    position = 2 * tables.numbers[number]
    if isinstance(tables, ContinuedTwice):
        return list(tables.sheets.pieces(position)), list(tables.sheets.pieces(position + 1))
    one, other = map(_once, tables.tables[position : position + 2])
    return [one], [other]


def _once(table: NumberTable) -> TablePiece:
    nothing = np.zeros_like(table.values)
    return TablePiece(1, 0, table.values, nothing, nothing, table.labels)


def _alone(rows: list[np.ndarray]) -> tuple[int, int, _Rows]:
    return 1, 1, lambda _: rows


@dataclass
class _Piece:
    """A piece that repeats in k. `parts`: count, fewest iterations and rows of loops in n; rows alone come
    once."""

    iterations: Any
    more_iterations: Any
    fewest: int
    parts: list[tuple[Any, int, _Rows]]

    def loop(self, k: Any) -> Loop:
        def rows_in_turn(rows: _Rows, i: Any) -> Callable[[Any], list[NestItem]]:
            return lambda j: [tuple((base + slope * k + step * i).tolist()) for base, slope, step in rows(j)]

        return Loop(
            self.iterations + k * self.more_iterations,
            self.fewest,
            lambda i: [Loop(count, fewest, rows_in_turn(rows, i)) for count, fewest, rows in self.parts],
        )


class _Table:
    """A table as a function of k and n."""

    def __init__(self, pieces: Sequence[TablePiece], rows: Sequence[TablePiece], n: Any) -> None:
        """`pieces`, `rows`: the two tables that say a table for all k, as pieces repeated in n."""
        self._rows, self._n = rows, n
        #: The piece of `pieces`, its iteration and the row of each row for n = 0.
        self._positions = [
            (piece, iteration, row)
            for piece in pieces
            for iteration in range(piece.iterations)
            for row in range(len(piece.labels))
        ]

    def pieces(self) -> Iterator[TablePiece]:
        """Yields the pieces, if there are as many rows for all n."""
        if any(piece.more_iterations for piece in self._rows):
            raise NotAffineError("there are commands for each sequence")
        labels = np.concatenate([piece.labels for piece in self._rows])
        rows = [row for piece in self._rows for row in self._rows_of(piece)(0)]
        for position, (first, end) in enumerate(pairwise([*np.flatnonzero(labels & 1).tolist(), len(labels)])):
            own = self._piece(position)
            base, slope, step = np.stack(rows[first:end], axis=1)
            yield TablePiece(own.iterations, own.more_iterations, base, slope, step, labels[first:end] >> 1)

    def loops(self, k: Any) -> list[NestItem]:
        """Returns the pieces as loops in k, of loops in n or inside of them."""
        found: list[NestItem] = []
        position, own = 0, _Piece(0, 0, 0, [])
        for piece in self._rows:
            begins = np.flatnonzero(piece.labels & 1).tolist()
            rows, count = self._rows_of(piece), piece.iterations + self._n * piece.more_iterations
            if piece.more_iterations and begins:
                found.append(Loop(count, piece.iterations, self._sequences(piece, begins, position, rows, k)))
                position += len(begins) * piece.iterations
            elif piece.more_iterations:
                own.parts.append((count, piece.iterations, rows))
            else:
                for first, end in pairwise(sorted({0, *begins, len(piece.labels)})):
                    if first in begins:
                        own = self._piece(position)
                        found.append(own.loop(k))
                        position += 1
                    own.parts.append(_alone(rows(0)[first:end]))
        return found

    def _sequences(
        self, piece: TablePiece, begins: list[int], position: int, rows: _Rows, k: Any
    ) -> Callable[[Any], list[NestItem]]:
        """Returns the pieces of sequence j as loops in k."""
        shape, iteration, row = self._positions[position]
        if begins[0] or len(begins) != len(shape.labels) or row or shape.iterations - iteration != piece.iterations:
            raise NotAffineError(_MIXED)

        def sequence(j: Any) -> list[NestItem]:
            found: list[NestItem] = []
            for number, (first, end) in enumerate(pairwise([*begins, len(piece.labels)])):
                own = self._piece(position + number, j)
                own.parts.append(_alone(rows(j)[first:end]))
                found.append(own.loop(k))
            return found

        return sequence

    def _piece(self, position: int, j: Any = 0) -> _Piece:
        """Returns the piece here, or j iterations later, without its parts."""
        piece, iteration, row = self._positions[position]
        base, slope, step = (each[row].astype(object) for each in (piece.base, piece.slope, piece.step))
        _, iterations, more_iterations = (base + slope * self._n + step * (iteration + j)).tolist()
        return _Piece(iterations, more_iterations, (base + step * iteration)[1], [])

    def _rows_of(self, piece: TablePiece) -> _Rows:
        base, slope, step = (each.astype(object) for each in (piece.base, piece.slope, piece.step))
        first = base + slope * self._n
        return lambda j: list((first + step * j).reshape(len(first), 3, -1))
