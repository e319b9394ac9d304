"""Moves of rows between times, as moves of blocks: of one time the existing rows come first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nnet3.engine.families.ragged_regions import DeclaredRegions
from nnet3.engine.families.ragged_rows import IndexRows
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.declarations import Command

Move = cmd.MatrixCopy | cmd.MatrixAdd | cmd.CopyRows | cmd.AddRows


def moved_in_blocks(
    command: Move,
    starts: tuple[int, int],
    rows: np.ndarray,
    index_rows: IndexRows,
    regions: DeclaredRegions,
    *,
    most: int,
) -> list[Command] | None:
    """Returns commands for moving the rows existing on both sides, one time per command; None for more than `most`.

    `starts`: of the destination and the source; `rows`: the source row for each row of the destination, -1 for
    none. None too if rows of several sequences meet.
    """
    dest, source = starts
    times = index_rows.times_alike(dest, np.where(rows < 0, -1, source + rows))
    if times is None or len(times) > most + 1:
        return None
    is_copy = isinstance(command, cmd.MatrixCopy | cmd.CopyRows)
    moved, leaves_rows, before_end = list[Command](), bool((rows < 0).any()), index_rows.before_end
    for begin, end in pairwise(times.tolist()):
        first = int(rows[begin])
        if first < 0:
            continue
        lacks_source = bool(before_end[source + first] < before_end[dest + begin])
        leaves_rows |= lacks_source
        both = source + first if lacks_source else dest + begin
        to = regions.limited(command.dest, dest, both, range(begin, end))
        fro = regions.limited(command.source, source, both, range(first, first + end - begin))
        moved.append((cmd.MatrixCopy if is_copy else cmd.MatrixAdd)(to, fro, command.scale))
    # In loops a command for those rows alone that have no source would mostly have none.
    zeros = [cmd.SetConst(regions.plain(command.dest, dest), 0.0)] if is_copy and leaves_rows else []
    return [*zeros, *moved]
