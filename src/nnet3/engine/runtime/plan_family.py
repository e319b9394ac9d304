"""PlanFamily: the plans of programs that differ in numbers alone.

The members of a program family are planned at once, with numbers that are affine in k; the plan of each follows by
arithmetic. Members with other calls are planned alone: the shortest, or all. Offsets of blocks in memory are found for
lengths from the row 2, 3, 4, 6, 8, 12, ..., mostly in one order of the blocks; up to the next of these blocks move
evenly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise, starmap
from typing import Any

import numpy as np
import torch

from nnet3.engine.driver.proving import proves_all
from nnet3.engine.driver.task import rounded_up
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import present
from nnet3.engine.runtime import at_first_use
from nnet3.engine.runtime.dtypes import dtype_name
from nnet3.engine.runtime.member_planner import MemberPlanner, digits
from nnet3.engine.runtime.packing import ALIGNMENT, stacked
from nnet3.engine.runtime.plan import PLAN_VERSION, Plan
from nnet3.engine.runtime.planning import plan, unplaced_plan_by
from nnet3.engine.runtime.ragged_plans import RaggedPlans

_FIRST = 0, 4, 12  # the first member of a common plan: later where plans of the shortest members are others
_MOST_PROVED = 1 << 26  # bytes of a plan; a proof takes some bytes for each
_SIZES, _ABOUT = 9, 1.01  # doublings of k for which an order is tried; how much more memory may be taken there
_MOST_CALLS = 1000  # of a plan that is proved because of the environment, in all iterations


class PlanFamily:
    """The plans in one dtype of programs that differ in numbers. Threads take turns."""

    def __init__(self, make: Callable[[NnetComputation, str], MemberPlans | RaggedPlans], dtype: str) -> None:
        self._make: Any = make  # None from the first program on
        self._dtype, self._lock, self._plans = dtype, threading.Lock(), None

    def plan(self, numbers: Any, program: NnetComputation) -> Plan | None:
        """Returns the plan of a program; None if it must be planned alone."""
        with self._lock, suppress(NotAffineError, OverflowError):
            if self._make is not None:
                make, self._make = self._make, None
                self._plans = make(program, self._dtype)
            return None if self._plans is None else self._plans.plan(numbers)
        return None


class MemberPlans:
    """The plans of a family's members as functions of k, from k = `first` on."""

    def __init__(self, program: NnetComputation, dtype: str, first: int = 0) -> None:
        """Raises NotAffineError."""
        self._first, member = first, present(program.member)
        planner = MemberPlanner(member, dtype, first)
        self._made = made = unplaced_plan_by(planner)
        plan = made.plan
        if any(digits(np.array(each.num_rows))[1] for each in plan.outside):
            raise NotAffineError("outside memory is larger in longer programs")
        counts = [plan.num_memos, *(port.num_rows for s in plan.segments for port in (*s.accepts, *s.provides))]
        numbers = plan.views, plan.loops, np.array(counts, np.int64), plan.call_args
        ends = accumulate((each.size for each in numbers), initial=0)
        self._parts = list(starmap(slice, pairwise(ends)))
        self._base, self._slope = digits(np.concatenate([each.ravel() for each in numbers]))
        self._fixed_args = None if self._slope[self._parts[3]].any() else self._base[self._parts[3]].astype(np.int32)
        self._entries, used = member.entries, dict.fromkeys(table for table, _ in planner.selections)
        self._indexes = planner.selections, list(used), planner.tables("index_tables", used)
        #: By the largest k: the least k, offsets of blocks there, and their changes up to the largest.
        self._offsets: dict[int, tuple[int, np.ndarray, np.ndarray]] = {}

    @classmethod
    def of(cls, program: NnetComputation, dtype: str) -> MemberPlans:
        """Returns the plans of all members or, where these are too short, of longer ones. Raises NotAffineError."""
        for first in _FIRST[:-1]:
            with suppress(NotAffineError):  # few rows may be more regular than many
                return cls(program, dtype, first)
        return cls(program, dtype, _FIRST[-1])

    def plan(self, k: int) -> Plan:
        """Returns the plan of member k. Raises NotAffineError for a member before the first."""
        if k < self._first:
            raise NotAffineError("a short program has other calls")
        made, plan, numbers = self._made, self._made.plan, self._base + (k - self._first) * self._slope
        views, loops, counts, args = (numbers[part] for part in self._parts)
        num_memos, *rows = counts.tolist()
        selections, used, tables = self._indexes
        rows_of = {table: found.values[:, 0] for table, found in zip(used, tables.at(k), strict=True)}
        offsets = self._offsets_at(k - self._first)
        return plan.changed(
            **made.places(views.reshape(plan.views.shape), offsets[:-1], int(offsets[-1])),
            loops=loops.reshape(plan.loops.shape),
            call_args=args.astype(np.int32) if self._fixed_args is None else self._fixed_args,
            num_memos=num_memos,
            segments=plan.segments_with_rows(iter(rows)),
            indexes=tuple([selection(rows_of[table]).astype(np.int64) for table, selection in selections]),
            precomputed=tuple(self._entries(k)),
        )

    def _offsets_at(self, k: int) -> np.ndarray:
        """Returns the offsets of all blocks, and the size of all.

        Both are found for two k, with room for rounding: blocks that do not overlap there do not overlap between.
        """
        size = rounded_up(k)
        if size not in self._offsets:
            self._find_offsets(size)
        few, offsets, change = self._offsets[size]
        return np.asarray((offsets + (k - few) * change // (size - few)) // ALIGNMENT * ALIGNMENT)

    def _find_offsets(self, size: int) -> None:
        """Find an order of blocks at `size`, and offsets wherever blocks fill memory about as well in this order."""
        base, slope = (each[:, None] for each in digits(self._made.blocks[:, 3]))
        ks = np.array([0, 2, *(count << n for n in range(max(size.bit_length(), _SIZES)) for count in (3, 4))])
        sizes = (base + slope * ks) * self._made.blocks[:, 4:5] + ALIGNMENT
        own, blocks = int(np.searchsorted(ks, size)), self._made.blocks.copy()
        blocks[:, 3], blocks[:, 4] = sizes[:, own], 1
        longer = replace(self._made, blocks=blocks)
        meet, first = longer.meet(), blocks[:, 1]
        offsets = stacked(longer.packed()[0], meet, sizes)
        alive = ((meet & (first <= first[:, None])) @ sizes).max(axis=0, initial=1)  # with each block, when it begins
        is_good = offsets[-1] * alive[own] <= _ABOUT * offsets[-1, own] * alive
        for end, many in enumerate(ks.tolist()[1:], 1):
            few = 2 * (many // 4)
            begin = int(np.searchsorted(ks, few))
            if end == own or (is_good[begin] and is_good[end]):
                self._offsets.setdefault(many, (few, offsets[:, begin], offsets[:, end] - offsets[:, begin]))


def plan_of(computation: NnetComputation, dtype: str | torch.dtype, *, prove: bool = False) -> Plan:
    """Returns the plan kept with a computation, or makes a plan, and keeps it if the computation keeps anything.

    The plan of a family's member mostly follows from plans of other members, and the plan of a program from plans of
    programs with equal commands. A kept plan of another version is made anew. With `prove`, of the argument or of the
    program, a ProofError says where a new plan computes something else than the program; plans of more than 64 MiB are
    not looked at, nor plans with opcodes added without a meaning. NNET3_PROVE=all does the same for plans of up
    to 1,000 calls, and NNET3_PROVE=some for one in eight of these plans.
    """
    kept, name = computation.attachments, f"plan {dtype_name(dtype)}"
    made = _by_arithmetic(computation, name, dtype_name(dtype))
    if made is None and kept is not None and name in kept and kept[name][0].get("version") == PLAN_VERSION:
        return Plan.from_data(*kept[name])
    is_alone, made = made is None, made or plan(computation, dtype)
    prove = prove or computation.prove or (proves_all(mark=lambda: made.mark) and made.num_runs() <= _MOST_CALLS)
    if prove and made.num_bytes <= _MOST_PROVED and at_first_use.MEANINGS.keys() >= set(made.opcodes):
        at_first_use.prove_plan(computation, made)
    if is_alone and kept is not None:
        kept[name] = made.to_data()
    return made


def _by_arithmetic(computation: NnetComputation, name: str, dtype: str) -> Plan | None:
    """Returns the plan computed from plans of further programs; None without such plans."""
    kept, rows, member = computation.attachments, computation.row_numbers, computation.member
    if kept is not None and name in kept:
        return None
    if rows is not None:
        if name not in rows.kept:  # the first is planned alone: most forms come once
            rows.kept[name] = PlanFamily(RaggedPlans, dtype)
            return None
        of_rows: PlanFamily = rows.kept[name]
        return of_rows.plan(rows, computation)
    if kept is not None and member is not None:
        of_members: PlanFamily = member.kept.setdefault(name, PlanFamily(MemberPlans.of, dtype))
        return of_members.plan(member.k, computation)
    return None
