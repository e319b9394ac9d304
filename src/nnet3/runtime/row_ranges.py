"""Sums over ranges of rows, always in the same order, so that all runs give equal results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3.index import distinct
from nnet3.runtime.row_blocks import find_runs

if TYPE_CHECKING:
    from nnet3.runtime.planner import Planner

_MAX_VIEWS = 8
_ROWS_PER_VIEW = 16


def plan_add_ranges(planner: Planner, dest: int, source: int, ranges: np.ndarray, scale: float) -> None:
    """dest[i] += scale * sum of source[first_i : end_i], for `ranges` (rows, 2) of first and end."""
    rows = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
    first, length = ranges[rows, 0].astype(np.int64), np.diff(ranges[rows], axis=1).reshape(-1)
    if len(rows) == 0:
        return
    (space, start, step), (source_space, source_start, source_step) = planner.place(dest), planner.place(source)
    columns = np.stack([start + rows * step, source_start + first * source_step], axis=1)
    runs = find_runs(columns, length[1:] == length[:-1])
    if len(runs) > _MAX_VIEWS + len(rows) // _ROWS_PER_VIEW:
        _by_length(planner, dest, source, rows, first, length, scale)
        return
    num_cols, lane = planner.block(dest).num_cols, planner.lane(source)
    run_rows = np.cumsum(runs.inner) - runs.inner
    for begin, count, steps, summed in zip(
        runs.start.tolist(), runs.inner.tolist(), runs.inner_step.tolist(), length[run_rows].tolist(), strict=True
    ):
        target = planner.rows_view(space, begin[0], count, steps[0], num_cols)
        terms = planner.rows_view(source_space, begin[1], summed, source_step, num_cols, count, steps[1])
        planner.release_scratch()
        sums = planner.scratch(count, num_cols, lane)
        planner.call("sum", sums, terms)
        planner.call("scaled add", target, sums, number=scale)


def _by_length(
    planner: Planner,
    dest: int,
    source: int,
    rows: np.ndarray,
    first: np.ndarray,
    length: np.ndarray,
    scale: float,
) -> None:
    """Plan all ranges of one length together: gather their rows, sum, add."""
    num_cols, lane = planner.block(dest).num_cols, planner.lane(source)
    for size in distinct(length).tolist():
        chosen = np.flatnonzero(length == size)
        planner.release_scratch()
        terms = planner.scratch(len(chosen) * size, num_cols, lane)
        sums = planner.scratch(len(chosen), num_cols, lane)
        gathered = planner.index((first[chosen, np.newaxis] + np.arange(size)).reshape(-1))
        planner.call("select rows", terms, planner.view(source), gathered)
        planner.call("sum", sums, planner.stacked(terms, len(chosen)))
        sums = planner.converted(sums, planner.lane(dest))
        planner.call("add to rows", planner.view(dest), planner.index(rows[chosen]), sums, number=scale)
