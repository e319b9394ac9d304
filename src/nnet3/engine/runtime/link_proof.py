"""LinkProof: the bound calls of a linked plan do the work of the plan's calls, on the memory of the plan's views.

Links go from plan to plan: tensors move, calls stay bound, and operations of native code go from iteration to
iteration by numbers. Each run is compared with calls bound anew for its iteration, their tensors with the numbers
of the plan (proved by `runtime.proof`), and operations with the operations of the new calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.meaning import Meaning, meanings
from nnet3.base.native.operations import ADDRESSES, STAYS
from nnet3.base.native.ranges import Ranges, ReachableMemory
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.linker import BoundCall, BoundRun, Linker
from nnet3.engine.runtime.native_runs import NativeRun, operations_of
from nnet3.engine.runtime.plan import Plan
from nnet3.errors import ExecutionError, ProofError


class Bound(NamedTuple):
    """A call of a plan, and its bound call in an iteration."""

    iteration: int
    call: int
    run: BoundCall


class LinkProof:
    """The proof of a link, with a separate linker for binding the calls of the plan to the linked memory."""

    def __init__(self, linker: Linker) -> None:
        self._linker, self.plan = linker.anew(), linker.plan
        constant = [linker.outside[memory.name] for memory in self.plan.outside if not memory.writable]
        self._constant = ReachableMemory([], constant)

    def proved(
        self, bound_runs: Iterable[BoundRun], calls: range, iterations: range, steps: tuple[int, int] = (0, 0)
    ) -> Iterator[BoundRun]:
        """Yields the bound calls of iterations, after each was found to do the work of the plan's calls.

        Raises ProofError before it yields a run with a wrong bound call.
        """
        expected = _InOrder(self._bound(calls, iterations, steps))
        for some, firsts, each in bound_runs:
            runs: list[Iterable[BoundCall]] = [list(in_iterations) for in_iterations in each]
            ends = [*firsts[1:], calls.stop]
            for iteration, in_iteration in zip(some, zip(*runs, strict=True), strict=bool(runs)):
                for first, end, run in zip(firsts, ends, in_iteration, strict=True):
                    try:
                        self._check(run, iteration, range(first, end), expected)
                    except ProofError as error:
                        raise self._error(first, iteration, str(error)) from None
            yield some, firsts, runs
        if expected.next is not None:
            raise self._error(expected.next.call, expected.next.iteration, "nothing runs for it")

    def _check(self, run: Any, iteration: int, calls: range, expected: _InOrder) -> None:
        """Raise ProofError unless a run does what is expected for calls: in this iteration, or native code in some."""
        if not (isinstance(run, partial) and isinstance(run.func, NativeRun)):
            if not _are_same(expected.take(iteration, calls), [run]):
                raise ProofError("something else runs than what it does")
            return
        if len(packed := run.func.packed):
            try:
                self._constant.check(Ranges(packed, np.array([STAYS] * len(packed))), packed[:, ADDRESSES], (), 1)
            except ExecutionError:
                raise ProofError("weights are packed that the program may change in its loop") from None
        for each, found in zip(iterations := range(*run.args), run.func.in_iterations(iterations), strict=True):
            does: list[Any] = []
            for bound in expected.take(each, calls):
                operations = operations_of(bound)
                if operations is None:
                    raise ProofError(f"native code makes it in iteration {each}, though it has no operations there")
                does += operations
            if found != does and (got := meanings(found)) != (wanted := meanings(does)):
                raise ProofError(
                    f"native code would do other operations than it in iteration {each}: {_difference(got, wanted)}"
                )

    def _error(self, call: int, iteration: int, problem: str) -> ProofError:
        opcode, command = self.plan.opcodes[self.plan.call_opcode[call]], self.plan.call_command[call]
        return ProofError(
            f"call {call} of the plan, '{opcode}' of command c{command}, in iteration {iteration}: {problem}. It is "
            "not run. Please report it with the network and the request; NNET3_NATIVE=0 in the environment does "
            "without native code"
        )

    def _bound(self, calls: range, iterations: range, steps: tuple[int, int]) -> Iterator[Bound]:
        """Yields the calls of iterations, bound anew to tensors at the plan's addresses of their views."""
        linker = self._linker
        linker.used = set()
        for some, numbers, each in linker.bind_loop(calls, iterations, steps):
            bound = list(zip(*each, strict=True))
            for view in linker.used:
                tensors = linker.tensors.of(view, some)
                for iteration, tensor in zip(some, tensors, strict=True):
                    if tensor.numel() and _layout(tensor) != _layout_in_plan(linker, view, iteration):
                        raise ProofError(
                            f"view {view} is bound to other memory in iteration {iteration} than the plan says. It is "
                            "not used. Please report it with the network and the request"
                        )
            for iteration, runs in zip(some, bound, strict=bool(numbers)):
                yield from (Bound(iteration, *each) for each in zip(numbers, runs, strict=True))


class _InOrder:
    """Bound calls, taken in order. `next`: the call to be taken now."""

    def __init__(self, bound: Iterator[Bound]) -> None:
        self._bound = bound
        self.next = next(bound, None)

    def take(self, iteration: int, calls: range) -> list[BoundCall]:
        """Returns the bound calls for given calls in an iteration. Raises ProofError if the next call is not given."""
        found = []
        while self.next is not None and self.next.iteration == iteration and self.next.call in calls:
            found.append(self.next.run)
            self.next = next(self._bound, None)
        if not found:
            due = f"call {self.next.call} in iteration {self.next.iteration}" if self.next else "nothing"
            raise ProofError(f"it runs in iteration {iteration}, where {due} is due")
        return found


def _difference(found: list[Meaning], expected: list[Meaning]) -> str:
    if len(found) != len(expected):
        return f"{len(found)}, expected {len(expected)}"
    number, (got, wanted) = next(
        (number, pair) for number, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]
    )
    return f"operation {number} is {got}, expected {wanted}"


def _are_same(one: Any, other: Any) -> bool:
    """Tells whether calls, or operands of calls, do the same."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return _layout(one) == _layout(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_are_same, one, other))
    if isinstance(one, partial):
        named = one.keywords.keys() == other.keywords.keys()
        return named and _are_same(
            [one.func, *one.args, *one.keywords.values()], [other.func, *other.args, *other.keywords.values()]
        )
    if isinstance(one, MethodType):  # parts of kernels are made when they are looked up
        state, as_state = (list(vars(each.__self__).items()) for each in (one, other))
        return one.__func__ is other.__func__ and _are_same(state, as_state)
    if isinstance(one, FunctionType) and one.__code__ is other.__code__:
        held, as_held = ([cell.cell_contents for cell in each.__closure__ or ()] for each in (one, other))
        return _are_same(held, as_held)
    return one == other or one != one  # a NaN


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _layout_in_plan(linker: Linker, view: int, iteration: int) -> tuple[Any, ...]:
    """Returns `_layout` of a view's tensor in an iteration, computed from the numbers of the plan."""
    plan: Plan = linker.plan
    lane, start, column, outer, inner, cols, outer_stride, stride, iteration_stride, uneven = plan.views[view].tolist()
    begin = start + iteration * iteration_stride
    if uneven:
        first, inner = plan.uneven[uneven - 1][iteration].tolist()
        outer, begin = 0, start + first * stride
    if lane >= 0:
        dtype, address, of_row, of_column = DTYPES[plan.lanes[lane]], linker.arena.storage.data_ptr(), 1, 1
    else:
        memory = linker.outside[plan.outside[-1 - lane].name]
        dtype, address, (of_row, of_column) = memory.dtype, memory.data_ptr(), memory.stride()
    address += (begin * of_row + column * of_column) * dtype.itemsize
    shape, strides = torch.Size((inner, cols)), (stride * of_row, of_column)
    if not outer:
        return address, dtype, shape, strides
    return address, dtype, torch.Size((outer, *shape)), (outer_stride * of_row, *strides)
