"""NativeParts: which calls of a link native code makes, kept as long as they lie as they did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from torch import Tensor

from nnet3.ir.objects import many_objects
from nnet3.native.operations import Operations
from nnet3.native.ranges import ReachableMemory
from nnet3.runtime.calls import BoundCall
from nnet3.runtime.loop_turns import LoopTurns, Sample
from nnet3.runtime.native_runs import (
    NativeRun,
    constant_memory,
    in_groups,
    in_straight_groups,
    native_kernels,
    operations_of,
)
from nnet3.runtime.plan import Plan
from nnet3.runtime.replay import is_same_state, state_of

if TYPE_CHECKING:
    from nnet3.runtime.link import Linker, Part

ONCE = range(1)


class _StraightRun:
    """Operations outside of loops. `views`: those that each of them works on."""

    def __init__(self, run: NativeRun, views: Sequence[set[int]]) -> None:
        self._run, self.used = run, set().union(*views)
        self._numbers = sorted(self.used)
        self._is_used = np.array([[view in own for view in self._numbers] for own in views])[:, None]

    def check(self, memory: ReachableMemory) -> None:
        self._run.check(memory)

    def move(self, stretches: np.ndarray, moves: np.ndarray) -> bool:
        """Moves addresses as the views in which they lie have moved; returns False, without, if that is not clear.

        `stretches` (views, 2): where the memory of views began and ended; `moves` (views,): how far they have moved.
        """
        (begin, end), moved = stretches[self._numbers].T, moves[self._numbers]
        addresses = self._run.addresses
        inside = self._is_used & (begin <= addresses[..., None]) & (addresses[..., None] < end)
        limits = np.iinfo(np.int64)  # (operations, matrices, views)
        most, least = np.where(inside, moved, limits.min).max(axis=2), np.where(inside, moved, limits.max).min(axis=2)
        if (most > least).any():
            return False
        addresses += np.where(most == least, most, 0)
        return True


class _Straight(NamedTuple):
    """Calls outside of loops, and what native code makes of some."""

    part: Part
    runs: list[_StraightRun]


class _WholeLoop(NamedTuple):
    """A loop that native code runs as a whole: its first call, how its operations move, the views they work on."""

    first: int
    run: NativeRun
    turns: LoopTurns
    views: set[int]


class NativeParts:
    """The calls of a link that native code makes; false if it makes none.

    If the link becomes that of another plan, what works on views that stay is kept. Operations outside of loops whose
    views only begin elsewhere move with them, and loops get the rows of the other plan's turns.
    """

    def __init__(self, linker: Linker, used: Mapping[int, set[int]]) -> None:
        """`used`: the views that each call outside of loops works on."""
        self._linker, self._used, self.plan = linker, used, linker.plan
        self._kernels = native_kernels(linker.plan, linker.kernels) if linker.tensors.are_on_cpu else []
        self._with_state = [kernel for kernel in self._kernels if kernel.replay_state() != []]
        self._constant = constant_memory(linker.plan, linker.outside) if self._kernels else []
        self._state: list[object] | None = None
        self._memory: ReachableMemory | None = None
        self._operations: dict[int, list[Operations | None]] = {}  # by call
        self._straight: dict[tuple[range, bool], _Straight] = {}
        self._loops: dict[int, _WholeLoop] = {}  # by first call

    def __bool__(self) -> bool:
        return bool(self._kernels)

    def forget_old_addresses(self) -> bool:
        """Forgets everything and returns True if native code would read parameters where they were."""
        if not self._with_state:
            return False
        state = state_of(self._with_state)
        if state is not None and is_same_state(self._state, state):
            return False
        self.forget()
        self._state = state
        return True

    @property
    def memory(self) -> ReachableMemory:
        """The memory that native code may use: that of the program, outside memory, parameters of kernels."""
        if self._memory is None:
            linker = self._linker
            bound = {each.name: linker.outside[each.name] for each in self.plan.outside}
            written = [bound[each.name] for each in self.plan.outside if each.writable]
            parameters = [
                each for kernel in self._with_state for each in kernel.replay_state() or () if isinstance(each, Tensor)
            ]
            self._memory = ReachableMemory([linker.arena.storage, *written], [*bound.values(), *parameters])
        return self._memory

    def forget(self) -> None:
        """Forgets what was made of calls."""
        self._memory = None
        self._operations.clear()
        self._straight.clear()
        self._loops.clear()

    def move(self, plan: Plan) -> None:
        """Becomes that of another plan, for which the linker's views have moved already."""
        before, after, self.plan = self.plan.views, plan.views, plan
        if not self:
            return
        differs = before != after
        moved = set(np.flatnonzero(differs.any(axis=1)).tolist())
        reshaped = set(np.flatnonzero(differs[:, [0, *range(2, differs.shape[1])]].any(axis=1)).tolist())
        stretches, to = (self._linker.tensors.stretches(views) for views in (before, after))
        moves = to[:, 0] - stretches[:, 0]
        self._operations = {call: known for call, known in self._operations.items() if not moved & self._used[call]}
        for key, straight in list(self._straight.items()):
            moving = [run for run in straight.runs if not moved.isdisjoint(run.used)]
            if any(run.used & reshaped for run in moving) or not all(run.move(stretches, moves) for run in moving):
                del self._straight[key]
                continue
            for run in moving:
                run.check(self.memory)
        self._loops = {first: loop for first, loop in self._loops.items() if not moved & loop.views}

    def straight(self, calls: range, bound: Mapping[int, Sequence[BoundCall]], together: bool) -> Part:
        """Returns calls that run once."""
        known = self._straight.get((calls, together))
        if known is not None:
            return known.part
        numbers = [call for call in calls for _ in bound.get(call, ())]
        runs = [run for call in calls for run in bound.get(call, ())]
        found = [each for call in calls if call in bound for each in self._operations_of(call, bound[call])]
        groups = in_straight_groups(runs, found, together=together)
        made = [runs[group.calls[0]] if group.run is None else partial(group.run, 0, 1) for group in groups]
        part: Part = ONCE, [numbers[group.calls[0]] for group in groups], [[run] for run in made]
        views = [[self._used[number]] * len(each or ()) for number, each in zip(numbers, found, strict=True)]
        native = [
            _StraightRun(group.run, [*chain.from_iterable(views[call] for call in group.calls)])
            for group in groups
            if group.run is not None
        ]
        for run in native:
            run.check(self.memory)
        self._straight[calls, together] = _Straight(part, native)
        return part

    def _operations_of(self, call: int, bound: Iterable[BoundCall]) -> list[Operations | None]:
        known = self._operations.get(call)
        if known is None:
            known = self._operations[call] = list(map(operations_of, bound))
        return known

    def loop(self, calls: range, turns: range, steps: tuple[int, int], together: bool) -> Iterator[Part]:
        """Yields what runs in a loop, as `Linker.bind_loop` does."""
        whole = self._loops.get(calls.start) if together else None
        if whole is not None and whole.turns.go_on(len(turns), self.plan.uneven):
            whole.run.move(len(turns), whole.turns.tables)
            whole.run.check(self.memory)
            yield _as_part(whole, turns)
            return
        linker, samples = self._linker, list[dict[int, BoundCall]]()
        linker.used = set()

        def operations_in(sample: Sample) -> list[Operations | None]:
            samples.append(linker.bind_sample(calls, sample, steps))
            return [operations_of(call) for call in samples[-1].values()]

        of_turns = LoopTurns(len(turns), self.plan.uneven, self.plan.key_of_calls(calls))
        with many_objects():
            moving = of_turns.learn(operations_in, lambda: linker.tensors.kinds_in_use)
        numbers = list(samples[0])
        groups = in_groups(list(samples[0].values()), moving, of_turns, self._constant, together=together)
        for group in groups:
            if group.run is not None:
                group.run.check(self.memory)
        if together and len(groups) == 1 and groups[0].run is not None:
            whole = self._loops[calls.start] = _WholeLoop(numbers[0], groups[0].run, of_turns, linker.used)
            yield _as_part(whole, turns)
            return
        by_python = [numbers[call] for group in groups if group.run is None for call in group.calls]
        firsts = [numbers[group.calls[0]] for group in groups]
        for some, _, each in linker.bind_loop(by_python, turns, steps):
            others = iter(each)
            made = [
                next(others) if group.run is None else [partial(group.run, turn, turn + 1) for turn in some]
                for group in groups
            ]
            yield some, firsts, made


def _as_part(whole: _WholeLoop, turns: range) -> Part:
    return ONCE, [whole.first], [[partial(whole.run, turns.start, turns.stop)]]
