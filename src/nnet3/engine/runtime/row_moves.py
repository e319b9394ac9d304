"""Plans for copying and adding rows: strided views where the pattern is regular, an index elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.runtime.planner import Planner, Space
from nnet3.engine.runtime.row_blocks import (
    ROWS_PER_VIEW,
    VIEWS_PER_GROUP,
    RowBlocks,
    RowPattern,
    fewest_blocks,
    goes_up_by_one,
    row_pattern,
)

#: From so many blocks on one call for all of them is faster than one for each.
_FOREACH_FROM = 12


@dataclass(frozen=True, eq=False)
class RowMoves:
    """Moves between sub-matrices: row dest_row[i] of dest[i] from row source_row[i] of source[i], no dest row twice."""

    dest: np.ndarray
    dest_row: np.ndarray
    source: np.ndarray
    source_row: np.ndarray

    def __len__(self) -> int:
        return len(self.dest)

    def where(self, rows: np.ndarray) -> RowMoves:
        return RowMoves(self.dest[rows], self.dest_row[rows], self.source[rows], self.source_row[rows])


# ---- between two sub-matrices ----


def plan_rows(planner: Planner, dest: int, source: int, pattern: RowPattern, scale: float, *, add: bool) -> None:
    """dest row = scale * source row, or dest row += scale * source row."""
    if pattern.blocks is None:
        by_index = _indexed_add if add else _indexed_copy
        by_index(planner, dest, source, pattern, scale)
        return
    dests, sources = (_views(planner, s, pattern.blocks, column) for column, s in enumerate((dest, source)))
    if add:
        _add_views(planner, dests, sources, scale)
        return
    target = _slice(planner, dest, pattern.dest_row) if pattern.is_slice and _can_join(pattern.blocks) else None
    _copy_views(planner, dests, sources, target, scale)


def plan_zero_rows(planner: Planner, dest: int, rows: np.ndarray) -> None:
    """Set rows of a sub-matrix to zero."""
    if len(rows) == 0:
        return
    blocks = planner.blocks_of(rows.astype(np.int64))
    if len(blocks) > VIEWS_PER_GROUP:
        planner.call("zero rows", planner.view(dest), planner.index(rows))
        return
    for view in _views(planner, dest, blocks, 0):
        planner.call("zero", view)


# ---- between several ----


def plan_moves(planner: Planner, moves: RowMoves, scale: float, *, add: bool) -> None:
    """Set dest rows to scale * source rows, or add, between several sub-matrices; copied rows all have one dest."""
    for alike in _by_space(planner, moves):
        order, blocks, sides = _blocks_of_addresses(planner, alike)
        if blocks is None:
            for dest, source, pattern in _pairs(alike):
                plan_rows(planner, dest, source, pattern, scale, add=add)
            continue
        dests, sources = (planner.block_views(*side, blocks, column) for column, side in enumerate(sides))
        if add:
            _add_views(planner, dests, sources, scale)
            continue
        dest_row = alike.dest_row[order]
        is_slice = _can_join(blocks) and goes_up_by_one(dest_row)
        target = _slice(planner, int(alike.dest[0]), dest_row) if is_slice else None
        _copy_views(planner, dests, sources, target, scale)


# ---- regular patterns ----


def _copy_views(
    planner: Planner, dests: Sequence[int], sources: Sequence[int], target: int | None, scale: float
) -> None:
    """Plans copies between views; `target` is all dests as one view, if the sources may be joined."""
    if target is not None and len(dests) > 1:
        planner.call("cat", target, *sources)  # much faster than as many copies
        if scale != 1:
            planner.call("scale", target, number=scale)
    elif scale == 1 and len(dests) >= _FOREACH_FROM:
        planner.call("copy each", *dests, *sources)
    else:
        for dest, source in zip(dests, sources, strict=True):
            planner.call("copy" if scale == 1 else "scaled copy", dest, source, number=scale)


def _add_views(planner: Planner, dests: Sequence[int], sources: Sequence[int], scale: float) -> None:
    if len(dests) >= _FOREACH_FROM:
        planner.call("add each", *dests, *sources, number=scale)
        return
    for dest, source in zip(dests, sources, strict=True):
        planner.call("add" if scale == 1 else "scaled add", dest, source, number=scale)


def _can_join(blocks: RowBlocks) -> bool:
    """Tells whether the blocks are several plain matrices, which `torch.cat` can join."""
    return len(blocks) > 1 and bool((blocks.outer == 1).all())


def _views(planner: Planner, submatrix: int, blocks: RowBlocks, column: int) -> list[int]:
    """Returns views of the blocks of rows of a sub-matrix."""
    space, start, stride = planner.address(submatrix)
    return planner.block_views(repeat(space), start, stride, planner.block(submatrix).num_cols, blocks, column)


def _slice(planner: Planner, submatrix: int, rows: np.ndarray) -> int:
    """Returns consecutive rows of a sub-matrix as one view."""
    space, start, stride = planner.address(submatrix)
    first, last = int(rows[0]), int(rows[-1])
    return planner.rows_view(space, start + first * stride, last - first + 1, stride, planner.block(submatrix).num_cols)


# ---- addresses in blocks of memory, where several sub-matrices make one pattern ----


def _by_space(planner: Planner, moves: RowMoves) -> Iterator[RowMoves]:
    """Splits the moves by where dest and source lie: lanes of the arena, outside memories."""
    if len(moves) == 0:
        return
    columns = np.concatenate([_addresses(planner, each)[:, :2] for each in (moves.dest, moves.source)], axis=1).T
    if (columns == columns[:, :1]).all():
        yield moves
        return
    for rows in _equal(columns):
        yield moves.where(rows)


def _addresses(planner: Planner, submatrices: np.ndarray) -> np.ndarray:
    """Returns where each sub-matrix lies, (sub-matrices, 6): the space, the first row, the distance of rows."""
    numbers, which = np.unique(submatrices, return_inverse=True)
    found = [(*space, start, stride) for space, start, stride in map(planner.address, numbers.tolist())]
    return np.array(found, dtype=np.int64)[which.reshape(-1)]


def _blocks_of_addresses(
    planner: Planner, moves: RowMoves
) -> tuple[np.ndarray, RowBlocks | None, list[tuple[list[Space], int, int, int]]]:
    """Returns an order of the moves, blocks regular on both sides or None for too many, and arguments of views."""
    num_cols = planner.block(int(moves.dest[0])).num_cols
    addresses, spaces, most = [], [], 1
    for submatrices, rows in ((moves.dest, moves.dest_row), (moves.source, moves.source_row)):
        found = _addresses(planner, submatrices)
        addresses.append(found[:, 4] + rows * found[:, 5])
        spaces.append(found[:, :4])
        most = max(most, len(distinct(submatrices)))
    order, blocks = fewest_blocks(np.stack(addresses, axis=1), np.stack([space[:, 2] for space in spaces], axis=1))
    if len(blocks) > VIEWS_PER_GROUP * most + len(moves) // ROWS_PER_VIEW:
        return order, None, []
    return order, blocks, [(space[order[blocks.first_rows]].tolist(), 0, 1, num_cols) for space in spaces]


def _pairs(moves: RowMoves) -> Iterator[tuple[int, int, RowPattern]]:
    """Yields the moves between each pair of sub-matrices, in order of appearance."""
    for rows in _equal(np.stack([moves.dest, moves.source])):
        pattern = row_pattern(moves.dest_row[rows], moves.source_row[rows])
        yield int(moves.dest[rows[0]]), int(moves.source[rows[0]]), pattern


def _equal(columns: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the positions of each group of equal columns of (any, entries), in order."""
    _, group = np.unique(columns, axis=1, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


# ---- anything else, by index ----


def _indexed_copy(planner: Planner, dest: int, source: int, pattern: RowPattern, scale: float) -> None:
    by_dest, by_source = np.argsort(pattern.dest_row), np.argsort(pattern.source_row, kind="stable")
    if goes_up_by_one(pattern.dest_row[by_dest]):
        target = _slice(planner, dest, pattern.dest_row[by_dest])
        planner.call("select rows", target, planner.view(source), planner.index(pattern.source_row[by_dest]))
        if scale != 1:
            planner.call("scale", target, number=scale)
    elif scale == 1 and goes_up_by_one(pattern.source_row[by_source]):
        origin, rows = _slice(planner, source, pattern.source_row[by_source]), pattern.dest_row[by_source]
        planner.call("copy to rows", planner.view(dest), planner.index(rows), origin)
    else:
        selected = _selected(planner, source, pattern.source_row, scale)
        planner.call("copy to rows", planner.view(dest), planner.index(pattern.dest_row), selected)


def _indexed_add(planner: Planner, dest: int, source: int, pattern: RowPattern, scale: float) -> None:
    by_dest, by_source = np.argsort(pattern.dest_row), np.argsort(pattern.source_row, kind="stable")
    if goes_up_by_one(pattern.source_row[by_source]) and _is_contiguous(planner, dest):
        # adding by index is slow where rows are apart
        origin, rows = _slice(planner, source, pattern.source_row[by_source]), pattern.dest_row[by_source]
        planner.call("add to rows", planner.view(dest), planner.index(rows), origin, number=scale)
    elif goes_up_by_one(pattern.dest_row[by_dest]):
        target = _slice(planner, dest, pattern.dest_row[by_dest])
        selected = _selected(planner, source, pattern.source_row[by_dest])
        planner.call("add" if scale == 1 else "scaled add", target, selected, number=scale)
    else:
        selected = _selected(planner, source, pattern.source_row)
        planner.call("add to rows", planner.view(dest), planner.index(pattern.dest_row), selected, number=scale)


def _selected(planner: Planner, source: int, rows: np.ndarray, scale: float = 1.0) -> int:
    """Returns scale * source[rows] in scratch memory."""
    planner.release_scratch()
    selected = planner.scratch(planner.count(rows), planner.block(source).num_cols)
    planner.call("select rows", selected, planner.view(source), planner.index(rows))
    if scale != 1:
        planner.call("scale", selected, number=scale)
    return selected


def _is_contiguous(planner: Planner, submatrix: int) -> bool:
    (lane, *_), _, stride = planner.address(submatrix)
    return lane >= 0 and stride == planner.block(submatrix).num_cols


def plan_add_ranges(planner: Planner, dest: int, source: int, table: int, scale: float) -> None:
    """dest[i] += scale * sum of source[first_i : end_i], for a table (rows, 2) of first and end."""
    ranges, runs = planner.ranges(table)
    rows, first, length = ranges.T
    (space, start, stride), (source_space, source_start, source_stride) = planner.address(dest), planner.address(source)
    if len(runs) > VIEWS_PER_GROUP + len(rows) // ROWS_PER_VIEW:
        _by_length(planner, dest, source, rows, first, length, scale)
        return
    num_cols = planner.block(dest).num_cols
    begins = np.array([start, source_start]) + runs.start * np.array([stride, source_stride])
    strides = runs.inner_stride * np.array([stride, source_stride])
    summed = length[np.searchsorted(rows, runs.start[:, 0])]
    columns = begins.tolist(), strides.tolist(), runs.inner.tolist(), summed.tolist()
    for (begin, source_begin), (by, source_by), count, terms_each in zip(*columns, strict=True):
        target = planner.rows_view(space, begin, count, by, num_cols)
        terms = planner.rows_view(source_space, source_begin, terms_each, source_stride, num_cols, count, source_by)
        planner.release_scratch()
        sums = planner.scratch(count, num_cols)
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
    num_cols = planner.block(dest).num_cols
    for size in distinct(length).tolist():
        chosen = np.flatnonzero(length == size)
        planner.release_scratch()
        terms, sums = planner.scratch(len(chosen) * size, num_cols), planner.scratch(len(chosen), num_cols)
        gathered = planner.index((first[chosen, np.newaxis] + np.arange(size)).reshape(-1))
        planner.call("select rows", terms, planner.view(source), gathered)
        planner.call("sum", sums, planner.stacked(terms, len(chosen)))
        planner.call("add to rows", planner.view(dest), planner.index(rows[chosen]), sums, number=scale)
