"""Row orders in which a convolution over time needs no gathering: a time offset reads one block of input rows.

Output rows are ordered by t, then (x, n), over a regular grid with every time for every (n, x). So an
offset serves consecutive output rows. It also reads consecutive input rows if times of one phase (t modulo the step of
the grid) stand together. Grid points outside the request are padding rows, t = NO_TIME.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import starmap
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import NO_TIME, IndexTable, N, T, X, distinct, find_rows, unique_rows
from nnet3.errors import RequestError
from nnet3.model.components.index_arrays import on_device

_MOST_PADDING = 64  # rows of padding for each real one, beyond a million


M = TypeVar("M", Tensor, np.ndarray)
_TABLES = ("input_padding", "uncovered", "output_padding")


class RowBlock(NamedTuple):
    """At one time offset, output rows from `output_start` on read input rows `input_start`, + `input_step`, ...

    Ends are counted from the last row, 0 or negative: most blocks are equal for all lengths.
    """

    offset: int  # its position in the list of offsets
    output_start: int
    output_end: int
    input_start: int
    input_end: int
    input_step: int

    @property
    def is_whole(self) -> bool:
        """True if all output rows are in the block."""
        return not self.output_start and not self.output_end

    def of_output(self, matrix: M) -> M:
        return matrix[self.output_start : self.output_end or None]

    def of_input(self, matrix: M) -> M:
        return matrix[self.input_start : self.input_end or None : self.input_step]


@lru_cache(maxsize=1024)
def table_of(blocks: tuple[RowBlock, ...]) -> np.ndarray:
    """Returns blocks as the rows of a table, (blocks, 6), int64."""
    return np.array(blocks, np.int64).reshape(-1, 6)


#: The block of a component that looks at its own time only.
ALL_ROWS = RowBlock(0, 0, 0, 0, 0, 1)


class TimeBlocks(NamedTuple):
    """The blocks of rows of a component that looks at several times.

    The first `num_fresh` blocks have no input row in common and cover all but the `uncovered` ones, so that an input
    derivative need not be cleared first. An offset that no row can be read at has no block. `uncovered` and
    `output_padding` are for backward: None in a program of the forward pass alone. Of `uncovered` rows those of the
    second half count from the end, as -1.
    """

    num_fresh: int
    blocks: tuple[RowBlock, ...]
    input_padding: Tensor
    uncovered: Tensor | None = None  # input rows, int64
    output_padding: Tensor | None = None

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> TimeBlocks:
        """The object for the arrays of `time_blocks`."""
        tables = {name: arrays[name] for name in _TABLES if name in arrays}
        rows = {name: on_device(each, device) if len(each) else _no_rows(device) for name, each in tables.items()}
        return cls(int(arrays["num_fresh"]), tuple(starmap(RowBlock, arrays["blocks"].tolist())), **rows)

    def input_without_padding(self, x: Tensor) -> Tensor:
        """Returns x with zeros in its padding rows."""
        return x.index_fill(0, self.input_padding, 0.0) if len(self.input_padding) else x

    def output_without_padding(self, y_deriv: Tensor) -> Tensor:
        """Returns an output derivative with zeros in its padding rows."""
        rows = _of_backward(self.output_padding)
        return y_deriv.index_fill(0, rows, 0.0) if len(rows) else y_deriv

    def clear_uncovered(self, x_deriv: Tensor) -> None:
        """Sets the rows of an input derivative that no block covers to zero."""
        rows = _of_backward(self.uncovered)
        if len(rows):
            x_deriv.index_fill_(0, rows, 0.0)


def _of_backward(rows: Tensor | None) -> Tensor:
    if rows is None:
        raise RequestError("rows were precomputed for the forward pass alone: compile with need_model_derivative")
    return rows


@cache
def _no_rows(device: torch.device | str) -> Tensor:
    return torch.zeros(0, dtype=torch.int64, device=device)


@dataclass(frozen=True)
class _Grid:
    """A grid of all times for all images; an image is a pair (n, x)."""

    images: IndexTable  # (images, 3) with t = 0, sorted by x, then n
    start: int
    step: int
    num_times: int

    @property
    def times(self) -> np.ndarray:
        return self.start + self.step * np.arange(self.num_times, dtype=np.int64)


def order_rows(inputs: IndexTable, outputs: IndexTable, offsets: Sequence[int]) -> tuple[IndexTable, IndexTable]:
    """Returns input and output indexes in block order, with padding; outputs read inputs at `offsets`."""
    grid, full_outputs, read = _searched(inputs.tobytes(), outputs.tobytes(), tuple(offsets))
    times = read.times[read.order]
    return (
        _rows(times, grid) if read.is_full else _padded(inputs, times, grid),
        _rows(grid.times, grid) if full_outputs else _padded(outputs, grid.times, grid),
    )


def time_blocks(
    inputs: IndexTable, outputs: IndexTable, offsets: Sequence[int], *, need_backprop: bool = True
) -> dict[str, np.ndarray]:
    """The blocks of rows that `order_rows` has arranged, as arrays by the names of the fields of TimeBlocks.

    Unless `need_backprop`, without the arrays for backward, of which some grow with the number of rows.
    """
    grid, full_outputs, read = _searched(inputs.tobytes(), outputs.tobytes(), tuple(offsets))
    num_images = len(grid.images)
    assert len(outputs) == grid.num_times * num_images, "rows are not in the order of order_rows"
    assert len(inputs) == len(read.times) * num_images, "rows are not in the order of order_rows"
    position_of_time = np.empty_like(read.order)
    position_of_time[read.order] = np.arange(len(read.order))
    blocks = []
    for number, (found, rank) in enumerate(read.found):
        if len(found) == 0:
            continue
        position = position_of_time[rank]
        step = int(position[1] - position[0]) if len(position) > 1 else 1
        assert found[-1] - found[0] + 1 == len(found)
        assert step == 1 or num_images == 1
        start, source, count = (int(each) * num_images for each in (found[0], position[0], len(found)))
        ends = start + count - len(outputs), source + (count - 1) * step + 1 - len(inputs)
        blocks.append(RowBlock(number, start, ends[0], source, ends[1], step))
    blocks, num_fresh, uncovered = _fresh_first(blocks, len(inputs))
    arrays = {
        "blocks": np.array(blocks, np.int64).reshape(-1, 6),
        "num_fresh": np.array(num_fresh),
        "input_padding": _padding(inputs, read.is_full),
    }
    if need_backprop:
        arrays["uncovered"] = np.where(2 * uncovered < len(inputs), uncovered, uncovered - len(inputs))
        arrays["output_padding"] = _padding(outputs, full_outputs)
    return arrays


@lru_cache(maxsize=2)
def _searched(inputs: bytes, outputs: bytes, offsets: tuple[int, ...]) -> tuple[_Grid, bool, _InputTimes]:
    """Returns the grid of the outputs, whether they fill it, and the times of the inputs.

    Rows that `order_rows` leaves as they are come back in `time_blocks` at once: the last searches are kept.
    """
    given, wanted = (np.frombuffer(table, np.int32).reshape(-1, 3) for table in (inputs, outputs))
    grid, is_full = _grid(wanted)
    return grid, is_full, _input_times(grid, given, offsets)


def _padding(table: IndexTable, is_full: bool) -> np.ndarray:
    return np.zeros(0, np.int64) if is_full else np.flatnonzero(table[:, T] == NO_TIME)


def _real(table: IndexTable) -> IndexTable:
    is_padding = table[:, T] == NO_TIME
    return table[~is_padding] if is_padding.any() else table


def _images_by_times(table: IndexTable) -> tuple[IndexTable, np.ndarray] | None:
    """Returns images (with t = 0) and times, sorted, of a table of all images at all times; None for any other.

    Only two orders are seen: time after time, with equal images at all times, or image after image. The check
    costs a few comparisons of columns, where sorting out a table in any order costs sorting it.
    """
    if len(table) == 0:
        return None
    t = table[:, T]
    if _ascends(t) and (table[:, ::2] == table[0, ::2]).all():  # one n and x: a single image
        images, times = table[:1].copy(), t.astype(np.int64)
        images[0, T] = 0
        return None if times[0] == NO_TIME else (images, times)
    num_images = int(np.argmax(t != t[0])) or len(t)
    num_times = 1
    if num_images == 1:  # either a single image or one after the other
        is_other = (table[:, N] != table[0, N]) | (table[:, X] != table[0, X])
        num_times = int(np.argmax(is_other)) or len(t)
    if num_times > 1:
        by_image = table[: len(t) // num_times * num_times].reshape(-1, num_times, 3)
        by_time = by_image.swapaxes(0, 1)
    else:
        by_time = table[: len(t) // num_images * num_images].reshape(-1, num_images, 3)
    images, times = by_time[0].copy(), by_time[:, 0, T].astype(np.int64)
    images[:, T] = 0
    in_order = times if _ascends(times) else np.sort(times)
    if by_time.size != table.size or in_order[0] == NO_TIME or not (in_order is times or _ascends(in_order)):
        return None
    if num_times == len(t):
        return images, in_order
    same = (by_time[:, :, N] == images[:, N]).all() and (by_time[:, :, X] == images[:, X]).all()
    if not same or (by_time[:, :, T] != times[:, np.newaxis]).any():
        return None
    keys = (images[:, X].astype(np.int64) << 32) + images[:, N]
    if not _ascends(keys):
        images = images[np.argsort(keys, kind="stable")]
        if not _ascends(np.sort(keys)):
            return None
    return images, in_order


def _ascends(numbers: np.ndarray) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _times(table: IndexTable) -> np.ndarray:
    """Returns the different times of the rows, sorted."""
    return distinct(table[:, T]).astype(np.int64)


def _grid(outputs: IndexTable) -> tuple[_Grid, bool]:
    """Returns the grid of the output rows, and whether the rows fill the grid, without padding."""
    regular = _images_by_times(outputs)
    if regular is not None:
        images, times = regular
    else:
        outputs = _real(outputs)
        times = _times(outputs)
        pairs = outputs.copy()
        pairs[:, T] = 0
        images, _ = unique_rows(pairs)
    steps = times[1:] - times[:-1]
    step = int(np.gcd.reduce(steps)) if len(steps) else 1
    num_times = int(times[-1] - times[0]) // step + 1
    if num_times * len(images) > 1_000_000 + _MOST_PADDING * len(outputs):
        raise RequestError(
            f"{len(outputs)} output rows at times from {times[0]} to {times[-1]} do not fit a regular grid: with step"
            f" {step} it has {num_times * len(images)} rows; ask for equally spaced times, the same for all sequences"
        )
    return _Grid(images, int(times[0]), step, num_times), regular is not None and num_times == len(times)


class _InputTimes(NamedTuple):
    """The times of the input rows, sorted, and the rows' order of times.

    `is_full`: no row is padding. `found`: for each offset the output times with an input, and the input's position.
    """

    times: np.ndarray
    order: np.ndarray
    is_full: bool
    found: list[tuple[np.ndarray, np.ndarray]]


def _input_times(grid: _Grid, inputs: IndexTable, offsets: Sequence[int]) -> _InputTimes:
    """Returns the times present, and the gaps between the times read by one offset."""
    regular = _images_by_times(inputs)
    same_images = regular is not None and np.array_equal(regular[0], grid.images)
    present = regular[1] if regular is not None else _times(_real(inputs))
    outputs = grid.times
    found = [_find(present, outputs + offset) for offset in offsets]
    stretches = [slice(each[0], each[-1] + 1) if len(each) else slice(0, 0) for each, _ in found]
    complete = sum(each.stop - each.start for each in stretches) == sum(len(each) for each, _ in found)
    times = present
    if not complete:
        read = [outputs[each] + offset for each, offset in zip(stretches, offsets, strict=True)]
        times = distinct(np.concatenate([present, *read]))
        found = [_find(times, outputs + offset) for offset in offsets]
    phase = (times - grid.start) % grid.step
    # Rows of one sequence can be read in constant steps.
    in_order = not phase.any() or (len(grid.images) == 1 and all(_is_regular(positions) for _, positions in found))
    order = np.arange(len(times)) if in_order else np.lexsort((times, phase))
    return _InputTimes(times, order, same_images and complete, found)


def _find(times: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a mask of the `wanted` times found in the sorted times, and their positions in `times`."""
    position = times.searchsorted(wanted)
    np.minimum(position, len(times) - 1, out=position)
    (found,) = (times[position] == wanted).nonzero()
    return found, position[found]


def _is_regular(positions: np.ndarray) -> bool:
    """Returns True if the times go up in constant steps."""
    steps = positions[1:] - positions[:-1]
    return len(steps) == 0 or bool((steps == steps[0]).all())


def _rows(times: np.ndarray, grid: _Grid) -> IndexTable:
    """Returns (times x images) rows."""
    rows = np.empty((len(times), len(grid.images), 3), np.int32)
    rows[:] = grid.images
    rows[:, :, T] = times[:, np.newaxis]
    return rows.reshape(-1, 3)


def _padded(table: IndexTable, times: np.ndarray, grid: _Grid) -> IndexTable:
    """Returns (times x images) rows: rows of the table, and padding with t = NO_TIME."""
    rows = _rows(times, grid)
    if len(rows) > len(_real(table)):
        rows[find_rows(table, rows) < 0, T] = NO_TIME
    return rows


def _fresh_first(blocks: list[RowBlock], num_input_rows: int) -> tuple[list[RowBlock], int, np.ndarray]:
    """Puts blocks without common input rows first; returns also their number and the input rows in none of them."""
    covered = np.zeros(num_input_rows, bool)
    fresh, others = [], []
    for block in blocks:
        rows = block.of_input(covered)
        if rows.any():
            others.append(block)
        else:
            fresh.append(block)
            rows[:] = True
    return fresh + others, len(fresh), np.flatnonzero(~covered)
