"""GivenInput: an input of a network, and the conversion of its given numbers to rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.classes import are_classes
from nnet3.cn.node import Node
from nnet3.cn.samples import SampleLayout, Sequences, as_columns, as_matrix, copied
from nnet3.cn.shape import SEQUENCES
from nnet3.errors import NetworkError, ShapeError

_LARGEST_EXACT = {torch.float16: 2**11, torch.float32: 2**24}  # integers up to these are exact; float64: 2**53


@dataclass(frozen=True, eq=False)
class GivenInput:
    """`lag`: that of an initial state. `is_sparse`: whether rows are sparse, since nobody reads their zeros.

    `may_be_empty`: whether all sequences may have no frames.
    """

    node: Node
    name: str
    lag: int | None = None
    is_sparse: bool = False
    may_be_empty: bool = False

    @cached_property
    def what(self) -> str:
        return f"input '{self.name}'"

    @cached_property
    def has_samples(self) -> bool:
        return self.node.shape.has_samples

    @cached_property
    def says_samples(self) -> bool:
        """True if the input's values determine the samples."""
        return self.has_samples and self.lag is None

    @cached_property
    def axis(self) -> str:
        return self.node.shape.axis

    @cached_property
    def _num_rows(self) -> int:
        return self.node.shape.rows

    @cached_property
    def classes(self) -> int | None:
        """The number of classes, if the values are class indexes."""
        return getattr(self.node.operation, "classes", None)

    def columns(self, value: Any, are_rows: bool) -> Any:
        """Returns what is given as columns: sequences, or a matrix."""
        is_array = type(value) is np.ndarray
        if not self.has_samples or (not is_array and isinstance(value, Sequences)):
            return value
        columns = (as_matrix if is_array else as_columns)(value, self.what, are_rows)
        if are_rows and len(columns) != self._num_rows:
            raise ShapeError(
                f"{self.what}: expected {self._num_rows} columns, got {len(columns)}: a row is a sample in this "
                "network, and sequences are given as cn.sequences([...])"
            )
        return columns

    def layout(self, value: Any, last: SampleLayout | None) -> SampleLayout:
        """Returns the samples of a value; `last`, the previous value's samples, if equal."""
        if last is not None and last.is_of(value):
            return last
        layout = SampleLayout.of(value, self.what, may_be_empty=self.may_be_empty)
        if self.axis == SEQUENCES and set(layout.lengths) != {1}:
            raise ShapeError(f"{self.what}: expected one column for each sequence, got {layout}")
        return layout

    def rows(self, value: Any, layout: SampleLayout | None, dtype: torch.dtype) -> Tensor:
        """Returns a value as rows, in separate memory; `layout` is the layout of its axis."""
        if not self.has_samples:
            array = as_matrix(value, self.what)
            wanted = self.node.shape.rows, self.node.shape.cols
            if array.shape != wanted:
                raise ShapeError(f"{self.what}: expected shape {wanted}, got {array.shape}")
            return copied(array.T, dtype)
        if layout is None:
            raise NetworkError(f"{self.what} is an initial state: give the input whose frames it precedes, too")
        if self.lag is None:
            if type(value) is np.ndarray and not self.is_sparse and value.shape == (self._num_rows, layout.num_alone):
                return copied(value.T, dtype)
            return layout.rows_of(value, self._num_rows, self.what, dtype, is_sparse=self.is_sparse)
        states = layout.of_states(self.lag)
        if abs(self.lag) == 1 and not isinstance(value, Sequences):
            columns, wanted_columns = as_matrix(value, self.what), len(states.lengths)
            if columns.shape[1] != wanted_columns:
                raise ShapeError(
                    f"{self.what}: expected a column for each of {wanted_columns} sequences, got {columns.shape[1]}"
                )
            value = Sequences(np.split(columns, wanted_columns, axis=1))
        return states.rows_of(value, self._num_rows, self.what, dtype)

    def check_classes(self, rows: Tensor, given: Any) -> None:
        """Raises ShapeError for rows that are no class indexes; `given`: as given."""
        classes = self.classes or 0
        if not rows.numel():
            return
        if classes > _LARGEST_EXACT.get(rows.dtype, 2**53):
            raise ShapeError(f"{self.what}: {rows.dtype} does not tell {classes} classes apart: use a wider dtype")
        if are_classes(rows, classes):
            return
        lowest, highest = rows.aminmax()
        array = given.stacked if isinstance(given, Sequences) else given
        are_whole = isinstance(array, np.ndarray) and array.dtype.kind in "iu"
        if not (lowest.item() >= -1 and highest.item() < classes and (are_whole or torch.equal(rows, rows.floor()))):
            found = rows[(rows != rows.floor()) | (rows < -1) | (rows >= classes)][0].item()
            raise ShapeError(f"{self.what}: expected integers 0 ... {classes - 1}, or -1 for none, got {found:g}")
