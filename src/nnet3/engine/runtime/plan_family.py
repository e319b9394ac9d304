"""PlanFamily: the plans of programs that differ in numbers alone.

The first member of a program family is planned alone. For the second the smallest one is planned too, and all further
plans follow by arithmetic, as their numbers are affine in k. Nothing else need be tried: the planner joins rows to
blocks where numbers are equal, and affine numbers that are equal for two k are equal for all. If the two plans have
different calls, each program is planned alone. The order of blocks in memory is found for lengths from the row 2, 3, 4,
6, 8, 12, ...; up to the next of these blocks move evenly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import torch

from nnet3.engine.driver.proving import proves_all
from nnet3.engine.driver.task import rounded_up
from nnet3.engine.families.continued import NotAffineError, continued, table_of
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime.dtypes import dtype_name
from nnet3.engine.runtime.packing import ALIGNMENT, stacked
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


#: The numbers of a program, and its plan.
_Planned = tuple[Any, UnplacedPlan]


class PlanFamily:
    """The plans in one dtype of programs that differ in numbers. Threads take turns."""

    def __init__(self, make: Callable[[_Planned, Any, NnetComputation, str], Plans], dtype: str) -> None:
        """`make`: from a planned program, and another with its numbers, to all plans. It may raise NotAffineError."""
        self._make, self._dtype, self._lock = make, dtype, threading.Lock()
        self._first: _Planned | None = None
        self._plans: Plans | None = None
        self._is_refused = False

    def plan(self, numbers: Any, program: NnetComputation) -> Plan | None:
        """Returns the plan of a program; None if it must be planned alone."""
        with self._lock, suppress(NotAffineError):
            if self._is_refused:
                return None
            if self._plans is None:
                first = self._first = self._first or (numbers, unplaced_plan(program, self._dtype))
                if first[0] == numbers:
                    return first[1].placed(*first[1].packed())
                self._first, self._is_refused = None, True  # unless what follows succeeds
                self._plans = self._make(first, numbers, program, self._dtype)
                self._is_refused = False
            return self._plans.plan(numbers)
        return None


class MemberPlans:
    """The plans of a family's members as functions of k."""

    def __init__(self, first: _Planned, k: int, program: NnetComputation, dtype: str) -> None:
        """Raises NotAffineError."""
        member, planned, apart = program.member, dict([first]), first[0] or k
        assert member is not None
        one, other = (planned.get(each) or unplaced_plan(member.at(each), dtype) for each in (0, apart))
        if _constants_of(one) != _constants_of(other):
            raise NotAffineError("plans have other calls")
        changes = [after - before for before, after in zip(_numbers_of(one), _numbers_of(other), strict=True)]
        if any((change % apart).any() for change in changes):
            raise NotAffineError("plans do not go on by integers")
        self._k, self._first = first  # whose calls are bound already
        self._entries, self._counts = member.entries, _counts_of(self._first.plan)
        self._views, self._loops, self._args, self._bytes, self._more = (change // apart for change in changes)
        self._has_its_args = not self._args.any()
        self._has_its_outside = not self._more[1 : 1 + len(one.plan.outside)].any()
        self._indexes = continued([list(map(table_of, each.plan.indexes)) for each in (one, other)], apart)
        #: Offsets of blocks and their changes from the least k on, by the k for which the order of blocks was found.
        self._offsets: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def plan(self, k: int) -> Plan:
        first, plan, more = self._first, self._first.plan, k - self._k
        num_memos, *rows = (self._counts + more * self._more).tolist()
        result = plan.changed(
            views=plan.views + more * self._views,
            loops=plan.loops + more * self._loops,
            call_args=plan.call_args if self._has_its_args else plan.call_args + more * self._args,
            num_memos=num_memos,
            outside=plan.outside if self._has_its_outside else _outside_with_rows(plan, rows),
            segments=plan.segments_with_rows(iter(rows[len(plan.outside) :])),
            indexes=tuple([table.values[:, 0].astype(np.int64) for table in self._indexes.at(k)]),
            precomputed=tuple(self._entries(k)),
        )
        offsets = self._offsets_at(k)
        made = UnplacedPlan(result, first.blocks, first.block_of_view, first.element_bytes)
        return made.placed(offsets[:-1], int(offsets[-1]))

    def _offsets_at(self, k: int) -> np.ndarray:
        """Returns the offsets of all blocks, and the size of all.

        Both are found for two k, with room for rounding: blocks that do not overlap there do not overlap between.
        """
        size = rounded_up(k)
        few = 2 * (size // 4)
        if size not in self._offsets:
            steps = np.array([few, size]) - self._k
            sizes = self._first.num_bytes[:, None] + self._bytes[:, None] * steps + ALIGNMENT
            blocks = self._first.blocks.copy()
            blocks[:, 3], blocks[:, 4] = sizes[:, 1], 1
            longer = replace(self._first, blocks=blocks)
            offsets, others = stacked(longer.packed()[0], longer.meet(), sizes).T
            self._offsets[size] = offsets, others - offsets
        offsets, change = self._offsets[size]
        return np.asarray((offsets + (k - few) * change // (size - few)) // ALIGNMENT * ALIGNMENT)


def _numbers_of(member: UnplacedPlan) -> tuple[np.ndarray, ...]:
    """Returns all numbers of an unplaced plan but tables: views, loops, arguments, bytes of blocks, memos and rows."""
    plan = member.plan
    return plan.views, plan.loops, plan.call_args, member.num_bytes, _counts_of(plan)


def _counts_of(plan: Plan) -> np.ndarray:
    """Returns the number of memos, and of rows of outside memory and of all that is accepted and provided."""
    ports = (port for segment in plan.segments for port in (*segment.accepts, *segment.provides))
    return np.array([plan.num_memos, *(each.num_rows for each in plan.outside), *(port.num_rows for port in ports)])


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
        return family.plan(member.k, computation)
    return None
