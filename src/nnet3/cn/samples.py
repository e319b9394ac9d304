"""Samples: what a minibatch looks like to users (a column a sample) and inside the machine (a row a sample)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import IndexTable
from nnet3.cn.shape import SEQUENCES
from nnet3.cn.sparse import SparseColumns, as_array, sparse_rows
from nnet3.errors import ArgumentError, NetworkError, ShapeError

_NUMPY_TYPES = {getattr(torch, name): np.dtype(name) for name in ("float16", "float32", "float64")}

Array: TypeAlias = np.ndarray
Value: TypeAlias = "Array | list[Array]"
"""A value as users get it: (rows, samples), or for sequences a list of (rows, frames)."""


class Sequences(Sequence[Array]):
    """A batch of sequences, (D, T_i) each, processed together; made by `sequences`. Sparse sequences stay sparse."""

    def __init__(self, arrays: Sequence[Any], layout: str = "columns"):
        if not isinstance(arrays, Sequence | np.ndarray | Tensor) or isinstance(arrays, str | bytes):
            raise ShapeError(f"expected a list of arrays, one for each sequence, got {arrays!r}")
        turned = checked_layout(layout) == "rows"
        self.stacked = _stacked(arrays, turned)
        """All of them, (sequences, D, T), if they were given as one array."""
        self._arrays = [as_columns(array, f"sequence {number}", turned) for number, array in enumerate(arrays)]
        if not self._arrays:
            raise ShapeError("expected at least one sequence")
        rows = {len(array) for array in self._arrays}
        if len(rows) > 1:
            raise ShapeError(f"sequences of one batch have equally many rows, got {sorted(rows)}")

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, position: Any) -> Any:
        return self._arrays[position]

    def __iter__(self) -> Iterator[Array]:
        return iter(self._arrays)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        return tuple(array.shape[1] for array in self._arrays)


def _stacked(arrays: Any, turned: bool) -> Array | None:
    if type(arrays) is np.ndarray and arrays.dtype.kind in "fiub":
        if arrays.ndim == 3:
            return arrays.transpose(0, 2, 1) if turned else arrays
        if arrays.ndim == 2 and arrays.dtype.kind in "iu":
            return arrays[:, np.newaxis]
    return None


def sequences(arrays: Sequence[Any], *, layout: str = "columns") -> Sequences:
    """Returns a batch of sequences, arrays (D, T_i) with a column for each frame; lengths may differ.

    With `layout="rows"` the arrays are (T_i, D). Class indexes may be given as integers (T_i,).
    """
    return Sequences(arrays, layout)


def checked_layout(layout: str) -> str:
    """Checks a layout: "columns" or "rows", as a sample is a column or a row of arrays that users give and get."""
    if layout not in ("columns", "rows"):
        raise ArgumentError(f'a layout is "columns" (a column a sample) or "rows", got {layout!r}')
    return layout


def as_matrix(value: Any, what: str, turned: bool = False) -> Array:
    """Returns an array with two axes; integers (or nothing) with one axis become one row. Raises ShapeError.

    `turned`: rows and columns change places.
    """
    is_plain = type(value) is np.ndarray and value.dtype.kind in "fiub"
    array = value if is_plain else as_array(value, what)
    if array.ndim == 1 and (array.dtype.kind in "iu" or not array.size):
        return array[np.newaxis]
    if array.ndim != 2:
        hints = {1: "class indexes are integers, .astype(int)", 3: "sequences are given as cn.sequences([...])"}
        hint = f"; {hints[array.ndim]}" if array.ndim in hints else ""
        raise ShapeError(
            f"{what}: expected a matrix of numbers, or one row of integers, "
            f"got shape {array.shape} of {array.dtype}{hint}"
        )
    return array.T if turned else array


def as_columns(value: Any, what: str, turned: bool = False) -> Any:
    """Returns a sparse matrix as SparseColumns, anything else by `as_matrix`."""
    sparse = SparseColumns.of(value, what, turned)
    return as_matrix(value, what, turned) if sparse is None else sparse


def copied(array: Array, dtype: torch.dtype) -> Tensor:
    """Returns the numbers in memory of their own, row by row."""
    wanted = _NUMPY_TYPES[dtype]
    if array.dtype == wanted or (array.dtype.kind in "iub" and dtype != torch.float16):
        return torch.from_numpy(np.array(array, wanted, order="C"))
    with np.errstate(over="ignore"):  # what becomes infinite is found by who computes with it
        return torch.from_numpy(np.array(array, wanted, order="C"))


@dataclass(frozen=True)
class SampleLayout:
    """The samples of a minibatch, and the order of rows: frame by frame across sequences.

    `lengths`: frames of each sequence. Without `are_sequences` a sample is a separate sequence of one frame. `first`
    (a number for each sequence, if not 0): the time of the sequence's first frame. `numbers` (a number for each
    sequence, if not 0, 1, ...): the sequence's n. Longer sequences have lower numbers, so that batches of equal
    lengths in any order are alike.
    """

    lengths: tuple[int, ...]
    are_sequences: bool = True
    first: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    @classmethod
    def of(cls, value: Any, what: str, *, may_be_empty: bool = False) -> SampleLayout:
        if isinstance(value, Sequences):
            if not any(value.lengths) and not may_be_empty:
                raise ShapeError(f"{what}: there are no frames")
            by_length = np.argsort([-length for length in value.lengths], kind="stable")
            numbers = tuple(np.argsort(by_length).tolist())
            return cls(value.lengths, numbers=() if numbers == tuple(range(len(value))) else numbers)
        layout = cls((1,) * as_columns(value, what).shape[1], are_sequences=False)
        if not layout.num_samples:
            raise ShapeError(f"{what}: there are no samples")
        return layout

    def is_of(self, value: Any) -> bool:
        """Returns true if `of` gives this for a matrix or sequences."""
        if type(value) is not np.ndarray and isinstance(value, Sequences):
            return self.are_sequences and self.lengths == value.lengths and not self.first
        return not self.are_sequences and len(self.lengths) == value.shape[1]

    @property
    def num_samples(self) -> int:
        return sum(self.lengths)

    @cached_property
    def num_alone(self) -> int:
        """The number of samples without sequences; -1 for sequences."""
        return -1 if self.are_sequences else len(self.lengths)

    @property
    def num_alike(self) -> int:
        """The number of sequences if all have the same times, else 0."""
        return len(self.lengths) if len(set(self.lengths)) == 1 and not self.first else 0

    @property
    def is_ragged(self) -> bool:
        """True for sequences of unequal lengths."""
        return self.are_sequences and len(set(self.lengths)) > 1

    def shorter(self, count: int) -> SampleLayout:
        """Returns the layout of sequences shortened by `count` frames each."""
        return replace(self, lengths=tuple([length - count for length in self.lengths]))

    def first_sequences(self, number: int) -> SampleLayout:
        """Returns the layout of the first sequences alone, where all have the same times."""
        return replace(self, lengths=self.lengths[:number])

    def __str__(self) -> str:
        if not self.are_sequences:
            return f"{len(self.lengths)} samples"
        return f"{len(self.lengths)} sequences of {', '.join(map(str, self.lengths))} frames"

    @cached_property
    def sorted(self) -> SampleLayout:
        """The same samples with the sequences in the order of n: the layout on which programs depend."""
        if not self.numbers:
            return self
        positions = np.argsort(self.numbers).tolist()
        first = tuple(self.first[position] for position in positions) if self.first else ()
        return SampleLayout(tuple(self.lengths[position] for position in positions), self.are_sequences, first)

    @cached_property
    def _by_sequence(self) -> IndexTable:
        """Indexes sequence after sequence."""
        table = np.zeros((self.num_samples, 3), np.int32)
        starts = np.cumsum((0, *self.lengths))[:-1]
        table[:, 0] = np.repeat(self.numbers or np.arange(len(self.lengths)), self.lengths)
        table[:, 1] = np.arange(self.num_samples) - np.repeat(starts, self.lengths)
        if self.first:
            table[:, 1] += np.repeat(self.first, self.lengths)
        return table

    @cached_property
    def _order(self) -> Array:
        """Positions in `_by_sequence` of the rows, in their order."""
        table = self._by_sequence
        return np.lexsort((table[:, 0], table[:, 1]))

    @cached_property
    def indexes(self) -> IndexTable:
        """The index (n, t, 0) of each row: by t, then n."""
        return np.ascontiguousarray(self._by_sequence[self._order])

    def rows_of(self, value: Any, num_cols: int, what: str, dtype: torch.dtype, *, is_sparse: bool = False) -> Tensor:
        """Sequences or columns as rows, (samples, num_cols), in separate memory.

        Raises ShapeError for values that do not fit.
        """
        are_sequences = type(value) is not np.ndarray and isinstance(value, Sequences)
        if self.are_sequences != are_sequences:
            wanted = "sequences (cn.sequences([...]))" if self.are_sequences else "one array, a column a sample"
            raise ShapeError(f"{what}: expected {wanted} as for the other inputs, got {type(value).__name__}")
        first = value[0] if are_sequences else value
        if len(first) != num_cols:
            of_sequences = "" if are_sequences else ", and sequences are given as cn.sequences([...])"
            raise ShapeError(f"{what}: expected {num_cols} rows, got {len(first)}: a column is a sample{of_sequences}")
        count = len(value) if are_sequences else first.shape[1]
        if len(self.lengths) != count or (are_sequences and self.lengths != value.lengths):
            got = value.lengths if are_sequences else (1,) * count
            raise ShapeError(
                f"{what}: expected {self} as for the other inputs, got {SampleLayout(got, are_sequences)}; an "
                "input whose sequences have lengths of their own lies on an axis: cn.input(..., axis=...)"
            )
        if are_sequences and value.stacked is not None and not is_sparse and not self.first:  # of one length
            return copied(value.stacked.transpose(2, 0, 1), dtype).view(-1, num_cols)
        parts = list(value) if are_sequences else [value]
        if is_sparse:
            return sparse_rows(parts, self._order if are_sequences else slice(None), dtype)
        array = np.concatenate(parts, axis=1) if len(parts) > 1 else np.asarray(parts[0])
        return copied(array.T[self._order] if are_sequences else array.T, dtype)

    def value_of(self, rows: Tensor) -> Value:
        """Rows, (samples, D), as users see them: (D, samples), or a list of (D, frames)."""
        array = rows.detach().cpu().numpy()
        if not self.are_sequences:
            return array.T.copy()
        by_sequence = np.empty_like(array)
        by_sequence[self._order] = array
        ends = np.cumsum(self.lengths)[:-1]
        return [np.ascontiguousarray(part.T) for part in np.split(by_sequence, ends)]

    @cached_property
    def length_of_sequence(self) -> Array:
        """The number of frames of each sequence."""
        return np.array(self.lengths)

    @cached_property
    def sequence_of_row(self) -> Array:
        """The number of each row's sequence, in the user's order of sequences."""
        numbers: Array = np.repeat(np.arange(len(self.lengths)), self.lengths)[self._order]
        return numbers

    @cached_property
    def groups(self) -> tuple[Tensor, Tensor]:
        """`sequence_of_row` and `length_of_sequence` as tensors on the CPU."""
        return torch.from_numpy(self.sequence_of_row), torch.from_numpy(self.length_of_sequence)

    @cached_property
    def _starts(self) -> Array:
        return np.cumsum((0, *self.lengths))[:-1]

    @cached_property
    def frame_of_row(self) -> Array:
        """The frame number of every row within its sequence."""
        return self._order - self._starts[self.sequence_of_row]

    def rows_at(self, sequence: Array, frame: Array) -> Array:
        """Returns the rows of the given frames of the given sequences; -1 for absent frames."""
        lengths = np.array(self.lengths)[sequence]
        exists = (frame >= 0) & (frame < lengths)
        row_of_position = np.argsort(self._order)
        found: Array = np.where(exists, row_of_position[np.where(exists, self._starts[sequence] + frame, 0)], -1)
        return found

    def of_states(self, lag: int) -> SampleLayout:
        """Returns the |lag| frames before the first frame of each sequence, or for a negative lag after the last."""
        frames = abs(lag)
        first = tuple(-frames if lag > 0 else length for length in self.lengths)
        return SampleLayout((frames,) * len(self.lengths), True, first, self.numbers)


class Layouts:
    """The samples on an axis, by the name of the axis ("" for the frames of inputs without an axis of their own)."""

    def __init__(self, by_axis: Mapping[str, SampleLayout]):
        counts = {axis: len(layout.lengths) for axis, layout in by_axis.items()}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{count} on axis '{axis or 'S'}'" for axis, count in counts.items())
            raise ShapeError(f"inputs of one minibatch have equally many sequences, got {shown}")
        self._given, self._by_axis = by_axis, dict(by_axis)
        if counts and SEQUENCES not in self._by_axis:
            number = next(iter(counts.values()))
            self._by_axis[SEQUENCES] = SampleLayout((1,) * number, are_sequences=False)

    def with_axes(self, by_axis: Mapping[str, SampleLayout]) -> Layouts:
        """Returns the layouts of the given axes: the object itself if the axes are equal."""
        return self if by_axis == self._given else Layouts(by_axis)

    def on(self, axis: str) -> SampleLayout | None:
        """Returns the samples on an axis, None if there are none."""
        return self._by_axis.get(axis)

    def of(self, axis: str) -> SampleLayout:
        """Returns the samples on an axis. Raises NetworkError if no input has any there."""
        if axis not in self._by_axis:
            raise NetworkError(f"no input that was given says which frames there are on axis '{axis or 'S'}'")
        return self._by_axis[axis]

    @property
    def num_sequences(self) -> int:
        """The number of sequences; 1 where nothing has samples."""
        return len(self._by_axis[SEQUENCES].lengths) if self._by_axis else 1

    def num_samples(self, axis: str) -> int:
        """Returns the number of samples on an axis; 1 if there are none."""
        layout = self.on(axis)
        return 1 if layout is None else layout.num_samples
