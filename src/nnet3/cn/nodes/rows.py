"""Ranges of rows, and values stacked on each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from nnet3.cn.forms import NodeForm, StackRule
from nnet3.cn.node import Node, as_node
from nnet3.cn.operation import Matrices, Operation, put
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError
from nnet3.lowering.source import GatherPart, NodeKind


@dataclass(frozen=True)
class RowSlice(Operation):
    """Rows [first, first + rows) of the operand. With samples it computes nothing: it is a view."""

    type: ClassVar[str] = "row_slice"
    first: int
    rows: int

    def check(self) -> None:
        if self.first < 0 or self.rows < 1:
            raise ShapeError(f"row_slice: expected at least one row, from 0 on, got {self.rows} from {self.first}")

    def form(self, operands: Sequence[Shape], value: Shape) -> NodeForm:
        return NodeForm(NodeKind.VIEW, col_offset=self.first) if value.has_samples else super().form(operands, value)

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if self.first + self.rows > operands[0].rows:
            raise ShapeError(f"row_slice of {self.rows} rows from {self.first} needs more rows than there are")
        return Shape(self.rows, operands[0].cols)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = x_(first + i)j
        output.copy_(inputs[0][:, self.first : self.first + self.rows])

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dx_(first + i)j += dv_ij; the other rows get nothing
        if not accumulate:
            dx.zero_()
        dx[:, self.first : self.first + self.rows].add_(gradient)


@dataclass(frozen=True)
class RowStack(Operation):
    """The rows of the first operand, below them those of the second, and so on; `sizes`: how many each has."""

    type: ClassVar[str] = "row_stack"
    num_operands: ClassVar[int] = -1
    sizes: tuple[int, ...]

    def form(self, operands: Sequence[Shape], value: Shape) -> NodeForm:
        if not all(shape.has_samples for shape in operands):
            return super().form(operands, value)
        parts = tuple(GatherPart(shape.rows, slot, 1) for slot, shape in enumerate(operands))
        return NodeForm(NodeKind.GATHERED, parts, rule=lambda clock, sources: StackRule(sources))

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if not operands or tuple(operand.rows for operand in operands) != self.sizes:
            raise ShapeError(f"row_stack needs operands of {', '.join(map(str, self.sizes)) or 'some'} rows")
        columns = {operand.cols for operand in operands}
        wide = [operand for operand in operands if operand.cols != 1]
        if len(columns - {1}) > 1 or (len(columns) > 1 and not wide[0].has_samples):
            raise ShapeError("row_stack needs operands with as many columns as each other")
        return Shape(sum(self.sizes), wide[0].cols if wide else 1)

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return frozenset()

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_(r + i).j = x_ij, where r is the number of rows above
        for number, matrix in enumerate(inputs):
            self._part(output, number).copy_(matrix)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += the rows of dV that are X's, summed over samples where X has none
        part = self._part(gradient, child)
        put(dx, part if len(dx) == len(part) else part.sum(0, keepdim=True), accumulate)

    def _part(self, matrix: Tensor, number: int) -> Tensor:
        first = sum(self.sizes[:number])
        return matrix[:, first : first + self.sizes[number]]


def row_slice(x: Node, first: int, rows: int, *, name: str = "") -> Node:
    """Rows first, ..., first + rows - 1 of X."""
    return Node(RowSlice(first, rows), (x,), name)


def row_stack(*operands: Node, name: str = "") -> Node:
    """The operands on top of each other, the first one uppermost; a column without samples is repeated."""
    nodes = [as_node(operand, "row_stack") for operand in operands]
    return Node(RowStack(tuple(node.shape.rows for node in nodes)), nodes, name)
