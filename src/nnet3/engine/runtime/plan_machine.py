"""PlanMachine: runs a plan on elements of a finite field, as a program whose sub-matrices are the plan's views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nnet3.engine.ir.commands import Backprop, Command, MatrixAdd, MatrixCopy, Propagate, PropagateAgain, Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.plan import Plan, SegmentPlan
from nnet3.engine.runtime.plan_memory import PlanMemory
from nnet3.errors import ProofError

#: The number of the program's columns, and of the random elements that stand for what a plan leaves undefined.
PROGRAM, _UNDEFINED = 0, 1
KERNEL_CALLS = {"propagate", "propagate and keep", "propagate again", "backprop"}
#: Opcodes of calls that may write where they read, element by element.
_IN_PLACE = {"copy", "scaled copy", "add", "scaled add", "positive", "scale"}


class PlannedCall(NamedTuple):
    """A call of a plan: its place, opcode, integers, number, its command in the program, and the segment."""

    call: int
    opcode: str
    args: list[int]
    number: float
    command: int
    segment: SegmentPlan

    def error(self, problem: object) -> ProofError:
        return ProofError(f"call {self.call} of the plan, '{self.opcode}' of command c{self.command}: {problem}")


class PlannedProgram:
    """A plan beside its program: the program `views` has each view as a sub-matrix, with the view's number plus one.

    `calls`: the call of each command of `views`, None for a Repeat; `commands_of`: those of a call, by its number;
    `iterations`: those of the loops that use a view.
    """

    def __init__(self, computation: NnetComputation, plan: Plan, meanings: Mapping[str, Meaning]) -> None:
        self.computation, self.plan, self._meanings = computation, plan, meanings
        self.views = NnetComputation(
            matrices=computation.matrices, matrix_info=computation.matrix_info, kernels=computation.kernels
        )
        self.calls: list[PlannedCall | None] = []
        self.commands_of: dict[int, list[Command]] = {}
        self.iterations: dict[int, int] = {}
        self._scratch: dict[tuple[int, int], int] = {}  # the matrix of memory that begins there at a command
        self._starts = plan.spans[:, 3]
        self._ends = self._starts + [self._size(key) for key in plan.spans[:, 0].tolist()]
        blocks = self.views.submatrices = [SubMatrix(0, 0, 0, 0, 0)] * (1 + len(plan.views))
        self._write_commands()
        self.views.outside = [bound._replace(submatrix=len(blocks) + k) for k, bound in enumerate(computation.outside)]
        blocks += [computation.submatrices[bound.submatrix] for bound in computation.outside]
        whole = [(-1 - k, 0, 0, 0, each.num_rows, each.num_cols, 0, 1, 0, 0) for k, each in enumerate(plan.outside)]
        #: Those of the plan, then all of each outside memory.
        self.table = np.concatenate([plan.views, np.array(whole, np.int64).reshape(-1, 10)])

    def _write_commands(self) -> None:
        """Write the commands of all segments, with a Repeat for each loop."""
        plan, starts = self.plan, self.plan.call_start.tolist()
        args = [plan.call_args[start:end].tolist() for start, end in pairwise(starts)]
        opcodes = [plan.opcodes[opcode] for opcode in plan.call_opcode.tolist()]
        parts = list(zip(opcodes, args, plan.call_number.tolist(), plan.call_command.tolist(), strict=True))
        loops = {first: loop for first, *loop in plan.loops.tolist()}
        for segment in plan.segments:
            call = segment.first_call
            while call < segment.end_call:
                end, iterations, *steps = loops.get(call, (call + 1, 1, 0, 0))
                calls = [PlannedCall(number, *parts[number], segment) for number in range(call, end)]
                self.commands_of |= {each.call: self._commands_of(each, iterations) for each in calls}
                body = [(each, command) for each in calls for command in self.commands_of[each.call]]
                self.calls += [None, *(each for each, _ in body)]
                self.views.commands += [Repeat(iterations, len(body), *steps), *(command for _, command in body)]
                call = end

    def _commands_of(self, call: PlannedCall, iterations: int) -> list[Command]:
        """Returns the commands of a call, whose views become known. Raises ProofError if they differ in width."""
        if call.opcode not in self._meanings:
            raise ProofError(
                f"the plan has calls of opcode '{call.opcode}', which has no meaning in nnet3.engine.runtime.proof"
            )
        try:
            commands = self._meanings[call.opcode](self, call)
        except (ProofError, ValueError) as error:  # as of a call with other integers than calls of its opcode have
            raise call.error(error) from None
        used = {number for command in commands for number in self._views_of(command) if number}
        for number in used:
            self.iterations[number - 1] = max(self.iterations.get(number - 1, 1), iterations)
            if self.views.submatrices[number].num_cols == 0:
                self.views.submatrices[number] = self._block(number - 1, call.command)
        widths = {self.views.submatrices[number].num_cols for number in used}
        if call.opcode not in KERNEL_CALLS and len(widths) > 1:
            raise ProofError(f"call {call.call} of the plan, '{call.opcode}', has views of {sorted(widths)} columns")
        return commands

    def _views_of(self, command: Command) -> Iterator[int]:
        yield from command.schema.operands(command)
        yield from (access.submatrix for access in command.accesses(self.views))

    def span(self, view: int) -> ColumnSpan:
        """Returns the columns of a view in its matrix of the program; those of scratch memory come after all."""
        block = self.views.submatrices[view + 1]
        return ColumnSpan((PROGRAM, block.matrix), block.col_offset, block.num_cols)

    def shape(self, view: int) -> tuple[int, ...]:
        """Returns the shape of a view without its columns: () if its rows depend on the iteration."""
        outer, inner = self.plan.views[view, 3:5].tolist()
        return () if self.plan.views[view, 9] else (outer, inner) if outer else (inner,)

    def num_rows(self, view: int) -> int:
        """Returns the rows of a view, 0 if they depend on the iteration."""
        return prod(self.shape(view) or (0,))

    def rows(self, index: int, of: int, count: int = -1) -> np.ndarray:
        """Returns a table of rows of a view. Raises ProofError unless the rows exist, in the right number if known."""
        rows = self.plan.indexes[index]
        if count not in (-1, len(rows)) or (len(rows) and not 0 <= rows.min() <= rows.max() < self.num_rows(of)):
            raise ProofError(f"index table {index} has not {count} rows of view {of}")
        return rows

    def kernel_command(self, call: PlannedCall) -> Command:
        """Returns the command of a kernel's call, on views."""
        args = call.args
        node = getattr(self.computation.commands[call.command], "node", "")
        if call.opcode == "backprop":
            kernel, precomputed, update, memo, _, output, output_deriv, count, *operands = args
            derivs, added = operands[count : 2 * count], operands[2 * count :]
            numbers, given = self._numbers(derivs), self._numbers(operands[:count])
            filled = tuple([0 if adds else each for each, adds in zip(numbers, added, strict=True)])
            sums = tuple([each if adds else 0 for each, adds in zip(numbers, added, strict=True)])
            values, deriv = self._numbers([output, output_deriv])
            return Backprop(kernel, node, given, values, deriv, filled, sums, bool(update), precomputed, memo)
        if call.opcode == "propagate again":
            kernel, precomputed, memo, output, *inputs = args
            return PropagateAgain(kernel, node, self._numbers(inputs), output + 1, precomputed, memo)
        kernel, precomputed, output, *rest = args
        memo, stores, *inputs = rest if call.opcode == "propagate and keep" else (-1, False, *rest)
        return Propagate(kernel, node, self._numbers(inputs), output + 1, precomputed, memo, bool(stores))

    def _numbers(self, views: Sequence[int]) -> tuple[int, ...]:
        empty = self.plan.views
        return tuple([view + 1 if view >= 0 and empty[view, 5] else 0 for view in views])

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
        scratch = self._scratch.setdefault((start, command), len(self.computation.matrices) + len(self._scratch))
        return SubMatrix(scratch, 0, inner, 0, cols)

    def _size(self, key: int) -> int:
        matrix = self.computation.matrices[abs(key)]
        size = 1 if key < 0 else DTYPES[self.plan.dtype].itemsize
        return matrix.num_rows * matrix.num_cols * size


#: Returns the commands that do what a call does.
Meaning = Callable[[PlannedProgram, PlannedCall], list[Command]]


class PlanMachine(ProgramMachine):
    """The state of a run of a plan. Numbers of sub-matrices are those of `PlannedProgram.views`."""

    def __init__(self, program: PlannedProgram, randoms: Randoms) -> None:
        super().__init__(program.views, PROGRAM, randoms, _UNDEFINED)
        self.program, self.plan = program, program.plan
        used = [*program.iterations, *(bound.submatrix - 1 for bound in self.computation.outside)]
        spans = {view: program.span(view) for view in used}
        self.memory = PlanMemory(self.plan, program.table, spans, program.iterations, randoms.columns, self._undefined)
        self._apart: set[int] = set()
        self._repeat_of = {number: repeat for repeat, body in program.computation.repeats() for number in body}
        self._equal_entries: set[tuple[int, int]] = set()

    def _evaluate(self, command: Any) -> None:
        """Do what a call of the plan does. A ProofError names the call."""
        call = self.program.calls[self.number]
        assert call is not None
        try:
            self._check_apart(call)
            if call.opcode in KERNEL_CALLS:
                self._check_kernel(command)
                self._check_precomputed(command.precomputed, call.command)
            elif call.opcode in ("accept", "provide"):
                self._check_port(call, command.name)
            elif isinstance(command, (MatrixCopy, MatrixAdd)):
                shapes = [self.memory.shape(each - 1, self._iteration) for each in (command.dest, command.source)]
                if shapes[0] != shapes[1]:
                    raise ProofError(f"view {command.dest - 1} has the rows {shapes[0]}, the other one {shapes[1]}")
            super()._evaluate(command)
        except (ProofError, IndexError) as error:
            raise call.error(error) from None
        if call.opcode == "backprop" and call.args[4]:
            self.memos.pop(command.memo, None)

    def _spoiled(self, command: Command) -> list[int]:
        return []  # such a call is an error

    def _check_precomputed(self, number: int, owner: int) -> None:
        command: Any = self.program.computation.commands[owner]
        repeat: Repeat | None = self._repeat_of.get(owner)
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
        if command.memo >= self.plan.num_memos:
            raise ProofError(f"it has memo {command.memo}, and there are {self.plan.num_memos}")
        planned, info = self.plan.kernels[command.kernel], self.computation.kernels[command.kernel]
        flags = info.updatable, info.is_frozen
        if (planned.name, planned.updatable, planned.is_frozen) != (info.name, *flags):
            raise ProofError(f"it runs kernel '{planned.name}', expected '{info.name}'")
        is_backward = isinstance(command, Backprop)
        if is_backward and command.update and not planned.is_updated:
            raise ProofError(f"it updates kernel '{info.name}', and the plan says that nothing does")
        if not is_backward and command.store_stats and not planned.stores_stats:
            raise ProofError(f"it stores statistics of kernel '{info.name}', and the plan says that nothing does")

    def _check_port(self, call: PlannedCall, name: str) -> None:
        """Raise ProofError unless the segment has the port, of the view's size.

        A stream accepts and provides its state under one name.
        """
        view, segment = call.args[0], call.segment
        ports = {port.name: port for port in (segment.provides if call.opcode == "provide" else segment.accepts)}
        shape = *self.memory.shape(view, 0), self.program.span(view).width
        if name not in ports or ports[name].shape != shape:
            raise ProofError(f"'{name}' has shape {shape}, and its port {ports[name].shape if name in ports else None}")

    def _check_apart(self, call: PlannedCall) -> None:
        """Raise ProofError if what a call writes overlaps with what it reads, but where it may."""
        if call.call in self._apart:
            return
        commands = self.program.commands_of[call.call]
        accesses = [access for command in commands for access in command.accesses(self.computation)]
        read = [each.submatrix for each in accesses if each.mode is AccessMode.READ]
        written = [each.submatrix for each in accesses if each.mode is not AccessMode.READ]
        if not call.opcode.endswith("each"):  # that has a command for each of its parts, and others for parts of theirs
            written = list(dict.fromkeys(written))
        in_place = {*commands[-1].in_place_pairs(self.computation)}
        if call.opcode in _IN_PLACE:
            in_place = {(each, written[0]) for each in read}
        elif call.opcode in ("zero rows", "copy to rows"):  # rows that stay as they are
            in_place = {(written[0], written[0])}
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
            self._apart.add(call.call)

    def _is_writable(self, number: int) -> bool:
        return self.computation.outside[-1 - int(self.plan.views[number - 1, 0])].writable

    # ---- memory ----

    def begin(self, submatrix: int, zeroed: bool) -> None:
        """Outside memory is there."""

    def end(self, submatrix: int) -> None:
        self.memory.forget(self._cells(submatrix))

    def _cells(self, number: int) -> Any:
        return self.memory.cells(number - 1, self._iteration)

    def read(self, submatrix: int) -> Elements:
        """Returns a copy of what lies in a view, (rows, blocks, 2)."""
        return self.memory.read(self._cells(submatrix)) if submatrix else np.zeros((0, 0, 2), np.uint64)

    def write(self, submatrix: int, values: Elements) -> None:
        if values.ndim > 1 and len(values) != self.num_rows(submatrix):
            raise ProofError(f"view {submatrix - 1} has {self.num_rows(submatrix)} rows for {len(values)}")
        self.memory.write(self._cells(submatrix), values)

    def add(self, submatrix: int, values: Elements) -> None:
        self.write(submatrix, field.reduced(self.read(submatrix) + values))

    def num_rows(self, submatrix: int) -> int:
        return len(self._cells(submatrix).first) if submatrix else 0
