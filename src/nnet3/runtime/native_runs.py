"""Calls that follow each other and that native code takes, as one call of a C function, in a loop for all its turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.native import operations
from nnet3.native.library import is_amd, library
from nnet3.native.operations import ADDRESSES, SCRATCH, WEIGHTS, Operations, Row, reads_panels, size_of_panels
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
_FEWEST_TURNS = 8  # for which weights are packed

#: The addresses of an operation, in floats by which they move from turn to turn.
_Steps = list[int]
#: Where memory begins and ends.
Stretch = tuple[int, int]


class NativeRun:
    """Operations that run one after the other in each of some turns. Weights are packed before the first turn."""

    def __init__(self, rows: Operations, steps: Sequence[_Steps], num_turns: int) -> None:
        found = library()
        assert found is not None
        packing: dict[Row, int] = {}  # where panels begin
        in_turns: list[tuple[Row, _Steps]] = []
        self._num_floats, width = 0, found.nnet3_columns_of_panel()
        panels = 0
        for row, step in zip(rows, steps, strict=True):
            size = size_of_panels(row, width)
            if not size:
                in_turns.append((_with_scratch(row, panels) if reads_panels(row) else row, step))
                continue
            panels = packing.setdefault(row, self._num_floats)
            self._num_floats += size if panels == self._num_floats else 0
        before = [(_with_scratch(row, place), [0] * operations.NUM_MATRICES) for row, place in packing.items()]
        self._tables = [np.array(table, np.int64) for table in zip(*before, *in_turns, strict=True)]
        self._function = partial(found.nnet3_run, *(table.ctypes.data for table in self._tables))
        self._num_before, self._num_rows, self._num_turns = len(before), len(before) + len(in_turns), num_turns
        self._scratch: Tensor | None = None

    def __call__(self, start: int, stop: int) -> None:
        """Run them in turns [start, stop)."""
        if not self._num_floats:
            self._function(0, self._num_rows, start, stop, None, 1)
            return
        if start == 0 or self._scratch is None:
            self._scratch = torch.empty(self._num_floats, dtype=torch.float32, device="cpu")
            self._function(0, self._num_before, 0, 1, self._scratch.data_ptr(), 1)
        place, threads = self._scratch.data_ptr(), torch.get_num_threads()
        self._function(self._num_before, self._num_rows, start, stop, place, threads)
        if stop == self._num_turns:
            self._scratch = None


def _with_scratch(row: Row, place: int) -> Row:
    return (*row[:SCRATCH], place, *row[SCRATCH + 1 :])


class Group(NamedTuple):
    """Calls that follow each other, by place, and what makes them all in a turn; `run` is None where Python does."""

    calls: list[int]
    run: NativeRun | None


def native_kernels(plan: Plan, kernels: Kernels) -> list[Any]:
    """Returns those kernels of a plan that want to be computed by native code, if there is some."""
    if plan.dtype != "float32":
        return []
    found = [kernels.find(kernel) for kernel in plan.kernels if kernel.output_width >= 0]
    wanting = [kernel for kernel in found if getattr(kernel, "is_native", False)]
    return wanting if wanting and library() is not None else []


def in_groups(
    bound: Sequence[Sequence[BoundCall]], num_turns: int, constant: Sequence[Stretch] = (), *, together: bool
) -> list[Group]:
    """Groups calls by who makes them; unless `together`, each is a group of its own.

    `bound` are the calls of the first turn, the second and the last one, or of as many turns as there are. Native code
    makes what it can if a kernel is among it, and from turn to turn only addresses change, by equal amounts. Weights
    are packed if there are many turns and they lie in memory that is `constant` meanwhile.
    """
    found = [_turning(each, num_turns, constant) for each in zip(*bound, strict=True)]
    groups: list[Group] = []
    for is_native, places in groupby(range(len(found)), lambda place: found[place] is not None):
        calls = list(places)
        if not is_native or all(_function(bound[0][call]) in _ON_VIEWS for call in calls):
            groups += [Group([call], None) for call in calls]
            continue
        parts = [calls] if together else [[call] for call in calls]
        for part in parts:
            rows, steps = zip(*[each for call in part for each in found[call] or ()], strict=True)
            groups.append(Group(part, NativeRun(rows, steps, num_turns)))
    return groups


def _turning(
    calls: Sequence[BoundCall], num_turns: int, constant: Sequence[Stretch]
) -> list[tuple[Row, _Steps]] | None:
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
        if size_of_panels(row, 1) and not (
            num_turns >= _FEWEST_TURNS and is_amd() and _is_constant(row, step, constant)
        ):
            return None
        result.append((row, [each // _FLOAT_BYTES for each in step[ADDRESSES]]))
    return result


def _is_constant(row: Row, step: Sequence[int], constant: Sequence[Stretch]) -> bool:
    return not step[WEIGHTS] and any(start <= row[WEIGHTS] < end for start, end in constant)


def constant_memory(plan: Plan, outside: Mapping[str, Tensor]) -> list[Stretch]:
    """Returns where the outside memory lies that the program only reads."""
    tensors = [outside[memory.name] for memory in plan.outside if not memory.writable]
    return [(each.data_ptr(), each.data_ptr() + _num_bytes(each)) for each in tensors if each.numel()]


def _num_bytes(tensor: Tensor) -> int:
    """Returns how far a tensor's memory goes."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.itemsize


def _function(call: BoundCall) -> Any:
    return call.func if isinstance(call, partial) else None


def _operations_of(call: BoundCall) -> Operations | None:
    if not isinstance(call, partial):
        return None
    on_views = _ON_VIEWS.get(call.func)
    if on_views is not None:
        return on_views(*call.args, **call.keywords)
    kernel: Any = getattr(call.func, "__self__", None)
    if not getattr(kernel, "is_native", False):
        return None
    found: Operations | None = None
    if call.func == kernel.run_forward:
        found = kernel.native_forward(*call.args)
    elif call.func == getattr(kernel, "run_backward", None) and hasattr(kernel, "native_backward"):
        found = kernel.native_backward(*call.args)
    return found
