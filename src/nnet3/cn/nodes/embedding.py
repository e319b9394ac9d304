"""Columns of a table, chosen by class indexes or added up by a sparse input.

The gradient of a table that nobody else uses is sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from nnet3.base.native.classes import sum_chosen, sum_chosen_backward
from nnet3.cn.node import Node
from nnet3.cn.nodes.leaves import Input
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import Backward, SampleRows, SequenceOperation, check_samples
from nnet3.cn.shape import Shape
from nnet3.errors import GradientError, ShapeError


class LookUp(SequenceOperation):
    """Base: columns of a table, the first operand, with a sparse gradient where all users are such operations."""

    weights: ClassVar[tuple[int, ...]] = (0,)
    num_operands: ClassVar[int] = 2
    integers: ClassVar[tuple[int, ...]] = (1,)
    sparse: bool

    @property
    def looks_at_other_frames(self) -> bool:
        return False

    def chooses_columns(self, operand: int) -> bool:
        return self.sparse and operand == 0


@dataclass(frozen=True)
class Embedding(LookUp):
    """E: D x K, a column for each class; c: class indexes, 1 x S. Column j of the value is column c_j of E."""

    type: ClassVar[str] = "embedding"
    is_lazy: ClassVar[bool] = True
    sparse: bool = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        table, classes = operands
        check_samples(self.type, classes)
        if table.has_samples or classes.rows != 1:
            raise ShapeError(f"{self.type} needs a table without samples, and one row of class indexes")
        return Shape(table.rows, classes.cols)

    def num_classes(self, operands: Sequence[Shape]) -> dict[int, int]:
        return {} if operands[0].num_cols is None else {1: operands[0].num_cols}

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        table, classes = (operand.tensor for operand in operands)
        numbers, is_sparse = classes.long().view(-1), self.sparse and table.is_leaf
        try:
            if table.is_cpu:
                return torch.embedding(table, numbers, -1, False, is_sparse)
        except IndexError:  # a class below 0, or one that the table does not have
            pass
        lowest, highest = map(int, numbers.aminmax()) if len(numbers) else (0, 0)
        if highest >= len(table):
            raise ShapeError(f"embedding: the table has {len(table)} columns, got class {highest}")
        if lowest >= 0:
            return torch.embedding(table, numbers, -1, False, is_sparse)
        chosen = torch.embedding(table, numbers[numbers >= 0], -1, False, is_sparse)
        return table.new_zeros(len(numbers), table.shape[1]).index_put((numbers >= 0,), chosen)

    def reduced(self, how: str) -> SequenceOperation | None:
        return {"sum": _SUM, "mean": _MEAN}.get(how) if self.sparse else None


@dataclass(frozen=True)
class EmbeddingReduction(Embedding):
    """The sum or the mean of an embedding over the frames of each sequence, without the embedding in between.

    The gradient is sparse.
    """

    is_mean: bool = False

    def differentiate(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> tuple[Tensor, Backward] | None:
        table, groups = operands[0].tensor, (*operands[1].samples.groups, self.is_mean)
        numbers = operands[1].tensor.long().view(1, -1)  # as a sparse tensor has them
        found = sum_chosen(table, numbers, *groups) if table.is_leaf else None
        if found is None:
            return None
        sums, num_chosen = found

        def backward(gradient: Tensor) -> list[Tensor | None]:
            derivs, chosen = sum_chosen_backward(gradient, *groups), numbers
            if num_chosen < numbers.shape[1]:
                derivs, chosen = derivs[numbers[0] >= 0], numbers[:, numbers[0] >= 0]
            return [torch.sparse_coo_tensor(chosen, derivs, table.shape, check_invariants=False), None]

        return sums, backward


_SUM, _MEAN = (EmbeddingReduction(is_mean=is_mean) for is_mean in (False, True))


@dataclass(frozen=True)
class SparseTimes(LookUp):
    """V = X Y (1.57) of a matrix X without samples and an input Y of which few elements are not zero."""

    type: ClassVar[str] = "sparse_times"
    sparse: bool = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        table, y = operands
        check_samples(self.type, y)
        if table.has_samples or table.cols != y.rows:
            raise ShapeError(f"{self.type} needs a matrix without samples, with as many columns as the input has rows")
        return Shape(table.rows, y.cols)

    def reads_sparsely(self, operand: int) -> bool:
        return operand == 1

    def check_gradient(self, operand: int) -> None:
        if operand == 1:
            raise GradientError(f"{self.type} has no gradient with respect to what is sparse: use an input that is not")

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        table, y = (operand.tensor for operand in operands)
        y = y if y.is_sparse else y.detach().to_sparse()
        sample, row = y.indices()
        starts = torch.searchsorted(sample, torch.arange(len(y), device=y.device))
        return embedding_bag(
            row, table, starts, mode="sum", sparse=self.sparse and table.is_leaf, per_sample_weights=y.values()
        )


def embedding(table: Node, classes: Node, *, sparse: bool = True, name: str = "") -> Node:
    """Returns the columns of `table`, D x K, with the numbers of `classes` (`input(name, classes=K)`); zeros for -1.

    `classes` may also be a `sparse` input: then the value is the product of both, like `table @ classes`.
    The gradient of a parameter used by embeddings alone is sparse: it holds the chosen columns. Some
    optimizers of PyTorch, Adam among them, want it dense: `sparse=False`.
    """
    operation = SparseTimes(sparse) if is_sparse_input(classes) else Embedding(sparse)
    return Node(operation, (table, classes), name)


def is_sparse_input(value: Any) -> bool:
    """Tells whether a node is an input declared sparse."""
    return isinstance(value, Node) and isinstance(value.operation, Input) and bool(value.operation.sparse)
