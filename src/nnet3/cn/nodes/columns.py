"""Functions of columns: slices and stacks of rows, reductions to one number, normalization; the transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node, as_node
from nnet3.cn.nodes.activations import Elementwise
from nnet3.cn.nodes.component import component
from nnet3.cn.nodes.products import diag_times
from nnet3.cn.nodes.sums import plus
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, put, put_product
from nnet3.cn.shape import Shape
from nnet3.cn.source_nodes import NodeForm, StackRule
from nnet3.engine.lowering.source import GatherPart, NodeKind
from nnet3.errors import NetworkError, ShapeError


@dataclass(frozen=True)
class RowSlice(Operation):
    """Rows [first, first + rows) of the operand. With samples a view, without computation."""

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
    """The rows of the first operand, below them the rows of the second, and so on; `sizes`: the operands' rows."""

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
    """Returns the operands stacked, the first one uppermost; a column without samples is repeated."""
    nodes = [as_node(operand, "row_stack") for operand in operands]
    return Node(RowStack(tuple(node.shape.rows for node in nodes)), nodes, name)


_HOW = ("sum", "mean", "max", "min", "log_sum_exp")


@dataclass(frozen=True)
class ColumnReduction(Operation):
    """One row: sum, mean, greatest or least element of every column, or the logarithm of the sum of exponentials."""

    type: ClassVar[str] = "reduce_rows"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, OWN_VALUE}),)
    how: str

    def check(self) -> None:
        if self.how not in _HOW:
            raise NetworkError(f"{self.type}: expected one of {', '.join(_HOW)}, got {self.how!r}")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return Shape(1, operands[0].cols)

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return frozenset() if self.how in ("sum", "mean") else frozenset({0, OWN_VALUE})

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        x = inputs[0]
        if self.how == "log_sum_exp":
            output.copy_(torch.logsumexp(x, 1, keepdim=True))
        else:
            named: dict[str, Callable[..., Tensor]] = {
                "sum": torch.sum,
                "mean": torch.mean,
                "max": torch.amax,
                "min": torch.amin,
            }
            output.copy_(named[self.how](x, 1, keepdim=True))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dx_ij += dv_j times 1, 1 / D, e^(x_ij - v_j), or the part of those that are greatest (least)
        x = inputs[0]
        if self.how in ("sum", "mean"):
            put(dx, (gradient if self.how == "sum" else gradient / dx.shape[1]).expand_as(dx), accumulate)
        elif self.how == "log_sum_exp":
            put_product(dx, gradient, torch.exp(x - output), accumulate)
        else:
            chosen = (x == output).to(x.dtype)
            put_product(dx, gradient, chosen / chosen.sum(1, keepdim=True), accumulate)


@dataclass(frozen=True)
class RowStep(Operation):
    """Rows first, first + step, ... of the operand, `rows` of them."""

    type: ClassVar[str] = "row_step"
    first: int
    step: int
    rows: int

    def check(self) -> None:
        last = self.first + (self.rows - 1) * self.step
        if self.rows < 1 or self.step == 0 or min(self.first, last) < 0:
            raise ShapeError(f"row_step: expected rows from 0 on, got {self.rows} from {self.first} by {self.step}")

    @property
    def rows_read(self) -> range:
        return range(self.first, self.first + self.rows * self.step, self.step)

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if max(self.rows_read) >= operands[0].rows:
            raise ShapeError(f"row_step to row {max(self.rows_read)} needs more rows than there are")
        return Shape(self.rows, operands[0].cols)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = x_(first + i step)j
        output.copy_(inputs[0][:, list(self.rows_read)])

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dx_(first + i step)j += dv_ij
        if not accumulate:
            dx.zero_()
        dx[:, list(self.rows_read)] += gradient


@dataclass(frozen=True)
class TransposedMatrix(Operation):
    """V = X^T, of a value without samples."""

    type: ClassVar[str] = "transpose"

    def infer(self, operands: Sequence[Shape]) -> Shape:
        columns = operands[0].num_cols
        if columns is None:
            raise ShapeError("transpose needs an operand without samples: a sample is a column")
        return Shape(columns, operands[0].rows)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        output.copy_(inputs[0].T)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        put(dx, gradient.T, accumulate)


@dataclass(frozen=True)
class LayerNorm(Elementwise):
    """V = (X - m) / (variance + epsilon)^(1/2), with mean and variance of each column (Ba, Kiros, Hinton 2016)."""

    type: ClassVar[str] = "layer_norm"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, OWN_VALUE}),)
    evaluates_in_place: ClassVar[bool] = False
    epsilon: float = 1e-5

    def check(self) -> None:
        if self.epsilon <= 0:
            raise NetworkError(f"layer_norm: expected an epsilon greater than 0, got {self.epsilon}")

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        output.copy_(torch.nn.functional.layer_norm(inputs[0], inputs[0].shape[1:], eps=self.epsilon))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += (dV - mean(dV) - V mean(dV * V)) / (variance + epsilon)^(1/2), means over the rows of a column
        scale = torch.rsqrt(inputs[0].var(1, unbiased=False, keepdim=True) + self.epsilon)
        inner = gradient - gradient.mean(1, keepdim=True) - output * (gradient * output).mean(1, keepdim=True)
        put_product(dx, inner, scale, accumulate)


def sum_rows(x: Node, *, name: str = "") -> Node:
    """Returns the sum of the rows of every column: one row."""
    return Node(ColumnReduction("sum"), (x,), name)


def mean_rows(x: Node, *, name: str = "") -> Node:
    """Returns the mean of the rows of every column: one row."""
    return Node(ColumnReduction("mean"), (x,), name)


def max_rows(x: Node, *, name: str = "") -> Node:
    """Returns the greatest element of every column: one row."""
    return Node(ColumnReduction("max"), (x,), name)


def min_rows(x: Node, *, name: str = "") -> Node:
    """Returns the least element of every column: one row."""
    return Node(ColumnReduction("min"), (x,), name)


def log_sum_exp_rows(x: Node, *, name: str = "") -> Node:
    """Returns the logarithm of the sum of e^x over every column: one row."""
    return Node(ColumnReduction("log_sum_exp"), (x,), name)


def row_step(x: Node, first: int, step: int, rows: int, *, name: str = "") -> Node:
    """Rows first, first + step, ..., `rows` of them; step may be negative. Equal to `x[first:end:step]`."""
    return Node(RowStep(first, step, rows), (x,), name)


def transpose(x: Node, *, name: str = "") -> Node:
    """X^T, of a value without samples. `x.T` is the same."""
    return Node(TransposedMatrix(), (x,), name)


def layer_norm(
    x: Node, gain: Node | None = None, bias: Node | None = None, *, epsilon: float = 1e-5, name: str = ""
) -> Node:
    """Returns each column with mean 0 and variance 1 over its rows; then times `gain` plus `bias`, D x 1, if given."""
    return _affine(Node(LayerNorm(epsilon), (x,), name if gain is None and bias is None else ""), gain, bias, name)


def batch_norm(
    x: Node, gain: Node | None = None, bias: Node | None = None, *, epsilon: float = 1e-3, name: str = ""
) -> Node:
    """Returns each row with mean 0 and variance 1 over samples; then times `gain` plus `bias`, D x 1, if given.

    In training over the samples of the minibatch; in test mode by the statistics of training (BatchNormComponent).
    """
    config = f"BatchNormComponent dim={x.shape.rows} epsilon={epsilon}"
    return _affine(component(config, x, name=name if gain is None and bias is None else ""), gain, bias, name)


def _affine(x: Node, gain: Node | None, bias: Node | None, name: str) -> Node:
    if gain is not None:
        x = diag_times(gain, x, name=name if bias is None else "")
    return x if bias is None else plus(x, bias, name=name)
