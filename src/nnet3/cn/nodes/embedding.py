"""Embedding: columns of a table, chosen by class indexes; the gradient of a table that nobody else uses is sparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.samples import SampleLayout
from nnet3.cn.shape import Shape
from nnet3.cn.whole import SampleRows, WholeOperation, check_samples
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class Embedding(WholeOperation):
    """E: D x K, a column for each class; c: class indexes, 1 x S. Column j of the value is column c_j of E."""

    type: ClassVar[str] = "embedding"
    weights: ClassVar[tuple[int, ...]] = (0,)
    num_operands: ClassVar[int] = 2
    integers: ClassVar[tuple[int, ...]] = (1,)
    sparse: bool = True

    @property
    def looks_at_other_frames(self) -> bool:
        return False

    def infer(self, operands: Sequence[Shape]) -> Shape:
        table, classes = operands
        check_samples(self.type, classes)
        if table.has_samples or classes.rows != 1:
            raise ShapeError(f"{self.type} needs a table without samples, and one row of class indexes")
        return Shape(table.rows, classes.cols)

    def num_classes(self, operands: Sequence[Shape]) -> dict[int, int]:
        return {} if operands[0].num_cols is None else {1: operands[0].num_cols}

    def chooses_columns(self, operand: int) -> bool:
        return self.sparse and operand == 0

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        table, classes = (operand.tensor for operand in operands)
        numbers, is_sparse = classes.detach()[:, 0].long(), self.sparse and table.is_leaf
        lowest, highest = map(int, numbers.aminmax()) if len(numbers) else (0, 0)
        if highest >= len(table):
            raise ShapeError(f"embedding: the table has {len(table)} columns, got class {highest}")
        if lowest >= 0:
            return torch.embedding(table, numbers, -1, False, is_sparse)
        chosen = torch.embedding(table, numbers[numbers >= 0], -1, False, is_sparse)
        return table.new_zeros(len(numbers), table.shape[1]).index_put((numbers >= 0,), chosen)


def embedding(table: Node, classes: Node, *, sparse: bool = True, name: str = "") -> Node:
    """The columns of `table`, D x K, with the numbers of `classes` (`input(name, classes=K)`); zeros for -1.

    The gradient of a parameter that is used by embeddings alone is sparse: it holds the columns that were chosen. Some
    optimizers of PyTorch, Adam among them, want it dense: `sparse=False`.
    """
    return Node(Embedding(sparse), (table, classes), name)
