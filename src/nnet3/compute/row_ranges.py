"""Sums over ranges of rows, always in the same order: results do not vary from run to run, on any device."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from nnet3.compute.binder import Binder, BoundCall
from nnet3.compute.row_blocks import find_runs

_MAX_VIEWS = 8
_ROWS_PER_VIEW = 16


def bind_add_ranges(binder: Binder, dest: int, source: int, ranges: np.ndarray, scale: float) -> list[BoundCall]:
    """dest[i] += scale * sum of source[first_i : end_i], for `ranges` (rows, 2) of first and end."""
    rows = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
    first, length = ranges[rows, 0].astype(np.int64), np.diff(ranges[rows], axis=1).reshape(-1)
    if len(rows) == 0:
        return []
    columns = np.stack([binder.row_addresses(dest, rows), binder.row_addresses(source, first)], axis=1)
    runs = find_runs(columns, length[1:] == length[:-1])
    if len(runs) > _MAX_VIEWS + len(rows) // _ROWS_PER_VIEW:
        return _by_length(binder, binder.view(dest), binder.view(source), rows, first, length, scale)
    calls: list[BoundCall] = []
    flat, (_, num_cols), (stride, _) = binder.flat, binder.view(dest).shape, binder.view(source).stride()
    run_rows = np.cumsum(runs.inner) - runs.inner
    for start, count, step, summed in zip(runs.start, runs.inner, runs.inner_step, length[run_rows], strict=True):
        target = flat.as_strided((int(count), num_cols), (int(step[0]), 1), int(start[0]))
        terms = flat.as_strided((int(count), int(summed), num_cols), (int(step[1]), stride, 1), int(start[1]))
        scratch = binder.scratch(int(count), num_cols)
        calls += [partial(torch.sum, terms, 1, out=scratch), partial(target.add_, scratch, alpha=scale)]
    return calls


def _by_length(
    binder: Binder,
    dest: Tensor,
    source: Tensor,
    rows: np.ndarray,
    first: np.ndarray,
    length: np.ndarray,
    scale: float,
) -> list[BoundCall]:
    """All ranges of one length together: gather their rows, sum, add."""
    calls: list[BoundCall] = []
    num_cols = dest.shape[1]
    for size in np.unique(length).tolist():
        chosen = np.flatnonzero(length == size)
        scratch = binder.scratch(len(chosen) * (size + 1), num_cols)
        terms, sums = scratch[: len(chosen) * size], scratch[len(chosen) * size :]
        gathered = binder.index((first[chosen, np.newaxis] + np.arange(size)).reshape(-1))
        calls += [
            partial(torch.index_select, source, 0, gathered, out=terms),
            partial(torch.sum, terms.view(len(chosen), size, num_cols), 1, out=sums),
            partial(dest.index_add_, 0, binder.index(rows[chosen]), sums, alpha=scale),
        ]
    return calls
