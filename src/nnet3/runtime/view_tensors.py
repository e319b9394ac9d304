"""ViewTensors: the views of a plan as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np
from torch import Tensor

from nnet3.runtime.lanes import LANES
from nnet3.runtime.memory import Arena
from nnet3.runtime.plan import Plan

#: Shape, strides and beginning of a view, in elements.
_Geometry = tuple[list[int], list[int], int]


class ViewTensors:
    """The views of a plan, in an arena and in outside memory. `fixed`: those that do not move in loops, else None.

    Many views are of matrices that take turns in one place: they are one tensor.
    """

    def __init__(self, plan: Plan, arena: Arena, outside: Mapping[str, Tensor]) -> None:
        self._lanes = [arena.lane(LANES[name]) for name in plan.lanes]
        self._bound = [outside[memory.name].detach() for memory in plan.outside]
        #: By lane: the elements from one of what views count to the next, from column to column, before the first.
        self._memory = np.array([(1, 1, 0)] * len(self._lanes) + [_of_matrix(each) for each in self._bound[::-1]])
        self._plan = plan
        #: Lane, turn step, unevenness and geometry of each view that moves; found on demand.
        self._how: dict[int, tuple[list[int], _Geometry]] = {}
        numbers: dict[tuple[int, ...], int] = {}
        places = list(range(len(plan.views)))
        if not plan.are_views_apart:
            places = [numbers.setdefault(row, len(numbers)) for row in map(tuple, plan.views.tolist())]
        self._place_of_view = np.array(places, dtype=np.int64)
        self._first = np.unique(self._place_of_view, return_index=True)[1]  # view of each place
        self._views = views = plan.views[self._first]
        self._moves = np.asarray(views[:, -2:].any(axis=1))
        geometries = zip(views[:, 0].tolist(), self._moves.tolist(), self._geometries(views), strict=True)
        made = [None if moves else self._flat(lane).as_strided(*geometry) for lane, moves, geometry in geometries]
        self.fixed = [made[place] for place in places]
        self.forget_turns()

    def forget_turns(self, uneven: Sequence[np.ndarray] | None = None) -> None:
        """Forget the tensors of views that move, before others than the present turns are asked for.

        `uneven`: what they have instead of the plan's.
        """
        self._moving: dict[int, Sequence[Tensor]] = {}
        self._cuts: dict[int, _Cuts] = {}
        self._uneven = self._plan.uneven if uneven is None else uneven

    @property
    def kinds_in_use(self) -> set[int]:
        """The places in `Plan.uneven` of the views that were asked for in the present turns."""
        return {uneven - 1 for uneven in self._cuts}

    def of(self, number: int, turns: range) -> Iterable[Tensor]:
        """Returns a view as it lies in each of these turns."""
        fixed = self.fixed[number]
        if fixed is not None:
            return repeat(fixed, len(turns))
        if number not in self._moving:
            self._moving[number] = self._tensors(number, turns)
        return self._moving[number]

    def move(self, plan: Plan) -> bool:
        """Let tensors lie where a plan has them that differs in numbers alone.

        Returns False, and changes nothing, if views that have been one tensor would part, or begin to move in loops.
        """
        views = plan.views[self._first]
        moves, differs = views[:, -2:].any(axis=1), views != self._views
        if differs[:, 0].any() or (moves != self._moves).any() or (views[self._place_of_view] != plan.views).any():
            return False
        changed = differs.any(axis=1) & ~moves
        self._plan, self._how, self._views = plan, {}, views
        for number, geometry in zip(self._first[changed].tolist(), self._geometries(views[changed]), strict=True):
            self.fixed[number].as_strided_(*geometry)
        return True

    @property
    def are_on_cpu(self) -> bool:
        return all(lane.is_cpu for lane in self._lanes)

    def stretches(self, views: np.ndarray) -> np.ndarray:
        """Returns the addresses where the memory of views (views, columns of `Plan.views`) begins and ends, (views, 2).

        Those of outside memory have no stretch.
        """
        lane, start, _, outer, inner, cols, outer_step, step = views.T[:8]
        begins = np.array([0, *(each.data_ptr() for each in self._lanes)])[np.maximum(lane, -1) + 1]
        sizes = np.array([0, *(each.itemsize for each in self._lanes)])[np.maximum(lane, -1) + 1]
        length = np.maximum(outer - 1, 0) * outer_step + (inner - 1) * step + cols
        return np.stack([begins + start * sizes, begins + (start + length) * sizes], axis=1)

    def _flat(self, lane: int) -> Tensor:
        return self._lanes[lane] if lane >= 0 else self._bound[-1 - lane]

    def _geometries(self, views: np.ndarray) -> Iterator[_Geometry]:
        """Yields shape, strides and beginning in turn 0 of rows of `Plan.views`."""
        lane, start, col, outer, inner, cols, outer_step, step = views.T[:8]
        scale, unit, origin = self._memory[lane].T
        shapes = np.stack([outer, inner, cols], axis=1).tolist()
        strides = np.stack([outer_step * scale, step * scale, unit], axis=1).tolist()
        for shape, stride, begin in zip(shapes, strides, (origin + start * scale + col * unit).tolist(), strict=True):
            yield (shape, stride, begin) if shape[0] else (shape[1:], stride[1:], begin)

    def _tensors(self, number: int, turns: range) -> Sequence[Tensor]:
        """Returns the tensors of a view that moves, one for each turn."""
        if not self._how:
            moving = np.flatnonzero(self._plan.views[:, -2:].any(axis=1))
            views = self._plan.views[moving]
            rest = zip(views[:, [0, -2, -1]].tolist(), self._geometries(views), strict=True)
            self._how = dict(zip(moving.tolist(), rest, strict=True))
        (lane, turn_step, uneven), (shape, strides, start) = self._how[number]
        flat = self._flat(lane)
        if uneven:
            cuts = self._cuts.get(uneven)
            if cuts is None:
                cuts = self._cuts[uneven] = _Cuts(self._uneven[uneven - 1][turns.start : turns.stop])
            return cuts.of(flat, start, (strides[-2], strides[-1]), shape[-1])
        turn_step *= int(self._memory[lane, 0])
        start += turns.start * turn_step
        if len(turns) == 1:
            return (flat.as_strided(shape, strides, start),)
        # All turns are one tensor of one more dimension, whose slices are cheap; strides cannot be negative.
        start += min(0, turn_step) * (len(turns) - 1)
        tensors = flat.as_strided((len(turns), *shape), (abs(turn_step), *strides), start).unbind()
        return tensors[::-1] if turn_step < 0 else tensors


def _of_matrix(outside: Tensor) -> tuple[int, int, int]:
    row_stride, unit = outside.stride()
    return row_stride, unit, int(outside.storage_offset())


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
        apart = np.flatnonzero(gaps)  # mostly few
        self._sizes = np.insert(count, apart + 1, gaps[apart]).tolist()
        #: The numbers of the blocks among these pieces.
        self._numbers = (np.arange(len(count)) + np.searchsorted(apart, np.arange(len(count)))).tolist()

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
            pieces = whole.unsafe_split_with_sizes(self._sizes)
            tensors = pieces if self._touch else [pieces[number] for number in self._numbers]
        return tensors[::-1] if self._backward else tensors
