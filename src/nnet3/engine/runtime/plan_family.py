"""PlanFamily: the plans of a family's programs. Like the programs, plans differ in numbers that are affine in k.

The two shortest programs are planned, and all further plans follow by arithmetic. Nothing else need be tried: the
planner joins rows to blocks where numbers are equal, and affine numbers that are equal for two k are equal for all. If
the two plans have different calls, each program is planned alone. The order of blocks in memory is found for lengths
from the row 2, 3, 4, 6, 8, 12, ..., and taken over for shorter lengths.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import torch

from nnet3.engine.driver.proving import proves_all
from nnet3.engine.driver.task import rounded_up
from nnet3.engine.families.continued import NotAffineError, continued, table_of
from nnet3.engine.ir.computation import FamilyMember, NnetComputation
from nnet3.engine.runtime.dtypes import dtype_name
from nnet3.engine.runtime.packing import ALIGNMENT, Stacking
from nnet3.engine.runtime.plan import PLAN_VERSION, OutsidePlan, Plan
from nnet3.engine.runtime.planning import plan, unplaced_plan
from nnet3.engine.runtime.proof import MEANINGS, prove_plan
from nnet3.engine.runtime.ragged_plans import RaggedPlans
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan

_MOST_PROVED = 1 << 26  # bytes of a plan; a proof takes some bytes for each
_MOST_CALLS = 1000  # of a plan that is proved because of the environment, in all iterations


class PlanFamily:
    """The plans of a family's members in one dtype, as functions of k. Threads take turns."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._lock = dtype, threading.Lock()
        self._first_k: int | None = None  # of the first program, which is planned alone
        self._unplaced_plans: _UnplacedPlanFamily | None = None
        self._refused = False  # their calls differ
        self._stacks: dict[int, _Stack] = {}

    def plan(self, member: FamilyMember) -> Plan | None:
        """Returns the plan of a member; None if it must be planned alone."""
        with self._lock, suppress(NotAffineError):
            if self._unplaced_plans is None:
                if self._refused or self._first_k in (None, member.k):
                    self._first_k = member.k
                    return None
                self._refused = True  # unless what follows succeeds
                self._unplaced_plans = _UnplacedPlanFamily(*(unplaced_plan(member.at(k), self._dtype) for k in (0, 1)))
            size = rounded_up(member.k)
            if size not in self._stacks:
                self._stacks[size] = _Stack(self._unplaced_plans, size)
            made = self._unplaced_plans.at(member.k, precomputed=tuple(member.entries(member.k)))
            return made.placed(*self._stacks[size].at(member.k))
        return None


class _Stack:
    """The offsets of blocks in memory for every k rounded up to one size.

    The order of stacked blocks is found for this size. Offsets for the size and for the smallest k are computed;
    offsets between are on a straight line, as sizes of blocks are, so stacked blocks stay stacked. A cell more for
    each block makes up for offsets rounded down to whole cells.
    """

    def __init__(self, unplaced_plans: _UnplacedPlanFamily, size: int) -> None:
        first = next(k for k in range(size + 1) if rounded_up(k) == size)
        longer = unplaced_plans.at(size)
        stacking = Stacking(longer.packed()[0], longer.meet())
        sizes = [unplaced_plans.at(k).num_bytes for k in (first, size)]
        ends = [np.append(*stacking.packed(each + ALIGNMENT * (each > 0))) // ALIGNMENT for each in sizes]
        self._first, self._steps = first, max(size - first, 1)
        self._offsets, self._more = ends[0], ends[1] - ends[0]

    def at(self, k: int) -> tuple[np.ndarray, int]:
        """Returns the byte offsets of the blocks, multiples of ALIGNMENT, and the total size."""
        offsets = (self._offsets + self._more * (k - self._first) // self._steps) * ALIGNMENT
        return offsets[:-1], int(offsets[-1])


class _UnplacedPlanFamily:
    """Unplaced plans as functions of k."""

    def __init__(self, *members: UnplacedPlan) -> None:
        """`members`: those for k = 0 and k = 1. Raises NotAffineError."""
        self._first, plan = members[0], members[0].plan
        if _constants_of(members[0]) != _constants_of(members[1]):
            raise NotAffineError("plans have other calls")
        counts = [plan.views.size, plan.loops.size, len(plan.call_args), len(members[0].blocks), len(_row_counts(plan))]
        self._slices = [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]
        self._base, after = map(_numbers_of, members)
        self._slope = after - self._base
        _, _, args, _, rows = (self._slope[each] for each in self._slices)
        self._has_its_args, self._has_its_outside = not args.any(), not rows[1 : 1 + len(plan.outside)].any()
        self._indexes = continued([list(map(table_of, member.plan.indexes)) for member in members])

    def at(self, k: int, **fields: Any) -> UnplacedPlan:
        """Returns the plan for k, with further fields. What is the same for all k is one object."""
        first, plan = self._first, self._first.plan
        numbers = self._base + k * self._slope
        views, loops, args, elements, counts = (numbers[each] for each in self._slices)
        num_memos, *rows = counts.tolist()
        blocks = first.blocks.copy()
        blocks[:, 3] = elements
        result = plan.changed(
            views=views.reshape(plan.views.shape),
            loops=loops.reshape(plan.loops.shape),
            call_args=plan.call_args if self._has_its_args else args.astype(plan.call_args.dtype),
            num_memos=num_memos,
            outside=plan.outside if self._has_its_outside else _outside_with_rows(plan, rows),
            segments=plan.segments_with_rows(iter(rows[len(plan.outside) :])),
            indexes=tuple([table.values[:, 0].astype(np.int64) for table in self._indexes.at(k)]),
            **fields,
        )
        return UnplacedPlan(result, blocks, first.block_of_view, first.element_bytes)


def _numbers_of(member: UnplacedPlan) -> np.ndarray:
    """Returns all numbers but those in tables."""
    plan = member.plan
    arrays = [plan.views, plan.loops, plan.call_args, member.blocks[:, 3], np.array(_row_counts(plan))]
    return np.concatenate([each.reshape(-1).astype(np.int64) for each in arrays])


def _constants_of(member: UnplacedPlan) -> Any:
    """Returns all of an unplaced plan but its numbers."""
    plan = member.plan
    calls = (plan.call_opcode, plan.call_start, plan.call_number, plan.call_command)
    memory = member.blocks[:, [0, 1, 2, 4, 5]], member.block_of_view, plan.spans
    return (
        *(plan.dtype, plan.lanes, plan.opcodes, plan.texts, plan.kernels, plan.need_model_derivative),
        *(array.tobytes() for array in (*calls, *memory)),
        *(plan.views.shape, plan.loops.shape, len(plan.indexes), len(plan.uneven)),
        _outside_with_rows(plan, repeat(0)),
        plan.segments_with_rows(repeat(0)),
    )


def _outside_with_rows(plan: Plan, rows: Iterable[int]) -> tuple[OutsidePlan, ...]:
    return tuple([each._replace(num_rows=num) for each, num in zip(plan.outside, rows, strict=False)])


def _row_counts(plan: Plan) -> list[int]:
    """Returns the number of memos, and the rows of outside memory and of all that is accepted and provided."""
    ports = (port for segment in plan.segments for port in (*segment.accepts, *segment.provides))
    return [plan.num_memos, *(each.num_rows for each in plan.outside), *(port.num_rows for port in ports)]


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
    prove = prove or computation.prove or (proves_all(mark=made.mark) and made.num_runs() <= _MOST_CALLS)
    if prove and made.num_bytes <= _MOST_PROVED and MEANINGS.keys() >= set(made.opcodes):
        prove_plan(computation, made)
    if is_alone and kept is not None:
        kept[name] = made.to_data()
    return made


def _by_arithmetic(computation: NnetComputation, name: str, dtype: str) -> Plan | None:
    """Returns the plan computed from plans of further programs; None without such plans."""
    kept, made = computation.attachments, None
    if computation.row_numbers is not None:
        made = computation.row_numbers.kept.setdefault(name, RaggedPlans(dtype)).plan(computation)
    if made is None and kept is not None and name not in kept and computation.member is not None:
        made = computation.member.kept.setdefault(name, PlanFamily(dtype)).plan(computation.member)
    return made
