"""Calls that follow each other and that native code takes, as one call of a C function, in a loop for all its turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from nnet3.native import operations
from nnet3.native.library import library
from nnet3.native.operations import ADDRESSES, Operations
from nnet3.runtime.calls import BoundCall, scaled_copy
from nnet3.runtime.kernels import Kernels
from nnet3.runtime.plan import Plan

#: What calls do that work on views alone.
_ON_VIEWS: dict[Any, Callable[..., Operations | None]] = {
    Tensor.copy_: operations.copy,
    Tensor.add_: operations.add,
    Tensor.zero_: operations.zero,
    Tensor.fill_: operations.fill,
    Tensor.mul_: operations.scale,
    scaled_copy: operations.scaled_copy,
}
_FLOAT_BYTES = 4

#: The addresses of an operation, in floats by which they move from turn to turn.
_Steps = list[int]


class NativeRun:
    """Operations that run one after the other in each turn."""

    def __init__(self, rows: Operations, steps: Sequence[_Steps]) -> None:
        self._rows, self._steps = np.array(rows, np.int64), np.array(steps, np.int64)
        found = library()
        assert found is not None
        self._function = partial(found.nnet3_run, self._rows.ctypes.data, self._steps.ctypes.data, 0, len(rows))

    def __call__(self, start: int, stop: int) -> None:
        """Run them in turns [start, stop)."""
        self._function(start, stop)


class Group(NamedTuple):
    """Calls that follow each other, by place, and what makes them all in a turn; `run` is None where Python does."""

    calls: list[int]
    run: NativeRun | None


def native_kernels(plan: Plan, kernels: Kernels) -> list[Any]:
    """Returns those kernels of a plan that want to be computed by native code, if there is some."""
    found = [kernels.find(kernel) for kernel in plan.kernels if kernel.output_width >= 0]
    wanting = [kernel for kernel in found if getattr(kernel, "is_native", False)]
    return wanting if wanting and library() is not None else []


def in_groups(bound: Sequence[Sequence[BoundCall]], num_turns: int, *, together: bool) -> list[Group]:
    """Groups calls by who makes them; unless `together`, each is a group of its own.

    `bound` are the calls of the first turn, the second and the last one, or of as many turns as there are. Native code
    makes what it can if a kernel is among it, and from turn to turn only addresses change, by equal amounts.
    """
    found = [_turning(each, num_turns) for each in zip(*bound, strict=True)]
    groups: list[Group] = []
    for is_native, places in groupby(range(len(found)), lambda place: found[place] is not None):
        calls = list(places)
        if not is_native or all(_function(bound[0][call]) in _ON_VIEWS for call in calls):
            groups += [Group([call], None) for call in calls]
            continue
        parts = [calls] if together else [[call] for call in calls]
        for part in parts:
            rows, steps = zip(*[each for call in part for each in found[call] or ()], strict=True)
            groups.append(Group(part, NativeRun(rows, steps)))
    return groups


def _turning(calls: Sequence[BoundCall], num_turns: int) -> list[tuple[operations.Row, _Steps]] | None:
    """Returns the operations of a call that is given as it is bound in some turns, with their steps; None without."""
    found = [_operations_of(call) for call in calls]
    first, second, last = found[0], found[min(1, len(found) - 1)], found[-1]
    if first is None or second is None or last is None or not len(first) == len(second) == len(last):
        return None
    result = []
    for row, row_of_second, row_of_last in zip(first, second, last, strict=True):
        step = [after - before for before, after in zip(row, row_of_second, strict=True)]
        expected = [start + (num_turns - 1) * each for start, each in zip(row, step, strict=True)]
        if expected != list(row_of_last) or any(step[: ADDRESSES.start]) or any(step[ADDRESSES.stop :]):
            return None
        result.append((row, [each // _FLOAT_BYTES for each in step[ADDRESSES]]))
    return result


def _function(call: BoundCall) -> Any:
    return call.func if isinstance(call, partial) else None


def _operations_of(call: BoundCall) -> Operations | None:
    if not isinstance(call, partial):
        return None
    on_views = _ON_VIEWS.get(call.func)
    if on_views is not None:
        return on_views(*call.args, **call.keywords)
    kernel: Any = getattr(call.func, "__self__", None)
    if not getattr(kernel, "is_native", False) or call.func != kernel.run_forward:
        return None
    found: Operations | None = kernel.native_forward(*call.args)
    return found
