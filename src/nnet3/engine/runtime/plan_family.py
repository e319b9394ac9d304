"""PlanFamily: the plans of programs that differ in numbers alone.

Two members of a program family are planned, and all further plans follow by arithmetic, as their numbers are affine in
k. Nothing else need be tried: the planner joins rows to blocks where numbers are equal, and affine numbers that are
equal for two k are equal for all. If the two plans have different calls, each program is planned alone. The order of
blocks in memory is found for lengths from the row 2, 3, 4, 6, 8, 12, ..., and taken over for shorter lengths.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import torch

from nnet3.engine.driver.proving import proves_all
from nnet3.engine.driver.task import rounded_up
from nnet3.engine.families.continued import NotAffineError, continued, table_of
from nnet3.engine.ir.computation import FamilyMember, NnetComputation
from nnet3.engine.runtime.dtypes import dtype_name
from nnet3.engine.runtime.packing import Stacking
from nnet3.engine.runtime.plan import PLAN_VERSION, OutsidePlan, Plan
from nnet3.engine.runtime.planning import plan, unplaced_plan
from nnet3.engine.runtime.proof import MEANINGS, prove_plan
from nnet3.engine.runtime.ragged_plans import RaggedPlans
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan

_MOST_PROVED = 1 << 26  # bytes of a plan; a proof takes some bytes for each
_MOST_CALLS = 1000  # of a plan that is proved because of the environment, in all iterations


class Plans(Protocol):
    """Plans as functions of what programs differ in."""

    def plan(self, numbers: Any, /) -> Plan:
        """Returns the plan of the program with these numbers. Raises NotAffineError if it must be planned alone."""


class PlanFamily:
    """The plans in one dtype of programs that differ in numbers. Threads take turns."""

    def __init__(self, make: Callable[[Any, str], Plans], dtype: str) -> None:
        """`make`: from a program to the plans of all. Raises NotAffineError if their calls differ."""
        self._make, self._dtype, self._lock = make, dtype, threading.Lock()
        self._first: Any = None  # numbers of the first program, which is planned alone
        self._plans: Plans | None = None
        self._is_refused = False

    def plan(self, numbers: Any, program: Any) -> Plan | None:
        """Returns the plan of a program; None if it must be planned alone."""
        with self._lock, suppress(NotAffineError):
            if self._plans is None:
                if self._is_refused or self._first in (None, numbers):
                    self._first = numbers
                    return None
                self._is_refused = True  # unless what follows succeeds
                self._plans = self._make(program, self._dtype)
            return self._plans.plan(numbers)
        return None


class MemberPlans:
    """The plans of a family's members as functions of k."""

    def __init__(self, member: FamilyMember, dtype: str) -> None:
        """Raises NotAffineError."""
        self._first, other = members = [unplaced_plan(member.at(k), dtype) for k in (0, 1)]
        if _constants_of(self._first) != _constants_of(other):
            raise NotAffineError("plans have other calls")
        numbers = [list(map(np.ravel, _numbers_of(each))) for each in members]
        self._ends, (self._base, after) = np.cumsum(list(map(len, numbers[0]))), map(np.concatenate, numbers)
        self._slope = after - self._base
        _, _, args, _, counts, _ = np.split(self._slope, self._ends)
        outside = counts[1 : 1 + len(self._first.plan.outside)]
        self._has_its_args, self._has_its_outside = not args.any(), not outside.any()
        self._indexes = continued([list(map(table_of, each.plan.indexes)) for each in members])
        self._entries = member.entries
        self._stackings: dict[int, Stacking] = {}  # by the k for which the order of blocks was found

    def plan(self, k: int) -> Plan:
        made, size = self._unplaced(k, precomputed=tuple(self._entries(k))), rounded_up(k)
        if size not in self._stackings:
            longer = self._unplaced(size)
            self._stackings[size] = Stacking(longer.packed()[0], longer.meet())
        return made.placed(*self._stackings[size].packed(made.num_bytes))

    def _unplaced(self, k: int, **fields: Any) -> UnplacedPlan:
        """Returns the plan for k, with further fields. What is the same for all k is one object."""
        first, plan = self._first, self._first.plan
        views, loops, args, elements, counts, _ = np.split(self._base + k * self._slope, self._ends)
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


def _numbers_of(member: UnplacedPlan) -> tuple[np.ndarray, ...]:
    """Returns all numbers of an unplaced plan but tables: views, loops, arguments, elements of blocks, memos and rows.

    Rows are those of outside memory and of all that is accepted and provided.
    """
    plan = member.plan
    ports = (port for segment in plan.segments for port in (*segment.accepts, *segment.provides))
    counts = [plan.num_memos, *(each.num_rows for each in plan.outside), *(port.num_rows for port in ports)]
    return plan.views, plan.loops, plan.call_args.astype(np.int64), member.blocks[:, 3], np.array(counts)


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
    kept, rows, member = computation.attachments, computation.row_numbers, computation.member
    if rows is not None:
        family: PlanFamily = rows.kept.setdefault(name, PlanFamily(RaggedPlans, dtype))
        return family.plan(rows, computation)
    if kept is not None and name not in kept and member is not None:
        family = member.kept.setdefault(name, PlanFamily(MemberPlans, dtype))
        return family.plan(member.k, member)
    return None
