"""PlanFamily: the plans of a family's programs. Like the programs, they differ in numbers that are affine in k.

The two shortest programs are planned, and all other plans are had by arithmetic. Nothing else need be tried: the
planner joins rows to blocks where numbers are equal, and affine numbers that are equal for two k are equal for all. If
the two plans have other calls, each program is planned alone. What lies on what in memory is found for lengths from the
row 2, 3, 4, 6, 8, 12, ..., and taken over for those below.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import torch

from nnet3.driver.proving import proves_all
from nnet3.driver.task import rounded_up
from nnet3.families.continued import NotAffineError, NumberTable, continued, table_of
from nnet3.ir.computation import FamilyMember, NnetComputation
from nnet3.runtime.lanes import lane_of
from nnet3.runtime.outline import Outline
from nnet3.runtime.packing import Stacking
from nnet3.runtime.plan import PLAN_VERSION, Plan
from nnet3.runtime.planner import outline, plan
from nnet3.runtime.proof import MEANINGS, prove_plan
from nnet3.runtime.row_plans import RowPlans

_MOST_PROVED = 1 << 26  # bytes of a plan; a proof takes some bytes for each
_MOST_CALLS = 1000  # of a plan that is proved because of the environment, in all turns


class PlanFamily:
    """The plans of a family's members in one dtype, as functions of k. Threads take turns."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._lock = dtype, threading.Lock()
        self._first_k: int | None = None  # of the first program, which is planned alone
        self._outlines: _OutlineFamily | None = None
        self._refused = False  # their calls differ
        self._stackings: dict[int, Stacking] = {}

    def plan(self, member: FamilyMember) -> Plan | None:
        """Returns the plan of a member; None if it must be planned alone."""
        with self._lock, suppress(NotAffineError):
            if self._outlines is None:
                if self._refused or self._first_k in (None, member.k):
                    self._first_k = member.k
                    return None
                self._refused = True  # unless what follows succeeds
                self._outlines = _OutlineFamily(*(outline(member.at(k), self._dtype) for k in (0, 1)))
            made, size = self._outlines.at(member.k), rounded_up(member.k)
            if size not in self._stackings:
                longer = self._outlines.at(size)
                self._stackings[size] = Stacking(longer.packed()[0], longer.meet())
            return made.placed(*self._stackings[size].packed(made.num_bytes))
        return None


class _OutlineFamily:
    """Outlines as functions of k."""

    def __init__(self, *members: Outline) -> None:
        """`members`: those for k = 0 and k = 1. Raises NotAffineError."""
        self._first = members[0]
        arrays, longer = (_arrays(member.plan) for member in members)
        if len(arrays) != len(longer):
            raise NotAffineError("plans have other tables")
        self._arrays = arrays
        self._grows = [one.shape != other.shape for one, other in zip(arrays, longer, strict=True)]
        if self._constants_of(members[0]) != self._constants_of(members[1]):
            raise NotAffineError("plans have other calls")
        self._base, after = (self._numbers_of(member) for member in members)
        self._slope = after - self._base
        self._tables = continued([self._tables_of(member) for member in members])
        plan = members[0].plan
        counts = [plan.views.size, plan.loops.size, len(members[0].blocks), len(_row_counts(plan))]
        fixed = [number for number, grows in enumerate(self._grows) if not grows]
        counts += [arrays[number].size for number in fixed]
        parts = [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]
        self._parts = parts[:4]
        #: Of each array that moves, its part of the numbers, one of them if it has no axes.
        self._moving = [
            (number, part if arrays[number].ndim else part.start, arrays[number].shape)
            for number, part in zip(fixed, parts[4:], strict=True)
            if self._slope[part].any()
        ]
        self._of_other_types = [number for number, *_ in self._moving if arrays[number].dtype != np.int64]
        changing, number = (
            {*np.flatnonzero(self._grows).tolist(), *(each for each, *_ in self._moving)},
            len(plan.indexes),
        )
        #: Of each precomputed entry, its arrays by name; None if they are the same in all plans.
        self._entries: list[dict[str, int] | None] = []
        for each in plan.precomputed:
            named = {name: number + place for place, name in enumerate(each or ())}
            self._entries.append(named if changing.intersection(named.values()) else None)
            number += len(named)

    def at(self, k: int) -> Outline:
        first, plan = self._first, self._first.plan
        numbers = self._base + k * self._slope
        views, loops, elements, counts = (numbers[part] for part in self._parts)
        num_memos, *rows = counts.tolist()
        blocks, arrays = first.blocks.copy(), self._arrays.copy()
        blocks[:, 3] = elements
        for number, part, shape in self._moving:
            arrays[number] = numbers[part].reshape(shape) if len(shape) > 1 else numbers[part]
        for number in self._of_other_types:
            arrays[number] = arrays[number].astype(self._arrays[number].dtype)
        growing = [number for number, grows in enumerate(self._grows) if grows]
        for number, table in zip(growing, self._tables.at(k), strict=True):
            arrays[number] = table.values.astype(arrays[number].dtype).reshape(-1, *arrays[number].shape[1:])
        result = plan.changed(
            views=views.reshape(plan.views.shape),
            loops=loops.reshape(plan.loops.shape),
            num_memos=num_memos,
            outside=tuple([replace(each, num_rows=num) for each, num in zip(plan.outside, rows, strict=False)]),
            segments=plan.segments_with_rows(iter(rows[len(plan.outside) :])),
            indexes=tuple(arrays[: len(plan.indexes)]),
            precomputed=tuple(
                [
                    each if named is None else {name: arrays[number] for name, number in named.items()}
                    for each, named in zip(plan.precomputed, self._entries, strict=True)
                ]
            ),
        )
        return Outline(result, blocks, first.block_of_view)

    def _numbers_of(self, member: Outline) -> np.ndarray:
        """Returns all numbers but those in tables that grow."""
        plan = member.plan
        fixed = [array for array, grows in zip(_arrays(plan), self._grows, strict=True) if not grows]
        parts = [plan.views, plan.loops, member.blocks[:, 3], np.array(_row_counts(plan)), *fixed]
        return np.concatenate([part.reshape(-1).astype(np.int64) for part in parts])

    def _tables_of(self, member: Outline) -> list[NumberTable]:
        return [table_of(array) for array, grows in zip(_arrays(member.plan), self._grows, strict=True) if grows]

    def _constants_of(self, member: Outline) -> Any:
        """Returns all of an outline but its numbers."""
        plan = member.plan
        arrays = _arrays(plan)
        if len(arrays) != len(self._grows) or any((array != array.astype(np.int64)).any() for array in arrays):
            raise NotAffineError("plans have other tables")
        calls = (plan.call_kind, plan.call_start, plan.call_args, plan.call_number, plan.call_command)
        memory = member.blocks[:, [0, 1, 2, 4, 5]], member.block_of_view, plan.places
        return (
            *(plan.dtype, plan.lanes, plan.kinds, plan.texts, plan.kernels, plan.need_model_derivative),
            *(array.tobytes() for array in (*calls, *memory)),
            *(plan.views.shape, plan.loops.shape, len(plan.indexes), len(plan.uneven)),
            [replace(each, num_rows=0) for each in plan.outside],
            plan.segments_with_rows(repeat(0)),
            [each and list(each) for each in plan.precomputed],
            [(array.dtype, array.shape[grows:]) for array, grows in zip(arrays, self._grows, strict=True)],
        )


def _arrays(plan: Plan) -> list[np.ndarray]:
    """Returns the tables of row numbers, and what kernels have derived from indexes."""
    return [*plan.indexes, *(np.asarray(array) for each in plan.precomputed for array in (each or {}).values())]


def _row_counts(plan: Plan) -> list[int]:
    """Returns the number of memos, and the rows of outside memory and of all that is accepted and provided."""
    ports = (port for segment in plan.segments for port in (*segment.accepts, *segment.provides))
    return [plan.num_memos, *(each.num_rows for each in plan.outside), *(port.num_rows for port in ports)]


def plan_of(computation: NnetComputation, dtype: str | torch.dtype, *, prove: bool = False) -> Plan:
    """Returns the plan that is kept with a computation, or makes one, which is kept if the computation keeps anything.

    That of a family's member is mostly had from the plans of others, and so is that of a program with the commands of
    others. A kept plan of another version is made anew. With `prove`, of the argument or of the program, a ProofError
    says where a plan that was not kept computes something else than the program; plans of more than 64 MiB are not
    looked at, nor those with kinds of calls that somebody has added without a meaning. NNET3_PROVE=all does the same
    for plans of up to 1,000 calls.
    """
    kept, name = computation.attachments, f"plan {lane_of(dtype)}"
    made = _by_arithmetic(computation, name, lane_of(dtype))
    if made is None and kept is not None and name in kept and kept[name][0].get("version") == PLAN_VERSION:
        return Plan.from_data(*kept[name])
    is_alone, made = made is None, made or plan(computation, dtype)
    prove = prove or computation.prove or (proves_all() and made.num_runs() <= _MOST_CALLS)
    if prove and made.num_bytes <= _MOST_PROVED and MEANINGS.keys() >= set(made.kinds):
        prove_plan(computation, made)
    if is_alone and kept is not None:
        kept[name] = made.to_data()
    return made


def _by_arithmetic(computation: NnetComputation, name: str, dtype: str) -> Plan | None:
    """Returns the plan that is had from those of other programs; None if there is none."""
    kept, made = computation.attachments, None
    if computation.row_numbers is not None:
        made = computation.row_numbers.kept.setdefault(name, RowPlans(dtype)).plan(computation)
    if made is None and kept is not None and name not in kept and computation.member is not None:
        made = computation.member.kept.setdefault(name, PlanFamily(dtype)).plan(computation.member)
    return made
