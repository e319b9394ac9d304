"""Linking: the calls of a plan are bound to memory and kernels, and then run without arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, repeat

import numpy as np
from torch import Tensor

from nnet3.engine.driver.proving import proves_all
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.runtime import at_first_use
from nnet3.engine.runtime.calls import CALLS, REPLAYABLE
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.linker import ONCE, BoundCall, BoundRun, Linker, RunState
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.native_bound_runs import NativeBoundRuns
from nnet3.engine.runtime.plan import Plan, SegmentPlan
from nnet3.engine.runtime.replay import CudaGraphs, Replay

_MOST_KEPT = 20_000  # calls of loops


class LinkedComputation:
    """A plan bound to memory and kernels. Calls outside of loops are bound once.

    Those of loops are bound while the loop runs for the first time, and forgotten; from the second time on they are
    kept, unless they are very many: most programs for ever new lengths run once.
    """

    def __init__(self, linker: Linker, storage: Tensor, *, prove: bool = False) -> None:
        self.kernels, self.outside, self._prove = linker.kernels, linker.outside, prove
        self.storage, self.linker = storage, linker
        self._used_tables: dict[int, set[tuple[int, int]]] = {}  # of each call outside of loops that uses some
        self._used: dict[int, set[int]] = {}  # the views of each call outside of loops
        self._native = NativeBoundRuns(linker, self._used)
        self._begin(linker.plan)
        in_loops = {call for calls, _, _ in self._loops.values() for call in calls}
        self._bound: dict[int, list[BoundCall]] = {}
        for call in range(self.plan.num_calls):
            if call not in in_loops:
                self._bind(call)

    def _begin(self, plan: Plan) -> None:
        self.plan = plan
        self._loops = {
            first: (range(first, end), range(iterations), (memo_step, precomputed_step))
            for first, end, iterations, memo_step, precomputed_step in plan.loops.tolist()
        }
        self._kept: dict[int, list[BoundCall]] = {}
        self._have_run: set[int] = set()
        is_proved = self._prove or proves_all(mark=lambda: plan.mark)
        self._proof = at_first_use.LinkProof(self.linker) if is_proved else None
        self._replay = Replay(self, CudaGraphs(self.storage.device)) if self.storage.is_cuda else None

    def _bind(self, call: int) -> None:
        """Binds a call outside of loops."""
        self.linker.used_tables, self.linker.used = set(), set()
        bound = self.linker.bind(call)
        if self.linker.used_tables:
            self._used_tables[call] = self.linker.used_tables
        if bound is not None:
            self._bound[call], self._used[call] = list(bound), self.linker.used

    def move(self, plan: Plan, constants: Constants) -> bool:
        """Become the link of a new plan that needs no more memory; returns False if the plan has unequal calls.

        Calls on tables that are new, and calls with changed arguments are bound anew.
        """
        before, kept, known = self.plan, self._kept, self.linker.constants
        if not plan.has_calls_of(before) or not self.linker.move(plan, constants):
            return False
        self._begin(plan)
        self.linker.memos[:] = [None] * plan.num_memos
        same = {key for key, table in known.loaded.items() if constants.loaded.get(key, known) is table}
        anew = {call for call, tables in self._used_tables.items() if not tables <= same}
        if plan.call_args is not before.call_args:
            changed = np.flatnonzero(plan.call_args != before.call_args)
            moved = np.searchsorted(plan.call_start, changed, side="right") - 1
            anew |= self._bound.keys() & set(moved.tolist())
        for call in anew:
            self._bind(call)
        self._native.move(plan, anew, self._bound)
        if not (anew or self._loops or self._native or self._prove):
            self._kept = kept  # all is bound to what it was bound to
        return True

    def view(self, computation: NnetComputation, submatrix: int, command: int, iteration: int = 0) -> Tensor:
        """Returns a sub-matrix of the computation as it lies at a command, in an iteration of its loop, (rows,
        columns)."""
        block = computation.block_at(submatrix, iteration)
        matrix = computation.matrices[block.matrix]
        bound = computation.outside_by_matrix().get(block.matrix)
        if bound is not None:
            whole = self.outside[bound.name]
        else:
            dtype = DTYPES[self.plan.dtype]
            begin, shape = self.plan.byte_offset(block.matrix, command), (matrix.num_rows, matrix.num_cols)
            whole = self.storage[begin : begin + shape[0] * shape[1] * dtype.itemsize].view(dtype).view(shape)
        rows = whole[block.row_offset : block.row_offset + block.num_rows]
        return rows[:, block.col_offset : block.col_offset + block.num_cols]

    def run_segment(self, number: int) -> None:
        """Make all calls of a segment."""
        if self._replay is not None:
            self._replay.run(number)
            return
        self._native.begin_segment()
        for call in self.calls_of_segment(number):
            call()

    def calls_of_segment(self, number: int) -> Iterable[BoundCall]:
        """Returns what runs in a segment, in order."""
        if self._native.forget_old_addresses():
            self._kept.clear()
        if number in self._kept:
            return self._kept[number]
        segment = self.plan.segments[number]
        calls = chain.from_iterable(self._runs(segment))
        has_loops = any(segment.first_call <= first < segment.end_call for first in self._loops)
        if has_loops and number not in self._have_run:
            self._have_run.add(number)
            return calls
        if self.num_runs() > _MOST_KEPT:
            return calls
        with many_objects():
            self._kept[number] = list(calls)
        return self._kept[number]

    def calls_one_by_one(self, segment: SegmentPlan) -> Iterator[tuple[int, int, BoundCall]]:
        """Yields the calls of a segment in order: command, iteration, what runs."""
        owners = self.plan.call_command.tolist()
        self._native.begin_segment()
        return ((owners[call], iteration, run) for call, iteration, run in self._one_by_one(segment))

    def stretches(self, number: int) -> Iterator[tuple[bool, Iterator[BoundCall]]]:
        """Yields the calls of a segment in order, in stretches whose calls are all `REPLAYABLE`, or none is."""
        again = [name in REPLAYABLE for name in self.plan.opcodes]
        is_again = [again[opcode] for opcode in self.plan.call_opcode.tolist()]
        for which, calls in groupby(self._one_by_one(self.plan.segments[number]), lambda each: is_again[each[0]]):
            yield which, (run for _, _, run in calls)

    def num_runs(self) -> int:
        """Returns how many calls all iterations of all loops make."""
        return sum(len(calls) * len(iterations) for calls, iterations, _ in self._loops.values())

    def _one_by_one(self, segment: SegmentPlan) -> Iterator[tuple[int, int, BoundCall]]:
        """Yields the calls of a segment in order: number, iteration, what runs."""
        for iterations, calls, each in self._bound_runs(segment, together=False):
            for iteration, in_iteration in zip(iterations, zip(*each, strict=True), strict=bool(each)):
                yield from zip(calls, repeat(iteration), in_iteration, strict=False)

    def _runs(self, segment: SegmentPlan) -> Iterator[Iterable[BoundCall]]:
        """Yields what runs, in order, some calls at a time."""
        for _, _, each in self._bound_runs(segment, together=True):
            yield chain.from_iterable(zip(*each, strict=True))

    def _bound_runs(self, segment: SegmentPlan, *, together: bool) -> Iterator[BoundRun]:
        """Yields calls outside of loops, and those of loops; `together`: native code makes several at once."""
        call = segment.first_call
        while call < segment.end_call:
            if call in self._loops:
                calls, iterations, steps = self._loops[call]
                bound_runs = self._loop(calls, iterations, steps, together)
            else:
                end = min([first for first in self._loops if first > call], default=segment.end_call)
                calls, iterations, steps = range(call, min(end, segment.end_call)), ONCE, (0, 0)
                bound_runs = iter([self._straight(calls, together)])
            yield from bound_runs if self._proof is None else self._proof.proved(bound_runs, calls, iterations, steps)
            call = calls.stop

    def _straight(self, calls: range, together: bool) -> BoundRun:
        """Returns calls that run once."""
        if self._native:
            return self._native.straight(calls, self._bound, together)
        runs = [(call, run) for call in calls for run in self._bound.get(call, ())]
        return ONCE, [call for call, _ in runs], [[run] for _, run in runs]

    def _loop(self, calls: range, iterations: range, steps: tuple[int, int], together: bool) -> Iterator[BoundRun]:
        if self._native:
            return self._native.loop(calls, iterations, steps, together)
        return self.linker.bind_loop(calls, iterations, steps)


def link(
    plan: Plan,
    kernels: Kernels,
    arena: Arena,
    state: RunState | None = None,
    constants: Constants | None = None,
    *,
    outside: Mapping[str, Tensor] | None = None,
    fill_undefined: bool = False,
    prove: bool = False,
) -> LinkedComputation:
    """Bind every call of a plan once.

    Kernels are looked up by name now; changes of their parameters in place need no new link. Arguments must have
    been checked (`Kernels.check`, `check_outside`). With `fill_undefined` matrices with an undefined beginning are
    filled with NaN, to make reads of undefined values visible. With `prove` a ProofError names, before the call runs,
    a bound call that would not do the work of its call. Raises ExecutionError for an unknown opcode.
    """
    state, constants = state or RunState(), constants or Constants(arena.storage.device)
    state.memos[:] = [None] * plan.num_memos
    with many_objects():
        linker = Linker(plan, kernels, arena, state, constants, outside or {}, CALLS, fill_undefined)
        return LinkedComputation(linker, arena.storage, prove=prove)
