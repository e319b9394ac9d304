"""ViewTensors: the views of a plan as tensors; StandIns: tensors in the place of views that tell views apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.plan import Plan

#: Shape, strides and beginning of a view, in elements.
_Geometry = tuple[list[int], list[int], int]
#: Columns of `Plan.views`: the shape, what strides are made of, moves in loops.
_SHAPE, _STRIDES, _MOVES = slice(3, 6), slice(6, 8), slice(8, 10)
_APART = 64  # bytes; stand-ins begin at multiples


class ViewAddresses(NamedTuple):
    """The addresses of the views of a plan, (views,) each, and their moves in loops.

    `begin`: the address of the first number in the first iteration; of an unevenly moving view, of row 0 of its table.
    `num_rows`: the rows of an evenly moving view. `of_iteration` and `of_row`: elements an iteration, and from row to
    row. `table`: the number of its table among `tables` (iterations, 2), -1 for none. `is_constant`: nothing changes
    the view."""

    begin: np.ndarray
    num_rows: np.ndarray
    of_iteration: np.ndarray
    of_row: np.ndarray
    table: np.ndarray
    is_constant: np.ndarray
    tables: Sequence[np.ndarray]


_NONE = np.zeros(1, np.int64)
#: Where there are no views.
NO_ADDRESSES = ViewAddresses(_NONE, _NONE, _NONE, _NONE, _NONE - 1, _NONE > 0, [])


class ViewTensors:
    """The views of a plan, in an arena and in outside memory. `fixed`: views without moves in loops, else None.

    Views with equal numbers, as of matrices that share storage in turn, are one tensor.
    """

    def __init__(self, plan: Plan, arena: Arena, outside: Mapping[str, Tensor]) -> None:
        self._lanes = [arena.lane(DTYPES[name]) for name in plan.lanes]
        self._bound = [outside[memory.name].detach() for memory in plan.outside]
        memory = np.array([(1, 1, 0)] * len(self._lanes) + [_of_matrix(each) for each in self._bound[::-1]], np.int64)
        #: Of each view: the elements from one of what it counts to the next, from column to column, before the first.
        self._scale, self._column_stride, self._origin = memory.reshape(-1, 3)[plan.views[:, 0]].T
        first: Sequence[int] = range(len(plan.views))
        if not plan.are_views_apart:
            known: dict[tuple[int, ...], int] = {}
            first = [known.setdefault(view, number) for number, view in enumerate(map(tuple, plan.views.tolist()))]
        self._first = np.array(first, dtype=np.int64)  # the first view with the tensor of each
        self._moves, is_first = np.asarray(plan.views[:, _MOVES].any(axis=1)), self._first == np.arange(len(first))
        has_tensor, self._are_joined = is_first & ~self._moves, not is_first.all()
        self._place(plan)
        own, self._is_plain = np.flatnonzero(has_tensor), plan.views[:, 3] == 0
        views = zip(own.tolist(), plan.views[own].tolist(), strict=True)
        made = {n: self._flat(view[0]).as_strided(*self._geometry(n, view)) for n, view in views}
        self.fixed = [made.get(number) for number in first]
        #: The numbers and the axes of views with tensors of two axes, and of those of three.
        self._own = (own[self._is_plain[own]], slice(1, 3)), (own[~self._is_plain[own]], slice(3))
        self.forget_iterations()

    def _place(self, plan: Plan, *, strides_differ: bool = True) -> None:
        """Find where the views of a plan lie."""
        self._plan, columns = plan, plan.views.T
        vars(self).pop("addresses", None)
        #: The beginning of each view in iteration 0, in elements.
        self._begins = self._origin + columns[1] * self._scale + columns[2] * self._column_stride
        if strides_differ:
            strides = [columns[6] * self._scale, columns[7] * self._scale, self._column_stride]
            self._strides = np.stack(strides, axis=1)

    def _geometry(self, number: int, view: list[int]) -> _Geometry:
        """Returns shape, strides and beginning in iteration 0 of a view, a row of `Plan.views`."""
        shape, strides, begin = view[_SHAPE], self._strides[number].tolist(), int(self._begins[number])
        return (shape, strides, begin) if shape[0] else (shape[1:], strides[1:], begin)

    def forget_iterations(self) -> None:
        """Forget the tensors of moving views, before other iterations are asked for."""
        self._moving: dict[int, Sequence[Tensor]] = {}
        self._cuts: dict[int, _Cuts] = {}

    def of(self, number: int, iterations: range) -> Iterable[Tensor]:
        """Returns the tensor of a view in each of the iterations."""
        fixed = self.fixed[number]
        if fixed is not None:
            return repeat(fixed, len(iterations))
        if number not in self._moving:
            self._moving[number] = self._tensors(number, iterations)
        return self._moving[number]

    def move(self, plan: Plan) -> bool:
        """Move tensors to the addresses of a plan that differs in numbers alone.

        Returns False, and changes nothing, if views of one tensor would part, views get other axes, or begin to move in
        loops.
        """
        views, differs = plan.views, plan.views != self._plan.views
        columns = differs.any(axis=0).tolist()
        if columns[0] or (any(columns[_MOVES]) and (views[:, _MOVES].any(axis=1) != self._moves).any()):
            return False
        if self._are_joined and (views[self._first] != views).any():
            return False
        if columns[3] and ((views[:, 3] == 0) != self._is_plain).any():
            return False
        self._place(plan, strides_differ=any(columns[_STRIDES]))
        for numbers, axes in self._own:  # mostly all have moved
            tensors: Iterator[Any] = map(self.fixed.__getitem__, numbers.tolist())
            shapes, strides = (each[numbers, axes].tolist() for each in (views[:, _SHAPE], self._strides))
            for _ in map(Tensor.as_strided_, tensors, shapes, strides, self._begins[numbers].tolist()):
                pass
        return True

    @property
    def are_on_cpu(self) -> bool:
        return all(lane.is_cpu for lane in self._lanes)

    @cached_property
    def addresses(self) -> ViewAddresses:
        """The addresses of all views."""
        views, (sizes, origins, is_read_only) = self._plan.views, self._bytes
        iteration_stride, uneven = views[:, _MOVES].T
        return ViewAddresses(
            origins + self._begins * sizes,
            np.where(uneven > 0, 0, views[:, 4]),
            iteration_stride * self._scale,
            self._strides[:, 1],
            uneven - 1,
            is_read_only & (iteration_stride == 0) & (uneven == 0),
            [np.ascontiguousarray(table, np.int64) for table in self._plan.uneven],
        )

    @cached_property
    def _bytes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the memory of each view: the bytes of an element, the address of element 0, whether it is only read."""
        flats, lane = [*self._lanes, *self._bound[::-1]], self._plan.views[:, 0]
        sizes = np.array([flat.element_size() for flat in flats], np.int64)
        origins = [flat.data_ptr() - flat.storage_offset() * flat.element_size() for flat in flats]
        is_read_only = [False] * len(self._lanes) + [not each.writable for each in self._plan.outside[::-1]]
        return sizes[lane], np.array(origins, np.int64)[lane], np.array(is_read_only, bool)[lane]

    def stand_ins(self) -> StandIns:
        """Returns tensors in the place of all views; a view that moves unevenly has its largest number of rows."""
        views = self._plan.views
        shapes = views[:, _SHAPE].copy()
        most = np.array([0, *(table[:, 1].max(initial=0) for table in self._plan.uneven)])
        shapes[:, 1] = np.where(views[:, 9] > 0, most[views[:, 9]], shapes[:, 1])
        dtypes = [self._flat(lane).dtype for lane in views[:, 0].tolist()]
        return StandIns(shapes, self._strides, dtypes, self.addresses.is_constant)

    def _flat(self, lane: int) -> Tensor:
        return self._lanes[lane] if lane >= 0 else self._bound[-1 - lane]

    def _tensors(self, number: int, iterations: range) -> Sequence[Tensor]:
        """Returns the tensors of a moving view, by iteration."""
        view = self._plan.views[number].tolist()
        flat, (shape, strides, start) = self._flat(view[0]), self._geometry(number, view)
        iteration_stride, uneven = view[_MOVES]
        if uneven:
            cuts = self._cuts.get(uneven)
            if cuts is None:
                cuts = self._cuts[uneven] = _Cuts(self._plan.uneven[uneven - 1][iterations.start : iterations.stop])
            return cuts.of(flat, start, (strides[-2], strides[-1]), shape[-1])
        iteration_stride *= int(self._scale[number])
        start += iterations.start * iteration_stride
        if len(iterations) == 1:
            return (flat.as_strided(shape, strides, start),)
        # All iterations are one tensor of one more dimension, whose slices are cheap; strides cannot be negative.
        start += min(0, iteration_stride) * (len(iterations) - 1)
        tensors: Sequence[Tensor]
        if abs(iteration_stride) == shape[0] * strides[0]:  # one behind the other: splitting is cheaper still
            sizes = [shape[0]] * len(iterations)
            tensors = flat.as_strided((sum(sizes), *shape[1:]), strides, start).unsafe_split_with_sizes(sizes)
        else:
            tensors = flat.as_strided((len(iterations), *shape), (abs(iteration_stride), *strides), start).unbind()
        return tensors[::-1] if iteration_stride < 0 else tensors


def _of_matrix(outside: Tensor) -> tuple[int, int, int]:
    row_stride, column_stride = outside.stride()
    return row_stride, column_stride, int(outside.storage_offset())


class StandIns:
    """Tensors in the place of views, with the views' shapes and strides. Nobody looks at the contents.

    Each stand-in has a first row for itself; the further rows lie in the memory behind. So the address of some columns
    of the first row identifies the view.
    """

    def __init__(
        self, shapes: np.ndarray, strides: np.ndarray, dtypes: Sequence[torch.dtype], is_constant: np.ndarray
    ) -> None:
        """`shapes` (views, 3), with 0 first for a plain matrix, and `strides` (views, 3), in elements."""
        self.num_rows, self.of_row, self.is_constant = shapes[:, 1], strides[:, 1], is_constant
        self._shapes, self._strides, self._dtypes = shapes, strides, dtypes
        sizes = np.array([dtype.itemsize for dtype in dtypes], np.int64)
        ends = np.maximum(shapes - 1, 0) * strides
        of_row = np.where(shapes[:, 2] > 0, (ends[:, 2] + 1) * sizes, 0)
        spans = -(-of_row // _APART) * _APART
        self._starts, self._first_rows = np.cumsum(spans) - spans, of_row
        num_bytes = int((self._starts + (ends.sum(axis=1) + 1) * sizes).max(initial=0)) + _APART
        self._memory = torch.empty(num_bytes // _APART * _APART, dtype=torch.uint8)
        self._made: dict[int, Tensor] = {}

    def __getitem__(self, view: int) -> Tensor:
        if view not in self._made:
            dtype = self._dtypes[view]
            shape, strides = self._shapes[view].tolist(), self._strides[view].tolist()
            first = 0 if shape[0] else 1
            flat, start = self._memory.view(dtype), int(self._starts[view]) // dtype.itemsize
            self._made[view] = flat.as_strided(shape[first:], strides[first:], start)
        return self._made[view]

    @property
    def fixed(self) -> StandIns:
        """All of them, for none moves."""
        return self

    def of(self, view: int, iterations: range) -> Iterable[Tensor]:
        return repeat(self[view], len(iterations))

    def forget_iterations(self) -> None:
        """Does nothing: tensors are the same in all iterations."""

    def views_at(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the view with each address in its first row, -1 for no view, and the bytes before the address."""
        offsets = addresses - self._memory.data_ptr()
        view = np.searchsorted(self._starts, offsets, side="right") - 1
        offsets = offsets - self._starts[view]
        is_inside = (view >= 0) & (offsets >= 0) & (offsets < self._first_rows[view])
        return np.where(is_inside, view, -1), offsets


class _Cuts:
    """Cuts the same blocks of rows out of one matrix after another.

    The rows from the first block to the last are split into pieces at once: blocks, and the gaps between blocks. Blocks
    that overlap are viewed one by one.
    """

    def __init__(self, blocks: np.ndarray) -> None:
        """`blocks`: (blocks, 2), first row and number of rows."""
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
        """Returns the blocks of the matrix beginning at `start`, with the given number of columns."""
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
