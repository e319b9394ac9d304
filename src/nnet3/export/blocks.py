"""Blocks: the matrices of a program, written in place, as values that never change.

A matrix is a list of pieces, rectangles with the values written to them. A write cuts its rectangle off older pieces; a
read cuts and joins pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nnet3.errors import ExportError
from nnet3.export.extent import E, Extent, larger, smaller
from nnet3.export.graph import GraphBuilder, OnnxValue


class Rectangle(NamedTuple):
    """Rows [top, bottom) and columns [left, right) of a matrix."""

    top: Extent
    bottom: Extent
    left: int
    right: int

    @property
    def rows(self) -> Extent:
        return self.bottom - self.top

    def moved(self, step: Extent) -> Rectangle:
        """Returns the rectangle `step` rows further down."""
        return self._replace(top=self.top + step, bottom=self.bottom + step)

    def swept(self, step: int, iterations: Extent) -> Rectangle:
        """Returns the rectangle covered in all iterations, moved by a step in each iteration after the first."""
        reach = (iterations - 1) * step
        return self._replace(bottom=self.bottom + reach) if step > 0 else self._replace(top=self.top + reach)

    def overlap(self, other: Rectangle) -> Rectangle | None:
        top, bottom = larger(self.top, other.top), smaller(self.bottom, other.bottom)
        left, right = max(self.left, other.left), min(self.right, other.right)
        return Rectangle(top, bottom, left, right) if left < right and top < bottom else None

    def cut(self, hole: Rectangle) -> Iterator[Rectangle]:
        """Yields the rectangles left after a second rectangle is cut out."""
        other = self.overlap(hole)
        if other is None:
            yield self
            return
        if self.top < other.top:
            yield self._replace(bottom=other.top)
        if other.bottom < self.bottom:
            yield self._replace(top=other.bottom)
        if self.left < other.left:
            yield Rectangle(other.top, other.bottom, self.left, other.left)
        if other.right < self.right:
            yield Rectangle(other.top, other.bottom, other.right, self.right)


def not_in(areas: Sequence[Rectangle], covered: Sequence[Rectangle]) -> list[Rectangle]:
    """Returns the parts of rectangles that rectangles in `covered` do not cover."""
    left = list(areas)
    for hole in covered:
        left = [part for area in left for part in area.cut(hole)]
    return left


class WrittenPiece(NamedTuple):
    """A part of a value, at `area`; row `top`, column `left` of the matrix is the value's first row and column."""

    area: Rectangle
    top: Extent
    left: int
    value: OnnxValue


class Blocks:
    """The contents of all matrices of a program, by number."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph
        self._pieces: dict[int, list[WrittenPiece]] = {}

    def forget(self, matrix: int) -> None:
        self._pieces.pop(matrix, None)

    def write(self, matrix: int, area: Rectangle, value: OnnxValue) -> None:
        pieces = []
        for piece in self._pieces.get(matrix, []):
            pieces += [piece._replace(area=part) for part in piece.area.cut(area)]
        self._pieces[matrix] = [*pieces, WrittenPiece(area, area.top, area.left, value)]

    def read(self, matrix: int, area: Rectangle) -> OnnxValue:
        """Returns the contents of a rectangle, which must have been written to."""
        found = [
            piece._replace(area=part)
            for piece in self._pieces.get(matrix, [])
            if (part := piece.area.overlap(area)) is not None
        ]
        for part in self.unwritten(matrix, area):
            found.append(WrittenPiece(part, part.top, part.left, self.missing(matrix, part)))
        return self._joined(area, found)

    def unwritten(self, matrix: int, area: Rectangle) -> list[Rectangle]:
        """Returns the parts of a rectangle that nothing was written to."""
        return not_in([area], [piece.area for piece in self._pieces.get(matrix, [])])

    def missing(self, matrix: int, area: Rectangle) -> OnnxValue:
        """Returns what lies where nothing was written."""
        raise ExportError(f"rows {area.top} to {area.bottom} of matrix m{matrix} are read before they are written")

    def _joined(self, area: Rectangle, pieces: list[WrittenPiece]) -> OnnxValue:
        if len(pieces) == 1 and pieces[0].area == area:
            return self._cut(pieces[0])
        columns = _cuts(area.left, area.right, [(p.area.left, p.area.right) for p in pieces])
        if len(columns) > 1:
            bands = [area._replace(left=left, right=right) for left, right in columns]
            return self._graph.side_by_side([self._joined(band, _within(band, pieces)) for band in bands])
        rows = _cuts(area.top, area.bottom, [(p.area.top, p.area.bottom) for p in pieces])
        if len(rows) > 1:
            bands = [area._replace(top=top, bottom=bottom) for top, bottom in rows]
            return self._graph.below_each_other([self._joined(band, _within(band, pieces)) for band in bands])
        raise ExportError("a block was written in pieces that lie round each other: export a fixed chunk")

    def _cut(self, piece: WrittenPiece) -> OnnxValue:
        area = piece.area
        columns = self._graph.columns_of(piece.value, area.left - piece.left, area.right - area.left)
        return self._graph.rows_of(columns, area.top - piece.top, area.rows)


def _cuts(first: E, end: E, ranges: list[tuple[E, E]]) -> list[tuple[E, E]]:
    """Returns the parts of [first, end) between the areas that no range goes across."""
    parts = []
    while first < end:
        stop: E | None = None
        for low, high in ranges:
            if low <= first and first < high:
                stop = high if stop is None else larger(stop, high)
        if stop is None:
            return []
        grown = True
        while grown:
            grown = False
            for low, high in ranges:
                if low < stop and stop < high:
                    stop, grown = high, True
        parts.append((first, stop))
        first = stop
    return parts


def _within(band: Rectangle, pieces: list[WrittenPiece]) -> list[WrittenPiece]:
    return [piece for piece in pieces if piece.area.overlap(band) is not None]
