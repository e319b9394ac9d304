"""PlanMachine: runs the calls of a plan on elements of a finite field, as `ir.proof.machine.Machine` runs commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from nnet3.engine.ir.commands import Backprop, Command, Propagate, PropagateAgain, Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode, with_values
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements, reduced
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.plan_memory import PlanMemory
from nnet3.errors import ProofError

#: The number of the program's columns, and of the random elements that stand for what a plan leaves undefined.
PROGRAM, _UNDEFINED = 0, 1

#: Does what calls of an opcode do, from its integers and its number.
Meaning = Callable[["PlanMachine", Sequence[int], float], None]


class PlannedProgram:
    """A plan beside its program: each view as a sub-matrix of `views`, with the view's number plus one."""

    def __init__(self, computation: NnetComputation, plan: Plan) -> None:
        self.computation, self.plan = computation, plan
        args, starts = plan.call_args.tolist(), plan.call_start.tolist()
        opcodes = [plan.opcodes[opcode] for opcode in plan.call_opcode.tolist()]
        call_args = [args[start:end] for start, end in pairwise(starts)]
        self.calls = list(zip(opcodes, call_args, plan.call_number.tolist(), plan.call_command.tolist(), strict=True))
        self.loops = {first: loop for first, *loop in plan.loops.tolist()}
        self.iterations: dict[int, int] = {}  # of the loops that use a view
        self._starts = plan.spans[:, 3]
        self._ends = self._starts + [self._size(key) for key in plan.spans[:, 0].tolist()]
        blocks = [SubMatrix(0, 0, 0, 0, 0)] * (1 + len(plan.views))
        self.views_of_call = [self._views_of(*call[:2]) for call in self.calls]
        iterations_of_call = {
            call: iterations for first, (end, iterations, *_) in self.loops.items() for call in range(first, end)
        }
        for number, views in enumerate(self.views_of_call):
            for view in views:
                self.iterations[view] = max(self.iterations.get(view, 1), iterations_of_call.get(number, 1))
                if blocks[view + 1].num_cols == 0:
                    blocks[view + 1] = self._block(view, self.calls[number][3])
        outside = [bound._replace(submatrix=len(blocks) + k) for k, bound in enumerate(computation.outside)]
        blocks += [computation.submatrices[bound.submatrix] for bound in computation.outside]
        whole = [(-1 - k, 0, 0, 0, each.num_rows, each.num_cols, 0, 1, 0, 0) for k, each in enumerate(plan.outside)]
        #: Those of the plan, then all of each outside memory.
        self.table = np.concatenate([plan.views, np.array(whole, np.int64).reshape(-1, 10)])
        self.views = NnetComputation(
            matrices=computation.matrices,
            submatrices=blocks,
            matrix_info=computation.matrix_info,
            outside=outside,
            kernels=computation.kernels,
        )

    def span(self, view: int) -> ColumnSpan:
        """Returns the columns of a view in its matrix of the program; negative matrices are scratch memory."""
        block = self.views.submatrices[view + 1]
        return ColumnSpan((PROGRAM, block.matrix), block.col_offset, block.num_cols)

    def command(self, call: int) -> Command:
        """Returns the command of a kernel's call, on views."""
        opcode, args, _, owner = self.calls[call]
        node = getattr(self.computation.commands[owner], "node", "")
        if opcode == "backprop":
            kernel, precomputed, update, memo, _, output, output_deriv, count, *operands = args
            derivs, added = operands[count : 2 * count], operands[2 * count :]
            numbers, inputs = self._numbers(derivs), self._numbers(operands[:count])
            filled = tuple([0 if adds else each for each, adds in zip(numbers, added, strict=True)])
            sums = tuple([each if adds else 0 for each, adds in zip(numbers, added, strict=True)])
            values, deriv = self._numbers([output, output_deriv])
            return Backprop(kernel, node, inputs, values, deriv, filled, sums, bool(update), precomputed, memo)
        if opcode == "propagate":
            kernel, precomputed, output, *inputs = args
            return Propagate(kernel, node, self._numbers(inputs), output + 1, precomputed)
        if opcode == "propagate again":
            kernel, precomputed, memo, output, *inputs = args
            return PropagateAgain(kernel, node, self._numbers(inputs), output + 1, precomputed, memo)
        kernel, precomputed, output, memo, stores, *inputs = args
        return Propagate(kernel, node, self._numbers(inputs), output + 1, precomputed, memo, bool(stores))

    def _numbers(self, views: Sequence[int]) -> tuple[int, ...]:
        empty = self.plan.views
        return tuple([view + 1 if view >= 0 and empty[view, 5] else 0 for view in views])

    def add_columns(self, columns: Columns) -> None:
        """Cut the columns of views alike where calls have views beside each other. ProofError if widths differ."""
        known = set()
        for number, ((opcode, args, *_), views) in enumerate(zip(self.calls, self.views_of_call, strict=True)):
            spans = [self.span(view) for view in views]
            is_port = opcode in ("accept", "provide")
            key = opcode, args[0] if opcode in KERNEL_CALLS else args[1] if is_port else -1, *spans
            if key in known:
                continue
            known.add(key)
            for span in spans:
                columns.use(span)
            if opcode in KERNEL_CALLS:
                for submatrix, space, first in self.command(number).columns(self.views):
                    own = self.span(submatrix - 1)
                    columns.link(own, ColumnSpan(space, first, own.width))
            elif is_port:
                columns.link(spans[0], ColumnSpan(("name", self.plan.texts[args[1]]), 0, spans[0].width))
            else:
                widths = {span.width for span in spans}
                if len(widths) > 1:
                    raise ProofError(f"call {number} of the plan, '{opcode}', has views of {sorted(widths)} columns")
                for span in spans[1:]:
                    columns.link(spans[0], span)

    def _views_of(self, opcode: str, args: Sequence[int]) -> list[int]:
        if opcode not in VIEWS:
            raise ProofError(
                f"the plan has calls of opcode '{opcode}', which has no meaning in nnet3.engine.runtime.proof"
            )
        return [view for view in VIEWS[opcode](args) if view >= 0 and self.plan.views[view, 5]]

    def _block(self, view: int, command: int) -> SubMatrix:
        """Returns the columns of the matrix in whose storage a view begins at a command."""
        lane, start, col, _, inner, cols = self.plan.views[view, :6].tolist()
        if lane < 0:
            bound = self.computation.outside[-1 - lane]
            return SubMatrix(self.computation.submatrices[bound.submatrix].matrix, 0, inner, col, cols)
        size = DTYPES[self.plan.lanes[lane]].itemsize
        _, first, last, _ = self.plan.spans.T
        is_there = (first <= command) & (command <= last) & (self._starts <= start * size) & (start * size < self._ends)
        for number in np.flatnonzero(is_there).tolist():
            matrix = abs(int(self.plan.spans[number, 0]))
            col = (start - int(self._starts[number]) // size) % self.computation.matrices[matrix].num_cols
            return SubMatrix(matrix, 0, inner, col, cols)
        return SubMatrix(-1 - start - (command << 40), 0, inner, 0, cols)

    def _size(self, key: int) -> int:
        matrix = self.computation.matrices[abs(key)]
        size = 1 if key < 0 else DTYPES[self.plan.dtype].itemsize
        return matrix.num_rows * matrix.num_cols * size


def _all(args: Sequence[int]) -> Sequence[int]:
    return args


#: The views among the integers of a call, by opcode.
VIEWS: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "propagate": lambda args: args[2:],
    "propagate and keep": lambda args: [args[2], *args[5:]],
    "propagate again": lambda args: args[3:],
    "backprop": lambda args: [*args[5:7], *args[8 : 8 + 2 * args[7]]],
    "accept": lambda args: args[:1],
    "provide": lambda args: args[:1],
    "zero rows": lambda args: args[:1],
    "select rows": lambda args: args[:2],
    "copy to rows": lambda args: args[::2],
    "add to rows": lambda args: args[::2],
}
VIEWS |= dict.fromkeys(["zero", "copy", "add", "positive", "sum", "fill", "scale"], _all)
VIEWS |= dict.fromkeys(["scaled copy", "scaled add", "undefined", "cat", "copy each", "add each"], _all)
KERNEL_CALLS = {"propagate", "propagate and keep", "propagate again", "backprop"}


class PlanMachine(Machine):
    """The state of a run of a plan. Numbers of sub-matrices are those of `PlannedProgram.views`."""

    def __init__(self, program: PlannedProgram, randoms: Randoms) -> None:
        super().__init__(program.views, PROGRAM, randoms, _UNDEFINED)
        self.program, self.plan, self.call = program, program.plan, 0
        used = [*program.iterations, *(bound.submatrix - 1 for bound in self.computation.outside)]
        spans = {view: program.span(view) for view in used}
        self.memory = PlanMemory(self.plan, program.table, spans, program.iterations, randoms.columns, self._undefined)
        self._apart: set[tuple[int, ...]] = set()
        self._repeat_of = {number: repeat for repeat, body in program.computation.repeats() for number in body}
        self._equal_entries: set[tuple[int, int]] = set()

    @property
    def iteration(self) -> int:
        return self._iteration

    @property
    def opcode(self) -> str:
        """The opcode of the call that runs now."""
        return self.program.calls[self.call][0]

    # ---- running ----

    def run_by(self, meanings: dict[str, Meaning]) -> None:
        """Run all segments, each loop iteration by iteration. A ProofError names the call."""
        plan = self.plan
        for bound in self.computation.outside:
            self.write(bound.submatrix, self._named(("outside", bound.name), bound.submatrix))
        for segment in plan.segments:
            self._ports = {
                (port.name, is_provided): port
                for is_provided, ports in enumerate((segment.accepts, segment.provides))
                for port in ports
            }
            number = segment.first_call
            while number < segment.end_call:
                end, iterations, *steps = self.program.loops.get(number, (number + 1, 1, 0, 0))
                self._steps = steps
                for iteration in range(iterations):
                    self._iteration = iteration
                    for call in range(number, end):
                        self.call = call
                        self._run_call(meanings)
                self._iteration, number = 0, end
        for bound in self.computation.outside:
            if bound.writable:
                self.outputs["memory", bound.name, 0] = self.read(bound.submatrix)

    def _run_call(self, meanings: dict[str, Meaning]) -> None:
        opcode, args, number, owner = self.program.calls[self.call]
        try:
            meanings[opcode](self, args, number)
        except ProofError as error:
            raise ProofError(f"call {self.call} of the plan, '{opcode}' of command c{owner}: {error}") from None

    def kernel(self) -> None:
        """Do what a call of a kernel does."""
        command: Any = self.program.command(self.call)
        opcode, args, _, owner = self.program.calls[self.call]
        memo_step, precomputed_step = self._steps
        if command.memo >= 0 and memo_step * self._iteration:
            command = with_values(command, memo=command.memo + memo_step * self._iteration)
        if command.memo >= self.plan.num_memos:
            raise ProofError(f"it has memo {command.memo}, and there are {self.plan.num_memos}")
        step = precomputed_step * self._iteration if command.precomputed else 0
        self._check_precomputed(command.precomputed + step, self.program.computation.commands[owner])
        self._check_kernel(command)
        written = [each.submatrix for each in command.accesses(self.computation) if each.mode != AccessMode.READ]
        read = [each.submatrix for each in command.accesses(self.computation) if each.mode == AccessMode.READ]
        self.check_apart(written, read, set(command.in_place_pairs(self.computation)))
        command.evaluate(self)
        if opcode == "backprop" and args[4]:
            self.memos.pop(command.memo, None)

    def _check_precomputed(self, number: int, command: Any) -> None:
        repeat: Repeat | None = self._repeat_of.get(self.program.calls[self.call][3])
        expected = command.precomputed
        if expected and repeat is not None:
            expected += repeat.precomputed_step * self._iteration
        if (number, expected) in self._equal_entries:
            return
        one, other = self.plan.precomputed[number], self.program.computation.precomputed[expected]
        same = (one or {}).keys() == (other or {}).keys()
        if not same or not all(np.array_equal(array, (other or {})[name]) for name, array in (one or {}).items()):
            raise ProofError(f"precomputed entry {number} of the plan is not entry {expected} of the program")
        self._equal_entries.add((number, expected))

    def _check_kernel(self, command: Any) -> None:
        planned, info = self.plan.kernels[command.kernel], self.computation.kernels[command.kernel]
        flags = info.updatable, info.is_frozen
        if (planned.name, planned.updatable, planned.is_frozen) != (info.name, *flags):
            raise ProofError(f"it runs kernel '{planned.name}', expected '{info.name}'")
        is_backward = isinstance(command, Backprop)
        if is_backward and command.update and not planned.is_updated:
            raise ProofError(f"it updates kernel '{info.name}', and the plan says that nothing does")
        if not is_backward and command.store_stats and not planned.stores_stats:
            raise ProofError(f"it stores statistics of kernel '{info.name}', and the plan says that nothing does")

    def check_apart(self, written: Sequence[int], read: Sequence[int], in_place: set[tuple[int, int]]) -> None:
        """Raise ProofError if what is written overlaps with what is read, but for the pairs (read, written) given."""
        key = (*written, -1, *read)
        if key in self._apart:
            return
        pairs = [*combinations(written, 2), *((one, other) for one in written for other in read)]
        for one, other in pairs:
            cells, others = self._cells(one), self._cells(other)
            same = (
                (other, one) in in_place
                and np.array_equal(cells.first, others.first)
                and np.array_equal(cells.marks, others.marks)
            )
            if not same and self.memory.meet(cells, others):
                raise ProofError(f"it writes view {one - 1} where view {other - 1} lies, which it reads or writes")
        for number in written:
            if number and self.memory.overlaps_itself(self._cells(number)):
                raise ProofError(f"rows of view {number - 1}, which it writes, overlap")
            if number and self.plan.views[number - 1, 0] < 0 and not self._is_writable(number):
                raise ProofError(f"it writes to outside memory that the program only reads, in view {number - 1}")
        if not any(self.memory.moves(number - 1) for number in (*written, *read) if number):
            self._apart.add(key)

    def _is_writable(self, number: int) -> bool:
        return self.computation.outside[-1 - int(self.plan.views[number - 1, 0])].writable

    def check_port(self, number: int, name: str, *, is_provided: bool) -> None:
        """Raise ProofError unless the segment has a port of the given name and the view's size.

        A stream accepts and provides its state under one name.
        """
        port = self._ports.get((name, is_provided))
        shape = *self.memory.shape(number - 1, 0), self.computation.submatrices[number].num_cols
        if port is None or port.shape != shape:
            raise ProofError(f"'{name}' has shape {shape}, and its port {None if port is None else port.shape}")

    # ---- memory ----

    def _cells(self, number: int) -> Any:
        return self.memory.cells(number - 1, self._iteration)

    def read(self, submatrix: int) -> Elements:
        """Returns a copy of what lies in a view, (rows, blocks, 2)."""
        return self.memory.read(self._cells(submatrix)) if submatrix else np.zeros((0, 0, 2), np.uint64)

    def write(self, submatrix: int, values: Elements) -> None:
        self.memory.write(self._cells(submatrix), values)

    def add(self, submatrix: int, values: Elements) -> None:
        self.write(submatrix, reduced(self.read(submatrix) + values))

    def num_rows(self, submatrix: int) -> int:
        return len(self._cells(submatrix).first) if submatrix else 0

    def rows(self, index: int, count: int, of: int) -> np.ndarray:
        """Returns a table of rows of a view. Raises ProofError unless the rows exist, in the right number if known."""
        rows = self.plan.indexes[index]
        if count not in (-1, len(rows)) or (len(rows) and not (rows.min() >= 0 and rows.max() < self.num_rows(of))):
            raise ProofError(f"index table {index} has not {count} rows of view {of - 1}")
        return rows
