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
from nnet3.native.ranges import Ranges, ReachableMemory, check_scratch, stretch_of
from nnet3.runtime.calls import BoundCall, scaled_copy
from nnet3.runtime.kernels import Kernels
from nnet3.runtime.loop_turns import STAYS, LoopTurns, Moving
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
_FEWEST_TURNS = 8  # for which weights are packed

#: Where memory begins and ends.
Stretch = tuple[int, int]


class NativeRun:
    """Operations that run one after the other in each of some turns. Weights are packed before the first turn."""

    def __init__(self, operations: Sequence[Moving], num_turns: int, tables: Sequence[np.ndarray] = ()) -> None:
        """`tables`: those of `LoopTurns`."""
        found = library()
        assert found is not None
        packing: dict[Row, int] = {}  # where panels begin
        in_turns: list[Moving] = []
        self._num_floats, width = 0, found.nnet3_columns_of_panel()
        panels = 0
        for row, moves in operations:
            size = size_of_panels(row, width)
            if not size:
                in_turns.append((_with_scratch(row, panels) if reads_panels(row) else row, moves))
                continue
            panels = packing.setdefault(row, self._num_floats)
            self._num_floats += size if panels == self._num_floats else 0
        before: list[Moving] = [(_with_scratch(row, place), STAYS) for row, place in packing.items()]
        places = np.array([table.ctypes.data for table in tables], np.int64)
        made = [*before, *in_turns]
        self._arrays = [np.array([each[part] for each in made], np.int64) for part in (0, 1)] + [places, *tables]
        self._function = partial(found.nnet3_run, *(array.ctypes.data for array in self._arrays[:3]))
        self._num_before, self._num_rows, self._num_turns = len(before), len(made), num_turns
        self._scratch: Tensor | None = None
        if made:
            rows, moves = self._arrays[:2]
            self._ranges = Ranges(rows, moves)
            check_scratch(rows, moves, self._num_floats, width)

    @property
    def addresses(self) -> np.ndarray:
        """The addresses of each operation, (operations, matrices), which may be written to."""
        return self._arrays[0][:, ADDRESSES]

    def check(self, memory: ReachableMemory) -> None:
        """Check that no turn uses other memory. Raises ExecutionError."""
        if self._num_rows:
            memory.check(self._ranges, self.addresses, self._arrays[3:], self._num_turns)

    def move(self, num_turns: int, tables: Sequence[np.ndarray]) -> None:
        """Run so many turns from now on, which have these rows."""
        self._arrays[3:], self._num_turns, self._scratch = tables, num_turns, None
        self._arrays[2][:] = [table.ctypes.data for table in tables]

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
    calls: Sequence[BoundCall],
    moving: Sequence[Sequence[Moving] | None],
    turns: LoopTurns,
    constant: Sequence[Stretch] = (),
    *,
    together: bool,
) -> list[Group]:
    """Groups calls by who makes them; unless `together`, each is a group of its own.

    Native code makes what it can, whose operations are `moving`, if a kernel is among it. Weights are packed if there
    are many turns and they lie in memory that is `constant` meanwhile.
    """
    is_native = [each is not None and _packs_well(each, turns.num_turns, constant) for each in moving]
    groups: list[Group] = []
    for are_native, places in groupby(range(len(moving)), lambda place: is_native[place]):
        numbers = list(places)
        if not are_native or all(_function(calls[number]) in _ON_VIEWS for number in numbers):
            groups += [Group([number], None) for number in numbers]
            continue
        for part in [numbers] if together else [[number] for number in numbers]:
            operations = [each for number in part for each in moving[number] or ()]
            groups.append(Group(part, NativeRun(operations, turns.num_turns, turns.tables)))
    return groups


def in_straight_groups(
    calls: Sequence[BoundCall], operations: Sequence[Operations | None], *, together: bool
) -> list[Group]:
    """Groups calls that run once; `operations`: those that do as each call does."""
    moving = [None if each is None else [(row, STAYS) for row in each] for each in operations]
    return in_groups(calls, moving, LoopTurns(1), together=together)


def _packs_well(operations: Sequence[Moving], num_turns: int, constant: Sequence[Stretch]) -> bool:
    """True if no weights are packed, or they are for many turns, in which they stay as they are."""
    packed = [each for each in operations if size_of_panels(each[0], 1)]
    may_pack = num_turns >= _FEWEST_TURNS and is_amd()
    return all(
        may_pack and moves == STAYS and any(start <= row[WEIGHTS] < end for start, end in constant)
        for row, moves in packed
    )


def constant_memory(plan: Plan, outside: Mapping[str, Tensor]) -> list[Stretch]:
    """Returns where the outside memory lies that the program only reads."""
    tensors = [outside[memory.name] for memory in plan.outside if not memory.writable]
    return [stretch_of(each) for each in tensors]


def _function(call: BoundCall) -> Any:
    return call.func if isinstance(call, partial) else None


def operations_of(call: BoundCall) -> Operations | None:
    """Returns the operations that do as a call does; None if there are none."""
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
