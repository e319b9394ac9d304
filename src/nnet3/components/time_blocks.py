"""Row orders in which a convolution over time needs no gathering: each time offset reads one block of input rows.

Output rows go by t, then (x, n), over a regular grid of times that has every time for every (n, x); so the output rows
that an offset serves are consecutive, and so are the input rows it reads if times of one phase (t modulo the step
of the grid) stand together. Grid points that nobody asked for are padding rows, t = NO_TIME (components.md 7.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import RequestError
from nnet3.index import NO_TIME, IndexTable, T, find_rows, unique_rows

_MOST_PADDING = 64  # rows of padding for each real one, beyond a million


@dataclass(frozen=True)
class RowBlock:
    """Output rows `output_start` ... read, at one time offset, input rows `input_start`, + `input_step`, ..."""

    offset: int  # its place in the list of offsets
    output_start: int
    input_start: int
    input_step: int
    num_rows: int

    def of_output(self, matrix: Tensor) -> Tensor:
        return matrix[self.output_start : self.output_start + self.num_rows]

    def of_input(self, matrix: Tensor) -> Tensor:
        return matrix[self.input_start : self.input_start + (self.num_rows - 1) * self.input_step + 1 : self.input_step]


@dataclass(frozen=True)
class TimeBlocks:
    """What a component that looks at several times must know of its rows.

    The first `num_fresh` blocks have no input row in common and cover all but the `uncovered` ones, so that an input
    derivative need not be cleared first. An offset that no row can be read at has no block.
    """

    num_output_rows: int
    blocks: tuple[RowBlock, ...]
    num_fresh: int
    uncovered: Tensor  # input rows, int64
    input_padding: Tensor
    output_padding: Tensor

    def to(self, device: torch.device | str) -> TimeBlocks:
        return replace(
            self,
            uncovered=self.uncovered.to(device),
            input_padding=self.input_padding.to(device),
            output_padding=self.output_padding.to(device),
        )

    def input_without_padding(self, x: Tensor) -> Tensor:
        """x with zeros in its padding rows."""
        return x.index_fill(0, self.input_padding, 0.0) if len(self.input_padding) else x

    def output_without_padding(self, y_deriv: Tensor) -> Tensor:
        """An output derivative with zeros in its padding rows."""
        return y_deriv.index_fill(0, self.output_padding, 0.0) if len(self.output_padding) else y_deriv


@dataclass(frozen=True)
class _Grid:
    """All times for all images; an image is a pair (n, x)."""

    images: IndexTable  # (images, 3) with t = 0, sorted by x, then n
    start: int
    step: int
    num_times: int

    @property
    def times(self) -> np.ndarray:
        return self.start + self.step * np.arange(self.num_times, dtype=np.int64)


def order_rows(inputs: IndexTable, outputs: IndexTable, offsets: Sequence[int]) -> tuple[IndexTable, IndexTable]:
    """Input and output indexes in block order, padding included; `offsets` are those at which outputs read inputs."""
    grid = _grid(outputs)
    times, order = _input_times(grid, inputs, offsets)
    return _padded(inputs, times[order], grid), _padded(outputs, grid.times, grid)


def time_blocks(inputs: IndexTable, outputs: IndexTable, offsets: Sequence[int]) -> TimeBlocks:
    """The blocks of rows that `order_rows` has arranged."""
    grid = _grid(outputs)
    times, order = _input_times(grid, inputs, offsets)
    num_images = len(grid.images)
    assert len(outputs) == grid.num_times * num_images, "rows are not in the order of order_rows"
    assert len(inputs) == len(times) * num_images, "rows are not in the order of order_rows"
    place_of_time = np.argsort(order)
    blocks = []
    for number, offset in enumerate(offsets):
        found, rank = _find(times, grid.times + offset)
        if len(found) == 0:
            continue
        place = place_of_time[rank]
        step = int(place[1] - place[0]) if len(place) > 1 else 1
        assert found[-1] - found[0] + 1 == len(found)
        assert step == 1 or num_images == 1
        start, count = int(found[0]) * num_images, len(found) * num_images
        blocks.append(RowBlock(number, start, int(place[0]) * num_images, step, count))
    blocks, num_fresh, uncovered = _fresh_first(blocks, len(inputs))
    return TimeBlocks(
        len(outputs),
        tuple(blocks),
        num_fresh,
        torch.from_numpy(uncovered),
        torch.from_numpy(np.flatnonzero(inputs[:, T] == NO_TIME)),
        torch.from_numpy(np.flatnonzero(outputs[:, T] == NO_TIME)),
    )


def _real(table: IndexTable) -> IndexTable:
    return table[table[:, T] != NO_TIME]


def _times(table: IndexTable) -> np.ndarray:
    """The different times of the rows that are not padding, sorted."""
    return np.unique(_real(table)[:, T]).astype(np.int64)


def _grid(outputs: IndexTable) -> _Grid:
    outputs = _real(outputs)
    times = _times(outputs)
    pairs = outputs.copy()
    pairs[:, T] = 0
    images, _ = unique_rows(pairs)
    steps = np.diff(times)
    step = int(np.gcd.reduce(steps)) if len(steps) else 1
    num_times = int(times[-1] - times[0]) // step + 1
    if num_times * len(images) > 1_000_000 + _MOST_PADDING * len(outputs):
        raise RequestError(
            f"{len(outputs)} output rows at times from {times[0]} to {times[-1]} do not fit a regular grid: with step"
            f" {step} it has {num_times * len(images)} rows; ask for equally spaced times, the same for all sequences"
        )
    return _Grid(images, int(times[0]), step, num_times)


def _input_times(grid: _Grid, inputs: IndexTable, offsets: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The times of the input rows, sorted, and the order in which the rows have them.

    They are those present, and what is missing between those that one offset reads.
    """
    present = _times(inputs)
    wanted = [grid.times + offset for offset in offsets]
    found = [_find(present, each)[0] for each in wanted]
    stretches = [each[places[0] : places[-1] + 1] for each, places in zip(wanted, found, strict=True) if len(places)]
    times = np.unique(np.concatenate([present, *stretches]))
    phase = (times - grid.start) % grid.step
    if not phase.any():
        return times, np.arange(len(times))
    if len(grid.images) == 1 and all(_is_regular(_find(times, each)[1]) for each in wanted):
        return times, np.arange(len(times))  # rows of one sequence can be read in constant steps
    return times, np.lexsort((times, phase))


def _find(times: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of `wanted` are among the sorted times, and where these are there."""
    place = np.minimum(np.searchsorted(times, wanted), len(times) - 1)
    found = np.flatnonzero(times[place] == wanted)
    return found, place[found]


def _is_regular(places: np.ndarray) -> bool:
    """Whether they go up in constant steps."""
    steps = np.diff(places)
    return len(steps) == 0 or bool((steps == steps[0]).all())


def _padded(table: IndexTable, times: np.ndarray, grid: _Grid) -> IndexTable:
    """(times x images) rows, the table's among them; the others have t = NO_TIME."""
    rows = np.tile(grid.images, (len(times), 1))
    rows[:, T] = np.repeat(times, len(grid.images))
    if len(rows) > len(_real(table)):
        rows[find_rows(table, rows) < 0, T] = NO_TIME
    return rows


def _fresh_first(blocks: list[RowBlock], num_input_rows: int) -> tuple[list[RowBlock], int, np.ndarray]:
    """Blocks without common input rows first, how many they are, and the input rows in none of them."""
    covered = np.zeros(num_input_rows, bool)
    fresh, others = [], []
    for block in blocks:
        rows = slice(
            block.input_start, block.input_start + (block.num_rows - 1) * block.input_step + 1, block.input_step
        )
        if covered[rows].any():
            others.append(block)
        else:
            fresh.append(block)
            covered[rows] = True
    return fresh + others, len(fresh), np.flatnonzero(~covered)
