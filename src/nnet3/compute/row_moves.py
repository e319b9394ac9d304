"""Copying and adding rows, planned at link time: as strided views where the pattern is regular, by index elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nnet3.compute.binder import Binder, BoundCall
from nnet3.compute.row_blocks import RowBlocks, find_blocks

# When views beat an index, from timings on a CPU: one more view costs about as much as 16 more rows by index, one
# group by index (three calls) as much as 8 views.
_VIEWS_PER_GROUP = 8
_ROWS_PER_VIEW = 16


@dataclass(frozen=True)
class RowMoves:
    """Pairs of rows: row dest_row[i] of sub-matrix dest[i] from row source_row[i] of source[i]; no dest row twice."""

    dest: np.ndarray
    dest_row: np.ndarray
    source: np.ndarray
    source_row: np.ndarray

    def __len__(self) -> int:
        return len(self.dest)

    def groups(self) -> Iterator[RowMoves]:
        """The moves between each pair of sub-matrices, in order of appearance within a group."""
        _, group = np.unique(np.stack([self.dest, self.source]), axis=1, return_inverse=True)
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            yield RowMoves(self.dest[rows], self.dest_row[rows], self.source[rows], self.source_row[rows])


def bind_copy(binder: Binder, moves: RowMoves, scale: float) -> list[BoundCall]:
    """dest row = scale * source row."""
    if len(moves) == 0:
        return []
    views = _views(binder, moves)
    if views is None:
        return [call for group in moves.groups() for call in _indexed_copy(binder, group, scale)]
    dests, sources = views
    if len(dests) == 1:
        return [scaled_copy(dests[0], sources[0], scale)]
    target = _slice(binder.view(int(moves.dest[0])), moves.dest_row) if (moves.dest == moves.dest[0]).all() else None
    if target is not None and all(source.ndim == 2 for source in sources):
        calls: list[BoundCall] = [partial(torch.cat, sources, out=target)]  # much faster than as many copies
        return calls if scale == 1 else [*calls, partial(target.mul_, scale)]
    calls = [partial(torch._foreach_copy_, dests, sources)]
    return calls if scale == 1 else [*calls, partial(torch._foreach_mul_, dests, scale)]


def bind_add(binder: Binder, moves: RowMoves, scale: float) -> list[BoundCall]:
    """dest row += scale * source row."""
    if len(moves) == 0:
        return []
    views = _views(binder, moves)
    if views is None:
        return [call for group in moves.groups() for call in _indexed_add(binder, group, scale)]
    dests, sources = views
    if len(dests) == 1:
        return [partial(dests[0].add_, sources[0], alpha=scale)]
    return [partial(torch._foreach_add_, dests, sources, alpha=scale)]


def bind_zero(binder: Binder, dest: int, rows: np.ndarray) -> list[BoundCall]:
    """Set rows of a sub-matrix to zero."""
    if len(rows) == 0:
        return []
    blocks = find_blocks(binder.row_addresses(dest, rows)[:, np.newaxis])
    if len(blocks) > _VIEWS_PER_GROUP:
        return [partial(binder.view(dest).index_fill_, 0, binder.index(rows), 0.0)]
    return [view.zero_ for view in _block_views(binder, blocks, 0, binder.view(dest).shape[1])]


def scaled_copy(dest: Tensor, source: Tensor, scale: float) -> BoundCall:
    if scale == 1:
        return partial(dest.copy_, source)
    return partial(torch.mul, source, scale, out=dest)


# ---- regular patterns ----


def _views(binder: Binder, moves: RowMoves) -> tuple[list[Tensor], list[Tensor]] | None:
    """Views of the dest and source rows, block by block in the order of the moves, or None if there are too many."""
    dest, dest_count = _addresses(binder, moves.dest, moves.dest_row)
    source, source_count = _addresses(binder, moves.source, moves.source_row)
    blocks = find_blocks(np.stack([dest, source], axis=1))
    if len(blocks) > _VIEWS_PER_GROUP * max(dest_count, source_count) + len(moves) // _ROWS_PER_VIEW:
        return None
    num_cols = binder.view(int(moves.dest[0])).shape[1]
    return _block_views(binder, blocks, 0, num_cols), _block_views(binder, blocks, 1, num_cols)


def _addresses(binder: Binder, submatrices: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Where each row begins, and how many different sub-matrices there are."""
    numbers, which = np.unique(submatrices, return_inverse=True)
    # Addresses are linear in the row: those of rows 0 and 1 tell all others.
    two = np.stack([binder.row_addresses(int(number), np.arange(2)) for number in numbers])
    start, stride = two[:, 0], two[:, 1] - two[:, 0]
    return start[which] + rows * stride[which], len(numbers)


def _block_views(binder: Binder, blocks: RowBlocks, column: int, num_cols: int) -> list[Tensor]:
    """The rows of each block in one address list: (inner, columns), or (outer, inner, columns)."""
    return [
        binder.flat.as_strided((inner, num_cols), (inner_step, 1), start)
        if outer == 1
        else binder.flat.as_strided((outer, inner, num_cols), (outer_step, inner_step, 1), start)
        for start, outer, outer_step, inner, inner_step in zip(
            blocks.start[:, column].tolist(),
            blocks.outer.tolist(),
            blocks.outer_step[:, column].tolist(),
            blocks.inner.tolist(),
            blocks.inner_step[:, column].tolist(),
            strict=True,
        )
    ]


def _slice(matrix: Tensor, rows: np.ndarray) -> Tensor | None:
    """matrix[rows] as a view if the rows are consecutive and go up, else None."""
    if not np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return None
    return matrix[int(rows[0]) : int(rows[0]) + len(rows)]


# ---- anything else: one pair of sub-matrices ----


def _indexed_copy(binder: Binder, moves: RowMoves, scale: float) -> list[BoundCall]:
    dest, source = binder.view(int(moves.dest[0])), binder.view(int(moves.source[0]))
    by_dest, by_source = np.argsort(moves.dest_row), np.argsort(moves.source_row, kind="stable")
    target = _slice(dest, moves.dest_row[by_dest])
    if target is not None:
        rows = binder.index(moves.source_row[by_dest])
        calls: list[BoundCall] = [partial(torch.index_select, source, 0, rows, out=target)]
        return calls if scale == 1 else [*calls, partial(target.mul_, scale)]
    origin = _slice(source, moves.source_row[by_source])
    if origin is not None and scale == 1:
        return [partial(dest.index_copy_, 0, binder.index(moves.dest_row[by_source]), origin)]
    scratch = binder.scratch(len(moves), dest.shape[1])
    calls = [partial(torch.index_select, source, 0, binder.index(moves.source_row), out=scratch)]
    if scale != 1:
        calls.append(partial(scratch.mul_, scale))
    return [*calls, partial(dest.index_copy_, 0, binder.index(moves.dest_row), scratch)]


def _indexed_add(binder: Binder, moves: RowMoves, scale: float) -> list[BoundCall]:
    dest, source = binder.view(int(moves.dest[0])), binder.view(int(moves.source[0]))
    by_dest, by_source = np.argsort(moves.dest_row), np.argsort(moves.source_row, kind="stable")
    origin = _slice(source, moves.source_row[by_source])
    if origin is not None and dest.is_contiguous():  # adding by index is slow where rows are apart
        return [partial(dest.index_add_, 0, binder.index(moves.dest_row[by_source]), origin, alpha=scale)]
    scratch = binder.scratch(len(moves), dest.shape[1])
    target = _slice(dest, moves.dest_row[by_dest])
    if target is not None:
        rows = binder.index(moves.source_row[by_dest])
        select = partial(torch.index_select, source, 0, rows, out=scratch)
        return [select, partial(target.add_, scratch, alpha=scale)]
    select = partial(torch.index_select, source, 0, binder.index(moves.source_row), out=scratch)
    return [select, partial(dest.index_add_, 0, binder.index(moves.dest_row), scratch, alpha=scale)]
