"""ViewTensors: the views of a plan as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from torch import Tensor

from nnet3.runtime.lanes import LANES
from nnet3.runtime.memory import Arena
from nnet3.runtime.plan import Plan

_ONCE = range(1)


class ViewTensors:
    """The views of a plan, in an arena and in outside memory. `fixed`: those that do not move in loops, else None.

    Many views are of matrices that take turns in one place: they are one tensor.
    """

    def __init__(self, plan: Plan, arena: Arena, outside: Mapping[str, Tensor]) -> None:
        self._lanes = [arena.lane(LANES[name]) for name in plan.lanes]
        self._bound = [outside[memory.name].detach() for memory in plan.outside]
        self._plan, self._rows = plan, plan.views.tolist()
        numbers: dict[tuple[int, ...], int] = {}
        self._place_of_view = [numbers.setdefault(row, len(numbers)) for row in map(tuple, self._rows)]
        self._first = np.unique(self._place_of_view, return_index=True)[1]  # view of each place
        made = [None if row[-1] or row[-2] else self._tensors(row, _ONCE)[0] for row in numbers]
        self.fixed = [made[place] for place in self._place_of_view]
        self.forget_turns()

    def forget_turns(self) -> None:
        """Forget the tensors of views that move, before others than the present turns are asked for."""
        self._moving: dict[int, Sequence[Tensor]] = {}
        self._cuts: dict[int, _Cuts] = {}

    def of(self, number: int, turns: range) -> Iterable[Tensor]:
        """Returns a view as it lies in each of these turns."""
        fixed = self.fixed[number]
        if fixed is not None:
            return repeat(fixed, len(turns))
        if number not in self._moving:
            self._moving[number] = self._tensors(self._rows[number], turns)
        return self._moving[number]

    def move(self, plan: Plan) -> bool:
        """Let tensors lie where a plan has them that differs in numbers alone.

        Returns False, and changes nothing, if views that have been one tensor would part, or begin to move in loops.
        """
        views, before = plan.views[self._first], self._plan.views[self._first]
        moves, moved = (each[:, -2:].any(axis=1) for each in (views, before))
        is_alike = (views[:, 0] == before[:, 0]) & (moves == moved)
        if not is_alike.all() or not np.array_equal(views[self._place_of_view], plan.views):
            return False
        self._plan, self._rows = plan, plan.views.tolist()
        for number in self._first[(views != before).any(axis=1)].tolist():
            tensor = self.fixed[number]
            if tensor is not None:
                tensor.as_strided_(*self._geometry(self._rows[number])[1:])
        return True

    def _geometry(self, row: Sequence[int]) -> tuple[Tensor, tuple[int, ...], tuple[int, ...], int]:
        """Returns the memory, the shape, the strides and the beginning of a row of `Plan.views` in turn 0."""
        lane, start, col, outer, inner, cols, outer_step, step, *_ = row
        unit = 1
        if lane < 0:
            flat = self._bound[-1 - lane]
            row_stride, unit = flat.stride()
            start = int(flat.storage_offset()) + start * row_stride + col * unit
            outer_step, step = outer_step * row_stride, step * row_stride
        else:
            flat = self._lanes[lane]
        if outer:
            return flat, (outer, inner, cols), (outer_step, step, unit), start
        return flat, (inner, cols), (step, unit), start

    def _tensors(self, row: Sequence[int], turns: range) -> Sequence[Tensor]:
        """Returns the tensors of a row of `Plan.views`, one for each turn."""
        flat, shape, strides, start = self._geometry(row)
        turn_step, uneven = row[-2:]
        if uneven:
            cuts = self._cuts.get(uneven)
            if cuts is None:
                cuts = self._cuts[uneven] = _Cuts(self._plan.uneven[uneven - 1][turns.start : turns.stop])
            return cuts.of(flat, start, (strides[-2], strides[-1]), shape[-1])
        if row[0] < 0:
            turn_step *= self._bound[-1 - row[0]].stride(0)
        start += turns.start * turn_step
        if len(turns) == 1:
            return (flat.as_strided(shape, strides, start),)
        # All turns are one tensor of one more dimension, whose slices are cheap; strides cannot be negative.
        start += min(0, turn_step) * (len(turns) - 1)
        tensors = flat.as_strided((len(turns), *shape), (abs(turn_step), *strides), start).unbind()
        return tensors[::-1] if turn_step < 0 else tensors


class _Cuts:
    """Blocks of rows, (blocks, 2) of first row and number, that are cut out of one matrix."""

    def __init__(self, blocks: np.ndarray) -> None:
        first, count = blocks.T
        self._moves, self._backward = bool((first != first[0]).any()), bool(first[0] > first[-1])
        if self._backward:
            first, count = first[::-1], count[::-1]
        gaps = first[1:] - first[:-1] - count[:-1]
        self._overlap, self._touch = bool((gaps < 0).any()), not gaps.any()
        self._first, self._count = first.tolist(), count.tolist()
        self._sizes = self._count
        if not self._touch:
            sizes = np.zeros(2 * len(count) - 1, dtype=np.int64)
            sizes[::2], sizes[1::2] = count, gaps
            self._sizes = sizes.tolist()

    def of(self, flat: Tensor, start: int, strides: tuple[int, int], cols: int) -> Sequence[Tensor]:
        """Returns the blocks of the matrix that begins at `start`, with so many columns."""
        if not self._moves:
            begin = start + self._first[0] * strides[0]
            known = {rows: flat.as_strided((rows, cols), strides, begin) for rows in set(self._count)}
            return [known[rows] for rows in self._count]
        tensors: Sequence[Tensor]
        if self._overlap:
            pairs = zip(self._first, self._count, strict=True)
            tensors = [flat.as_strided((rows, cols), strides, start + row * strides[0]) for row, rows in pairs]
        else:
            shape = self._first[-1] + self._count[-1] - self._first[0], cols
            whole = flat.as_strided(shape, strides, start + self._first[0] * strides[0])
            tensors = whole.unsafe_split_with_sizes(self._sizes)
            tensors = tensors if self._touch else tensors[::2]
        return tensors[::-1] if self._backward else tensors
