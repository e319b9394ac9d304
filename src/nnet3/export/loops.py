"""A Repeat as an ONNX Loop.

Blocks of the body are seen from the iteration: row r is row r + i * step of the matrix in iteration i. Rows written by
an earlier iteration are carried from iteration to iteration. Rows from before the loop are cut out of their matrix in
each iteration. From a matrix that moves on, an iteration hands out the rows that no later iteration writes again, and
the rows of all iterations are joined; rows that a next iteration would write again are carried out of the last
iteration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from nnet3.engine.ir.declarations import AccessMode, Command
from nnet3.errors import ExportError
from nnet3.export.blocks import Blocks, Rectangle, not_in
from nnet3.export.extent import Extent, base_and_slope
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram

_MOST_TURNS_BACK = 64


@dataclass
class _Matrix:
    """The reads and writes of one matrix in a body."""

    step: int
    written: list[Rectangle] = field(default_factory=list)
    read_first: list[Rectangle] = field(default_factory=list)  # before this iteration writes there


class _BodyBlocks(Blocks):
    """The matrices as they are in an iteration."""

    def __init__(
        self, graph: GraphBuilder, before: Blocks, steps: dict[int, int], iteration: ir.Value, iterations: Extent
    ) -> None:
        super().__init__(graph)
        self._before, self._steps, self._iteration, self._iterations = before, steps, iteration, iterations

    def missing(self, matrix: int, area: Rectangle) -> OnnxValue:
        """Returns rows from before the loop."""
        graph, step = self._graph, self._steps.get(matrix, 0)
        if step == 0:
            return self._before.read(matrix, area)
        hull = area.swept(step, self._iterations)
        whole = self._before.read(matrix, hull)
        if whole.is_repeated:
            return graph.rows_of(whole, 0, area.rows)
        moved = graph.op("Mul", self._iteration, graph.integers(step))
        first = graph.op("Add", moved, graph.number(area.top - hull.top))
        end = graph.op("Add", first, graph.number(area.rows))
        rows = graph.op("Slice", graph.whole(whole), first, end, graph.integers(1))
        return graph.value(rows, area.rows, whole.columns)


def add_loop(
    graph: GraphBuilder,
    program: ExportProgram,
    body: Sequence[Command],
    iterations: Extent,
    before: Blocks,
    read_later: Collection[int],
    translate_body: Callable[[GraphBuilder, Blocks], None],
) -> None:
    """Adds the loop of a body to a graph; `before` holds the contents of matrices, before the loop and then after."""
    matrices, steps = _survey(program, body)
    iteration, condition = graph.tensor("iteration", [], ir.DataType.INT64), graph.tensor("go_on", [], ir.DataType.BOOL)
    carried = [
        (number, area, ir.Value(name=graph.new_name("carried"), type=ir.TensorType(ir.DataType.FLOAT)))
        for number, matrix in matrices.items()
        for area in _carried(matrix, number in read_later)
    ]
    inner = GraphBuilder(graph, [iteration, *(value for *_, value in carried)])
    blocks = _BodyBlocks(inner, before, steps, inner.op("Reshape", iteration, inner.integers(1)), iterations)
    for number, area, value in carried:
        blocks.write(number, area, inner.value(value, area.rows, area.right - area.left))
    translate_body(inner, blocks)
    given = [_start(graph, before, number, area) for number, area, _ in carried]
    handed_out = [
        (number, area)
        for number, matrix in matrices.items()
        if matrix.step and number in read_later
        for area in _tiles(matrix)
    ]
    after = [(number, area.moved(steps[number])) for number, area, _ in carried]
    results = [inner.result(inner.whole(blocks.read(number, area))) for number, area in [*after, *handed_out]]
    go_on = inner.tape.op("Identity", [condition])
    go_on.name = graph.new_name("go_on")
    made = ir.Graph(
        [iteration, condition, *(value for *_, value in carried)], [go_on, *results], nodes=inner.tape.nodes,
        name=graph.new_name("body"),
    )  # fmt: skip
    count = graph.op("Squeeze", graph.number(iterations))
    outputs = graph.several("Loop", [count, None, *given], {"body": made}, len(results))
    for (number, area), output in zip(handed_out, outputs[len(carried) :], strict=True):
        step, columns = steps[number], area.right - area.left
        if step < 0:  # later iterations come first
            last, end = graph.integers(-1), graph.integers(-(2**63) + 1)
            output = graph.op("Slice", output, last, end, graph.integers(0), graph.integers(-1))
        rows = graph.op("Reshape", graph.op("Transpose", output, perm=[1, 0, 2, 3]), graph.integers(0, -1, columns))
        hull = area.swept(step, iterations)
        before.write(number, hull, graph.value(rows, hull.rows, columns))
    unfinished = {number for number, _ in handed_out if _left_by_the_last_iterations(matrices[number])}
    for (number, area, _), output in zip(carried, outputs, strict=False):
        if not steps[number] or number in unfinished:
            until = area.moved(steps[number] * iterations)
            before.write(number, until, graph.value(output, area.rows, area.right - area.left))


def _survey(program: ExportProgram, body: Sequence[Command]) -> tuple[dict[int, _Matrix], dict[int, int]]:
    """Returns the matrices written to by a body, and the steps of all matrices in the body."""
    steps: dict[int, set[int]] = {}
    matrices: dict[int, _Matrix] = {}
    for command in body:
        accesses = program.accesses(command)
        for access in sorted(accesses, key=lambda access: not access.mode & AccessMode.READ):
            block = program.block(access.submatrix)
            steps.setdefault(block.matrix, set()).add(block.row_step)
            matrix = matrices.setdefault(block.matrix, _Matrix(block.row_step))
            if access.mode & AccessMode.READ:
                matrix.read_first += not_in([block.area], matrix.written)
            if access.mode & AccessMode.WRITE:
                matrix.written.append(block.area)
    if any(len(found) > 1 and matrices[number].written for number, found in steps.items()):
        raise ExportError("blocks of one matrix move on in different steps: export a fixed chunk")
    written = {number: matrix for number, matrix in matrices.items() if matrix.written}
    return written, {number: next(iter(found)) for number, found in steps.items()}


def _carried(matrix: _Matrix, is_read_later: bool) -> list[Rectangle]:
    """Returns the disjoint blocks that go from iteration to iteration."""
    found: list[Rectangle] = []
    wanted = list(matrix.read_first)
    if is_read_later:
        wanted += _left_by_the_last_iterations(matrix) if matrix.step else matrix.written
    while wanted:
        area = wanted.pop()
        for part in not_in([area], found):
            if _was_written(matrix, part):
                found.append(part)
                wanted += not_in([part.moved(matrix.step)], matrix.written)
    return found


def _was_written(matrix: _Matrix, area: Rectangle) -> bool:
    """Tells whether an earlier iteration has written to a block."""
    if matrix.step == 0:
        return any(area.overlap(written) is not None for written in matrix.written)
    for _ in range(_MOST_TURNS_BACK):
        area = area.moved(matrix.step)
        if any(area.overlap(written) is not None for written in matrix.written):
            return True
        if all(_is_beyond(area, written, matrix.step) for written in matrix.written):
            return False
    raise ExportError(
        f"an iteration of a recurrence looks back more than {_MOST_TURNS_BACK} iterations: export a fixed chunk"
    )


def _is_beyond(area: Rectangle, written: Rectangle, step: int) -> bool:
    return written.bottom <= area.top if step > 0 else area.bottom <= written.top


def _tiles(matrix: _Matrix) -> list[Rectangle]:
    """Returns the blocks, of as many rows as a matrix moves on by, that no later iteration writes again.

    The rows of all iterations of a tile make one block. A row in several such blocks is the row of the last iteration:
    blocks come in the order of iterations."""
    size, found = abs(matrix.step), list[Rectangle]()
    for left, right in {(area.left, area.right) for area in matrix.written}:
        areas = [area for area in matrix.written if (area.left, area.right) == (left, right)]
        if matrix.step > 0:
            top = min((area.top for area in areas), key=_base)
        else:
            top = max((area.bottom for area in areas), key=_base) - size
        tile = Rectangle(top, top + size, left, right)
        if not_in([tile], areas):
            raise ExportError("the iterations of a recurrence leave out rows: export a fixed chunk")
        found.append(tile)
    return sorted(found, key=lambda tile: _base(tile.top), reverse=matrix.step > 0)


def _left_by_the_last_iterations(matrix: _Matrix) -> list[Rectangle]:
    """Returns the blocks, seen from the iteration after the last, written by iterations and to be written again by this
    iteration."""
    tiles = _tiles(matrix)
    waiting, found = not_in(matrix.written, tiles), list[Rectangle]()
    while waiting:
        moved = [area.moved(-matrix.step) for area in waiting]
        found += moved
        waiting = not_in(moved, tiles)
    return found


def _base(row: Extent) -> int:
    return base_and_slope(row)[0]


def _start(graph: GraphBuilder, before: Blocks, matrix: int, area: Rectangle) -> ir.Value:
    """Returns the contents of a block before the loop; unwritten rows, which nobody reads, are zeros."""
    for part in before.unwritten(matrix, area):
        before.write(matrix, part, graph.filled(0.0, part.rows, part.right - part.left))
    return graph.whole(before.read(matrix, area))
