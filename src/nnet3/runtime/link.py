"""Linking: the calls of a plan are bound to memory and kernels, so that they need no arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nnet3.errors import ExecutionError
from nnet3.ir.computation import NnetComputation
from nnet3.ir.objects import many_objects
from nnet3.runtime.calls import CALLS, BoundCall
from nnet3.runtime.kernels import Kernels
from nnet3.runtime.lanes import LANES
from nnet3.runtime.memory import Arena
from nnet3.runtime.plan import Plan


@dataclass
class RunState:
    """The state of a run outside the arena."""

    accepted: dict[str, Tensor] = field(default_factory=dict)
    provided: dict[str, Tensor] = field(default_factory=dict)
    memos: list[Any] = field(default_factory=list)

    def clear(self) -> None:
        self.accepted.clear()
        self.provided.clear()
        self.memos[:] = [None] * len(self.memos)


@dataclass
class Constants:
    """The tables of a plan on a device, loaded when first needed; they outlive a change of memory."""

    device: torch.device
    indexes: dict[int, Tensor] = field(default_factory=dict)
    of_kernels: dict[tuple[int, int], Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LinkedComputation:
    """A plan bound to memory and kernels: its calls, one after the other, and those of each segment."""

    plan: Plan
    kernels: Kernels
    storage: Tensor
    outside: Mapping[str, Tensor]
    views: list[Tensor]
    calls: list[BoundCall | None]
    calls_of_segment: list[list[BoundCall]]

    def view(self, computation: NnetComputation, submatrix: int, command: int) -> Tensor:
        """Returns a sub-matrix of the computation as it lies at a command, (rows, columns)."""
        block = computation.submatrices[submatrix]
        matrix = computation.matrices[block.matrix]
        name = next(
            (o.name for o in computation.outside if computation.submatrices[o.submatrix].matrix == block.matrix), None
        )
        if name is not None:
            whole = self.outside[name]
        else:
            dtype = LANES[matrix.dtype or self.plan.dtype]
            begin, shape = self.plan.byte_offset(block.matrix, command), (matrix.num_rows, matrix.num_cols)
            whole = self.storage[begin : begin + shape[0] * shape[1] * dtype.itemsize].view(dtype).view(shape)
        rows = whole[block.row_offset : block.row_offset + block.num_rows]
        return rows[:, block.col_offset : block.col_offset + block.num_cols]

    def calls_of_command(self, command: int) -> list[BoundCall]:
        first, end = self.plan.first_call[command : command + 2].tolist()
        return [call for call in self.calls[first:end] if call is not None]


class Linker:
    """Everything that kinds of calls need while they are bound."""

    def __init__(
        self,
        plan: Plan,
        kernels: Kernels,
        arena: Arena,
        state: RunState,
        constants: Constants,
        outside: Mapping[str, Tensor],
        fill_undefined: bool,
    ) -> None:
        self.plan, self.kernels, self.constants = plan, kernels, constants
        self.outside, self.fill_undefined = outside, fill_undefined
        self.accepted, self.provided, self.memos = state.accepted, state.provided, state.memos
        self.views = make_views(plan, arena, outside)
        self._run_forward: dict[int, Callable[..., Any]] = {}
        self._accepts = {port.name: port.bound_name for segment in plan.segments for port in segment.accepts}
        self._provides = {port.name: port.bound_name for segment in plan.segments for port in segment.provides}

    def index(self, number: int) -> Tensor:
        """Returns a table of row numbers on the device."""
        found = self.constants.indexes.get(number)
        if found is None:
            # A copy: tables of a plan that was read from a file cannot be written to.
            found = torch.tensor(self.plan.indexes[number], device=self.constants.device)
            self.constants.indexes[number] = found
        return found

    def loaded(self, kernel: int, precomputed: int) -> Any:
        """Returns what a kernel has precomputed of its rows, loaded for the device."""
        arrays = self.plan.precomputed[precomputed]
        if arrays is None:
            return None
        key = kernel, precomputed
        if key not in self.constants.of_kernels:
            found = self.kernels.find(self.plan.kernels[kernel])
            self.constants.of_kernels[key] = found.load_indexes(arrays, self.constants.device)
        return self.constants.of_kernels[key]

    def forward(self, kernel: int, precomputed: int, output: int, inputs: Sequence[int]) -> BoundCall:
        run = self._run_forward.get(kernel)
        if run is None:
            run = self._run_forward[kernel] = self.kernels.find(self.plan.kernels[kernel]).run_forward
        views = self.views
        indexes = None if precomputed == 0 else self.loaded(kernel, precomputed)
        return partial(run, [views[view] for view in inputs], views[output], indexes)

    def accept(self, view: Tensor, name: str) -> BoundCall:
        bound = self.outside.get(self._accepts[name])
        if bound is not None:
            return partial(view.copy_, bound)
        accepted = self.accepted
        return lambda: view.copy_(accepted[name])

    def provide(self, view: Tensor, name: str) -> BoundCall:
        bound, provided = self.outside.get(self._provides[name]), self.provided
        if bound is None:
            return lambda: provided.__setitem__(name, view.clone())

        def provide() -> None:
            provided[name] = bound.copy_(view)

        return provide


def link(
    plan: Plan,
    kernels: Kernels,
    arena: Arena,
    state: RunState | None = None,
    constants: Constants | None = None,
    *,
    outside: Mapping[str, Tensor] | None = None,
    fill_undefined: bool = False,
) -> LinkedComputation:
    """Bind every call of a plan once.

    Kernels are looked up by name now; changes of their parameters in place need no new link. What is given must have
    been checked (`Kernels.check`, `check_outside`). With `fill_undefined` matrices that begin undefined are filled with
    NaN, so that reading them shows. Raises ExecutionError for a kind of call that is not known.
    """
    state, constants = state or RunState(), constants or Constants(arena.storage.device)
    state.memos[:] = [None] * plan.num_memos
    kinds = [_kind(name) for name in plan.kinds]
    args, starts = plan.call_args.tolist(), plan.call_start.tolist()
    places = zip(plan.call_kind.tolist(), starts, starts[1:], plan.call_number.tolist(), strict=False)
    with many_objects():
        linker = Linker(plan, kernels, arena, state, constants, outside or {}, fill_undefined)
        calls = [kinds[kind](linker, args[start:end], number) for kind, start, end, number in places]
    first_call = plan.first_call.tolist()
    of_segment = [
        [call for call in calls[first_call[segment.start] : first_call[segment.end]] if call is not None]
        for segment in plan.segments
    ]
    return LinkedComputation(plan, kernels, arena.storage, linker.outside, linker.views, calls, of_segment)


def make_views(plan: Plan, arena: Arena, outside: Mapping[str, Tensor]) -> list[Tensor]:
    """Returns the views of a plan in their order."""
    lanes = [arena.lane(LANES[name]) for name in plan.lanes]
    bound = [outside[memory.name].detach() for memory in plan.outside]
    views = []
    for lane, start, col, outer, inner, cols, outer_step, step in plan.views.tolist():
        unit = 1
        if lane < 0:
            flat = bound[-1 - lane]
            row_stride, unit = flat.stride()
            start = flat.storage_offset() + start * row_stride + col * unit
            outer_step, step = outer_step * row_stride, step * row_stride
        else:
            flat = lanes[lane]
        if outer:
            views.append(flat.as_strided((outer, inner, cols), (outer_step, step, unit), start))
        else:
            views.append(flat.as_strided((inner, cols), (step, unit), start))
    return views


def _kind(name: str) -> Any:
    if name not in CALLS:
        raise ExecutionError(f"the plan has a call of kind '{name}', which this version does not know: plan it again")
    return CALLS[name]
