"""Consecutive calls made by native code: one call of a C function, in a loop one call for all iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native import operations
from nnet3.base.native.codes import Code
from nnet3.base.native.fastest import fastest
from nnet3.base.native.library import library
from nnet3.base.native.operations import (
    ADDRESSES,
    COUNTED,
    FLOAT_BYTES,
    OF_ROW,
    OF_TURN,
    SCRATCH,
    SIZES,
    TABLE,
    Operations,
    Row,
    reads_scratch,
    size_of_panels,
)
from nnet3.base.native.panels import columns_of_panel
from nnet3.base.native.ranges import Ranges, ReachableMemory, check_scratch
from nnet3.engine.runtime.calls import scaled_copy
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.linker import BoundCall
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.view_operations import ViewOperations, joined
from nnet3.engine.runtime.view_tensors import NO_ADDRESSES, ViewAddresses
from nnet3.errors import ProofError

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


def scratch_memory(num_floats: int) -> Tensor:
    """Returns memory for panels."""
    return torch.empty(num_floats, dtype=torch.float32, device="cpu")


class PackedWeights:
    """The panels of weights that do not change while a segment runs, shared by native runs in the segment.

    The first run that needs panels makes them. `memory_of` gives memory of at least so many floats.
    """

    def __init__(self, memory_of: Callable[[int], Tensor] = scratch_memory) -> None:
        self._memory_of, self.num_floats = memory_of, 0
        self._memory: Tensor | None = None
        self._begins: dict[Row, int] = {}  # by the operation that makes panels
        self._made: set[int] = set()  # where panels begin that are made

    def begin_of(self, row: Row, size: int) -> int:
        """Returns where the panels begin that an operation makes, `size` floats."""
        begin = self._begins.setdefault(row, self.num_floats)
        self.num_floats += size if begin == self.num_floats else 0
        return begin

    def forget(self) -> None:
        """Notes that weights may have changed."""
        self._made.clear()
        self._memory = None

    def made(self, begins: Sequence[int], make: Callable[[int, int], object]) -> int:
        """Returns the address of memory with panels from `begins` on; `make(number, address)` makes those that lack."""
        if self._memory is None or len(self._memory) < self.num_floats:
            self.forget()
            self._memory = self._memory_of(self.num_floats)
        address: int = self._memory.data_ptr()
        for number, begin in enumerate(begins):
            if begin not in self._made:
                make(number, address)
                self._made.add(begin)
        return address


class NativeRun:
    """Operations that run in order in each of some iterations. Weights are packed before the first iteration."""

    def __init__(
        self,
        operations: ViewOperations,
        num_iterations: int = 1,
        addresses: ViewAddresses = NO_ADDRESSES,
        weights: PackedWeights | None = None,
    ) -> None:
        """`addresses`: those of the plan's views. `weights`: shared ones; by default weights are packed for this run.

        Raises ValueError for operations not continued by their tables.
        """
        found, bound = library(), operations.bound_to(addresses)
        assert found is not None
        if bound is None:
            raise ValueError("rows differ that were equally many")
        self._weights, self._shares = weights or PackedWeights(), weights is not None
        packing: dict[Row, tuple[int, int]] = {}  # operation, and where its panels begin
        order, scratch = list[int](), list[int]()
        width, panels = columns_of_panel(), 0
        for number, row in enumerate(map(tuple, bound[0].tolist())):
            size = size_of_panels(row, width)
            if not size:
                order.append(number)
                scratch.append(panels if reads_scratch(row) else row[SCRATCH])
                continue
            _, panels = packing.setdefault(row, (number, self._weights.begin_of(row, size)))
        before = [number for number, _ in packing.values()]
        self._panels = [begin for _, begin in packing.values()]
        numbers, scratch_of = np.array([*before, *order], np.int64), np.array([*self._panels, *scratch], np.int64)
        self._operations = operations.in_order(numbers, scratch_of)
        rows, moves = (each[numbers] for each in bound)
        rows[:, SCRATCH] = scratch_of
        self._num_before, self._num_rows, self._num_iterations = len(before), len(rows), num_iterations
        pointers = np.array([table.ctypes.data for table in addresses.tables], np.int64)
        self._arrays, self._run = [rows, moves, pointers, *addresses.tables], found.nnet3_run
        self._addresses = addresses
        self._ranges: Ranges | None = None  # of the present operations, when they are checked
        self.lie_in(rows, moves)
        check_scratch(rows, moves, self._weights.num_floats, width)

    def move(self, num_iterations: int, addresses: ViewAddresses) -> bool:
        """Move to `addresses` and to `num_iterations` iterations; returns False, and changes nothing, where moving is
        impossible."""
        bound = self._operations.bound_to(addresses)
        if bound is None:
            return False
        if (bound.rows[:, SIZES] != self._arrays[0][:, SIZES])[: self._num_before].any():
            return False  # panels would be others
        for array, own in zip(self._arrays, bound, strict=False):
            array[:] = own
        self.moved(num_iterations, addresses)
        return True

    def lie_in(self, rows: np.ndarray, moves: np.ndarray) -> None:
        """Take operations and moves from these arrays from now on, whoever changes them."""
        self._arrays[:2] = rows, moves
        self._function = partial(self._run, *(array.ctypes.data for array in self._arrays[:3]))

    def moved(self, num_iterations: int, addresses: ViewAddresses) -> None:
        """Note that operations and moves have changed to these of `addresses`."""
        self._arrays[2][:] = [table.ctypes.data for table in addresses.tables]
        self._arrays[3:], self._num_iterations = addresses.tables, num_iterations
        self._addresses, self._ranges = addresses, None

    @property
    def uses_tables(self) -> bool:
        """True if some rows come from tables of iterations."""
        return bool((self._arrays[1][:, TABLE.start :] >= 0).any())

    def is_at(self, num_iterations: int, addresses: ViewAddresses) -> bool:
        """True if it has moved there last."""
        return addresses is self._addresses and num_iterations == self._num_iterations

    def check(self, memory: ReachableMemory) -> None:
        """Check that no iteration uses foreign memory. Raises ExecutionError."""
        rows, moves, _, *tables = self._arrays
        if self._num_rows:
            self._ranges = self._ranges or Ranges(rows, moves)
            memory.check(self._ranges, rows[:, ADDRESSES], tables, self._num_iterations)

    @property
    def unpacked(self) -> tuple[int, int, int, int] | None:
        """The addresses of operations, moves and tables, and the number of operations; None if weights are packed."""
        operations, moves, tables = (array.ctypes.data for array in self._arrays[:3])
        return None if self._num_before else (operations, moves, tables, self._num_rows)

    @property
    def packed(self) -> np.ndarray:
        """The operations that pack weights before the first iteration."""
        return self._arrays[0][: self._num_before]

    def in_iterations(self, iterations: range) -> list[list[Row]]:
        """Returns the operations of every iteration, as operations.c makes them of rows, moves and tables.

        The packing of weights stands before each product with packed weights; panels begin at 0. Raises ProofError for
        tables shorter, or lying elsewhere, than native code expects.
        """
        rows, moves, pointers, *tables = self._arrays
        used = [each for each in np.unique(moves[:, TABLE.start :]).tolist() if each >= 0]
        are_theirs = pointers.tolist() == [table.ctypes.data for table in tables]
        if not are_theirs or any(len(tables[each]) < iterations.stop for each in used):
            raise ProofError("native code would take rows from other tables than those of its loop")
        packing = {int(row[SCRATCH]): number for number, row in enumerate(self.packed)}
        order = list[int]()
        for number in range(self._num_before, self._num_rows):
            order += [packing[int(rows[number, SCRATCH])]] if reads_scratch(rows[number]) else []
            order.append(number)
        now, moves = np.repeat(rows[None, order], len(iterations), axis=0), moves[order]
        of_iteration, of_row, table, counted = (moves[:, part] for part in (OF_TURN, OF_ROW, TABLE, COUNTED))
        blocks = np.zeros((len(tables) + 1, len(iterations), 2), np.int64)  # the last ones for no table
        for each in used:
            blocks[each] = tables[each][iterations.start : iterations.stop]
        first, count = np.moveaxis(blocks, 2, 0)
        steps = np.array(iterations)[:, None, None] * of_iteration + np.moveaxis(first[table], 2, 0) * of_row
        now[..., ADDRESSES] += np.where(now[..., ADDRESSES], FLOAT_BYTES * steps, 0)
        now[..., SIZES] = np.where(counted < 0, now[..., SIZES], np.moveaxis(count[counted], 2, 0))
        now[..., SCRATCH] = np.where(np.isin(now[..., 0], (Code.PACK, Code.PANELS)), 0, now[..., SCRATCH])
        return [list(map(tuple, each)) for each in now.tolist()]

    def __call__(self, start: int, stop: int) -> None:
        """Run them in iterations [start, stop)."""
        address = None
        if self._num_before:
            if start == 0 and not self._shares:
                self._weights.forget()
            address = self._weights.made(self._panels, self._pack)
        self._function(self._num_before, self._num_rows, start, stop, address, torch.get_num_threads())

    def _pack(self, number: int, address: int) -> None:
        self._function(number, number + 1, 0, 1, address, 1)


class NativeRuns:
    """Native runs that move together: what is done for each array of operations is done once."""

    def __init__(self, runs: Sequence[NativeRun]) -> None:
        self.runs = list(runs)
        self._operations = joined([run._operations for run in runs])
        self._sizes = [run._num_rows for run in runs]
        self._packs = np.concatenate([np.arange(run._num_rows) < run._num_before for run in runs])
        self._rows, self._moves = (np.concatenate([run._arrays[part] for run in runs]) for part in (0, 1))
        ends = np.cumsum(self._sizes)[:-1]
        for run, rows, moves in zip(runs, *(np.split(each, ends) for each in (self._rows, self._moves)), strict=True):
            run.lie_in(rows, moves)
        self._ranges = Ranges(self._rows, self._moves)

    def move(self, num_iterations: Sequence[int], addresses: ViewAddresses, memory: ReachableMemory) -> bool:
        """Move all to `addresses`, each to its number of iterations, and check that they use `memory` alone.

        Returns False, and changes no run, where a run cannot be moved, uses tables or would use other memory.
        """
        bound = self._operations.bound_to(addresses)
        if bound is None:
            return False
        rows, moves = bound
        differs = rows[:, SIZES] != self._rows[:, SIZES]
        if differs[self._packs].any() or (addresses.tables and (moves[:, TABLE.start :] >= 0).any()):
            return False
        if (moves != self._moves).any():
            self._ranges = Ranges(rows, moves)
        elif differs.any():
            self._ranges.resize(rows)
        if not memory.holds(self._ranges, rows[:, ADDRESSES], np.repeat(num_iterations, self._sizes)):
            return False
        self._rows[:], self._moves[:] = rows, moves
        for run, iterations in zip(self.runs, num_iterations, strict=True):
            run.moved(iterations, addresses)
        return True


class Group(NamedTuple):
    """Consecutive calls, by position, and the native run that makes them all in an iteration; None for Python."""

    calls: list[int]
    run: NativeRun | None


def native_kernels(plan: Plan, kernels: Kernels) -> list[Any]:
    """Returns the kernels of a plan that want native code; none without native code."""
    if plan.dtype != "float32":
        return []
    found = [kernels.find(kernel) for kernel in plan.kernels if kernel.output_width >= 0]
    wanting = [kernel for kernel in found if getattr(kernel, "is_native", False)]
    return wanting if wanting and library() is not None else []


def in_groups(
    calls: Sequence[BoundCall],
    operations: Sequence[ViewOperations | None],
    addresses: ViewAddresses,
    num_iterations: int = 1,
    *,
    together: bool,
    weights: PackedWeights | None = None,
    packed_anyway: Set[int] = frozenset(),
) -> list[Group]:
    """Groups calls by maker, native code or Python; unless `together`, each call is a separate group.

    Native code makes all calls with `operations`, if a kernel's call is among the calls. Weights are packed for many
    iterations in which nothing changes the weights; those in the views `packed_anyway` are packed for many others.
    """
    is_native = [
        _goes(each, addresses, max(num_iterations, _FEWEST_TURNS) if _packs_in(each, packed_anyway) else num_iterations)
        for each in operations
    ]
    groups: list[Group] = []
    for are_native, positions in groupby(range(len(calls)), lambda position: is_native[position]):
        numbers = list(positions)
        if not are_native or all(_function(calls[number]) in _ON_VIEWS for number in numbers):
            groups += [Group([number], None) for number in numbers]
            continue
        for part in [numbers] if together else [[number] for number in numbers]:
            made = joined([each for number in part if (each := operations[number]) is not None])
            groups.append(Group(part, NativeRun(made, num_iterations, addresses, weights)))
    return groups


def _packs_in(operations: ViewOperations | None, views: Set[int]) -> bool:
    """True if all weights that operations pack are in some of these views."""
    return operations is not None and operations.packed_views <= views


def views_of_long_loops(plan: Plan) -> set[int]:
    """Returns numbers of views, among others, that calls use in loops for which weights are packed."""
    ranges = [(first, end) for first, end, iterations, *_ in plan.loops.tolist() if iterations >= _FEWEST_TURNS]
    starts = plan.call_start
    return {view for first, end in ranges for view in plan.call_args[starts[first] : starts[end]].tolist()}


def _goes(operations: ViewOperations | None, addresses: ViewAddresses, num_iterations: int) -> bool:
    """True if there are operations that go on as their views do, and weights are packed well or not at all."""
    if operations is None or operations.bound_to(addresses) is None:
        return False
    packed = operations.rows[:, 0] == Code.PACK
    return not packed.any() or (
        num_iterations >= _FEWEST_TURNS
        and fastest().packed == "panels"
        and operations.packs_constant(packed, addresses)
    )


def _function(call: BoundCall) -> Any:
    return call.func if isinstance(call, partial) else None


def operations_of(call: BoundCall) -> Operations | None:
    """Returns the operations equivalent to a call; None without any."""
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
