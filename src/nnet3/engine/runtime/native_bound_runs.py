"""NativeBoundRuns: the calls of a link made by native code; operations follow the views from plan to plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from nnet3.base.native.ranges import ReachableMemory
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.runtime.linker import ONCE, BoundCall, BoundRun, Linker
from nnet3.engine.runtime.native_runs import (
    NativeRun,
    NativeRuns,
    PackedWeights,
    in_groups,
    native_kernels,
    operations_of,
    views_of_long_loops,
)
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.replay import KernelState, objects_of
from nnet3.engine.runtime.view_operations import ViewOperations, on_views
from nnet3.engine.runtime.view_tensors import ViewAddresses

_MANY, _FEW = 4, 32  # times as many rows, but for so many, are looked at anew


class _Straight(NamedTuple):
    """Calls outside of loops, and the native runs for some; `views`: the views of the native runs.

    `by_python`: where each call that Python makes stands in the bound run.
    """

    bound_run: BoundRun
    runs: list[NativeRun]
    views: set[int]
    by_python: dict[int, int]

    def bind_anew(self, calls: Set[int], bound: Mapping[int, Sequence[BoundCall]]) -> bool:
        """Take calls bound anew; returns False if native code makes one of them."""
        runs = self.bound_run[2]
        for call in calls:
            if call not in self.by_python:
                return False
            runs[self.by_python[call]] = bound[call]
        return True


class _WholeLoop(NamedTuple):
    """A loop that native code runs as a whole: its first call, and the views in use."""

    first: int
    run: NativeRun
    views: set[int]


class NativeBoundRuns:
    """The calls of a link that native code makes; false if it makes none.

    If the link becomes the link of another plan, operations move with their views. Operations on many more or fewer
    rows are looked at anew: native code is for few rows.
    """

    def __init__(self, linker: Linker, used: Mapping[int, set[int]]) -> None:
        """`used`: the views used by each call outside of loops."""
        self._linker, self._used, self.plan = linker, used, linker.plan
        self._rows = linker.plan.views[:, 4]  # of views, when their calls were looked at
        self._kernels = native_kernels(linker.plan, linker.kernels) if linker.tensors.are_on_cpu else []
        self._with_state = [kernel for kernel in self._kernels if kernel.replay_state() != []]
        self._state: KernelState | None = None
        self._memory: ReachableMemory | None = None
        self._operations: dict[int, list[ViewOperations | None]] = {}  # by call
        self._straight: dict[tuple[range, bool], _Straight] = {}
        self._loops: dict[int, _WholeLoop] = {}  # by first call
        self._together: NativeRuns | None = None  # all runs that moved together last
        self._weights = PackedWeights(linker.arena.scratch)

    def __bool__(self) -> bool:
        return bool(self._kernels)

    def forget_old_addresses(self) -> bool:
        """Forgets everything and returns True if native code would read parameters where they were."""
        if not self._with_state:
            return False
        objects = objects_of(self._with_state)
        if self._state is not None and self._state.is_of(objects):
            return False
        self.forget()
        self._state = None if objects is None else KernelState(objects)
        return True

    def begin_segment(self) -> None:
        """Notes that weights may have changed since the last segment."""
        self._weights.forget()

    @property
    def memory(self) -> ReachableMemory:
        """The memory open to native code: the program's memory, outside memory, parameters of kernels."""
        if self._memory is None:
            linker = self._linker
            names = {each.name for each in self.plan.outside if each.writable}
            names |= {name for segment in self.plan.segments for name in segment.bound_results()}
            written = [each for name, each in linker.outside.items() if name in names]
            parameters = [
                each for kernel in self._with_state for each in kernel.replay_state() or () if isinstance(each, Tensor)
            ]
            self._memory = ReachableMemory([linker.arena.storage, *written], [*linker.outside.values(), *parameters])
        return self._memory

    def forget(self) -> None:
        """Forgets all operations and native runs."""
        self._memory = None
        self._operations.clear()
        self._straight.clear()
        self._loops.clear()
        self._together, self._weights = None, PackedWeights(self._linker.arena.scratch)

    def move(self, plan: Plan, anew: Set[int], bound: Mapping[int, Sequence[BoundCall]]) -> None:
        """Becomes the bound runs of another plan, after the linker's views have moved.

        `bound`: calls outside of loops, of which those in `anew` were bound anew.
        """
        before, after, self.plan = self.plan.views, plan.views, plan
        if not self:
            return
        differs, rows = before != after, after[:, 4]
        differs[:, [1, 4, 8]] = False  # where they begin, their rows, and how far they move on
        is_far = (rows > _MANY * self._rows + _FEW) | (_MANY * rows + _FEW < self._rows)
        self._rows = np.where(is_far, rows, self._rows)
        other = set(np.flatnonzero(differs.any(axis=1) | is_far).tolist())
        if anew or other:
            self._forget_some(other, anew, bound)
        self._move_runs()

    def _forget_some(self, views: Set[int], anew: Set[int], bound: Mapping[int, Sequence[BoundCall]]) -> None:
        """Forget what is known of calls that use some of the views, and calls in `anew`."""
        known = self._operations.items()
        self._operations = {call: each for call, each in known if call not in anew and not views & self._used[call]}
        for key, straight in list(self._straight.items()):
            own = {call for call in anew if call in key[0] and bound.get(call)}
            if views & straight.views or not straight.bind_anew(own, bound):
                del self._straight[key]
        self._loops = {first: loop for first, loop in self._loops.items() if not views & loop.views}

    def _move_runs(self) -> None:
        """Move the native runs together, or those outside of loops one by one, and those of loops when they run."""
        addresses = self._linker.tensors.addresses
        iterations = {first: num for first, _, num in self.plan.loops[:, :3].tolist()}
        pairs = [(run, 1) for straight in self._straight.values() for run in straight.runs]
        in_loops = [(loop.run, iterations[first]) for first, loop in self._loops.items()]
        pairs += [each for each in in_loops if not (addresses.tables and each[0].uses_tables)]
        runs = [run for run, _ in pairs]
        if not runs:
            return
        if self._together is None or self._together.runs != runs:
            self._together = NativeRuns(runs)
        if self._together.move([num for _, num in pairs], addresses, self.memory):
            return
        self._together = None
        for key, straight in list(self._straight.items()):
            if not all(run.move(1, addresses) for run in straight.runs):
                del self._straight[key]
                continue
            for run in straight.runs:
                run.check(self.memory)

    def straight(self, calls: range, bound: Mapping[int, Sequence[BoundCall]], together: bool) -> BoundRun:
        """Returns calls that run once."""
        known = self._straight.get((calls, together))
        if known is not None:
            return known.bound_run
        own, addresses = [call for call in calls if call in bound], self._linker.tensors.addresses
        self._find_operations([call for call in own if not self._goes_on(call, addresses)], bound)
        numbers = [call for call in own for _ in bound[call]]
        runs = [run for call in own for run in bound[call]]
        found = [each for call in own for each in self._operations[call]]
        groups = in_groups(
            *(runs, found, addresses),
            together=together,
            weights=self._weights,
            packed_anyway=views_of_long_loops(self.plan),
        )
        made = [runs[group.calls[0]] if group.run is None else partial(group.run, 0, 1) for group in groups]
        bound_run: BoundRun = ONCE, [numbers[group.calls[0]] for group in groups], [[run] for run in made]
        native = [(group.calls, group.run) for group in groups if group.run is not None]
        for _, run in native:
            run.check(self.memory)
        views = set[int]().union(*(self._used[numbers[position]] for own, _ in native for position in own))
        by_python = {numbers[group.calls[0]]: place for place, group in enumerate(groups) if group.run is None}
        self._straight[calls, together] = _Straight(bound_run, [run for _, run in native], views, by_python)
        return bound_run

    def _goes_on(self, call: int, addresses: ViewAddresses) -> bool:
        """True if a call's operations are known, and can be bound to `addresses`."""
        known = self._operations.get(call)
        return known is not None and all(each is None or each.bound_to(addresses) is not None for each in known)

    def _find_operations(self, calls: Iterable[int], bound: Mapping[int, Sequence[BoundCall]]) -> None:
        """Find the operations of calls outside of loops."""
        native = dict[int, list[BoundCall]]()
        for call in calls:
            self._operations[call] = [None for _ in bound[call]]
            if any(operations_of(each) for each in bound[call]):
                native[call] = []
        if not native:
            return
        stand_ins, made = self._linker.bind_stand_ins(native)
        found = on_views(map(operations_of, made.values()), stand_ins)
        self._operations |= {call: [operations] for call, operations in zip(made, found, strict=True)}

    def _is_moved(self, run: NativeRun, num_iterations: int, addresses: ViewAddresses) -> bool:
        """Move the run of a loop, unless it is there, and check it; returns False where moving is impossible."""
        if not run.is_at(num_iterations, addresses):
            if not run.move(num_iterations, addresses):
                return False
            run.check(self.memory)
        return True

    def loop(self, calls: range, iterations: range, steps: tuple[int, int], together: bool) -> Iterator[BoundRun]:
        """Yields what runs in a loop, as `Linker.bind_loop` does."""
        linker, whole = self._linker, self._loops.get(calls.start) if together else None
        addresses = linker.tensors.addresses
        if whole is not None and self._is_moved(whole.run, len(iterations), addresses):
            yield _as_bound_run(whole, iterations)
            return
        linker.used = set()
        with many_objects():
            stand_ins, bound = linker.bind_stand_ins(calls, steps)
            operations = list(on_views(map(operations_of, bound.values()), stand_ins))
        numbers = list(bound)
        groups = in_groups(
            *(list(bound.values()), operations, addresses, len(iterations)), together=together, weights=self._weights
        )
        for group in groups:
            if group.run is not None:
                group.run.check(self.memory)
        if together and len(groups) == 1 and groups[0].run is not None:
            whole = self._loops[calls.start] = _WholeLoop(numbers[0], groups[0].run, linker.used)
            yield _as_bound_run(whole, iterations)
            return
        by_python = [numbers[call] for group in groups if group.run is None for call in group.calls]
        firsts = [numbers[group.calls[0]] for group in groups]
        for some, _, each in linker.bind_loop(by_python, iterations, steps):
            others = iter(each)
            made = [
                next(others)
                if group.run is None
                else [partial(group.run, iteration, iteration + 1) for iteration in some]
                for group in groups
            ]
            yield some, firsts, made


def _as_bound_run(whole: _WholeLoop, iterations: range) -> BoundRun:
    return ONCE, [whole.first], [[partial(whole.run, iterations.start, iterations.stop)]]
