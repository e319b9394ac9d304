"""Planning: every command becomes calls on views of matrices, and matrices are laid out in one arena.

The calls come first, in an `Outline`: views begin relative to a block of memory without a place yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch

from nnet3.errors import ExecutionError
from nnet3.ir.commands import AcceptInput, Command, ProvideOutput, SegmentMarker
from nnet3.ir.computation import NnetComputation, SubMatrix
from nnet3.ir.objects import many_objects
from nnet3.ir.repeats import repeats
from nnet3.runtime.lanes import LANES, lane_of
from nnet3.runtime.outline import Outline, View, ViewTable
from nnet3.runtime.packing import Span, matrix_spans
from nnet3.runtime.plan import OutsidePlan, Plan, PlannedKernel, Port, SegmentPlan
from nnet3.runtime.row_blocks import RowBlocks
from nnet3.runtime.row_moves import RowPattern, row_pattern
from nnet3.runtime.rules import RULES, Rule, plan_command

_COMPRESSED = "bool"  # the lane of a matrix while it is compressed
_ALWAYS: Span = (-1, 1 << 60)

#: Where addresses count: a lane, a column, and a block of memory, -1 for none.
Space = tuple[int, int, int]

#: A call: its kind, its integers, its number.
Call = tuple[int, Sequence[int], float]
_Planned = tuple[int, int, tuple[Any, ...], float]  # command and call, with rows of a ViewTable among its integers


class Planner:
    """Views, tables and scratch memory for the rules. `command` is the one that is being planned, in turn `turn`."""

    rules: ClassVar[Mapping[type[Command], Rule]] = RULES
    numbers: ClassVar[type[Any]] = np.int64  # what views and sizes of blocks are made of

    def __init__(self, computation: NnetComputation, dtype: str) -> None:
        self.computation, self.dtype, self.command, self.turn = computation, dtype, 0, 0
        self.views, self.indexes, self.uneven = ViewTable(), list[np.ndarray](), list[np.ndarray]()
        self._known_indexes: dict[bytes, int] = {}
        self._known_uneven: dict[int, int] = {}  # by the identity of the table: many sub-matrices share one
        self.kinds, self.texts = dict[str, int](), dict[str, int]()
        self._patterns: dict[bytes, tuple[RowPattern, np.ndarray]] = {}
        self.calls: list[Call] = []
        self.kernels = [PlannedKernel(kernel.name, kernel.updatable) for kernel in computation.kernels]
        self.last_memo_users = _last_memo_users(computation)
        self.lanes: list[str] = [dtype]
        self.lane_of_matrix = [self._lane(matrix.dtype or dtype) for matrix in computation.matrices]
        self._outside = {computation.submatrices[o.submatrix].matrix: k for k, o in enumerate(computation.outside)}
        self.blocks = list[tuple[int, ...]]()
        self._blocks: dict[int, list[tuple[Span, int]]] = defaultdict(list)
        for key, spans in matrix_spans(computation).items():
            for span in spans:
                self._blocks[key].append((span, len(self.blocks)))
                self.blocks.append((key, *span, *self._size(key), 0))
        self._known_views: dict[int, tuple[View, int, int]] = {}  # and the first and last command with this view
        self._scratch_turn = 0

    # ---- calls ----

    def call(self, kind: str, *args: int, number: float = 0.0) -> None:
        """Add a call of the present command."""
        self.calls.append((self.kinds.setdefault(kind, len(self.kinds)), args, number))

    def index(self, rows: np.ndarray) -> int:
        """Returns the number of a table of row numbers; an unknown table is added."""
        table = rows.astype(np.int64)
        number = self._known_indexes.setdefault(table.tobytes(), len(self.indexes))
        if number == len(self.indexes):
            self.indexes.append(table)
        return number

    def note_kernel(self, number: int, **facts: Any) -> None:
        """Note the program's use of a kernel, for the checks before linking."""
        self.kernels[number] = PlannedKernel(**{**vars(self.kernels[number]), **facts})  # faster than replace

    def pattern(self, table: int) -> tuple[RowPattern, np.ndarray]:
        """Returns the pattern of an index table and the rows for which it has -1; equal tables are analysed once."""
        rows = self.computation.index_tables[table]
        key = rows.tobytes()
        if key not in self._patterns:
            valid = np.flatnonzero(rows >= 0)
            self._patterns[key] = row_pattern(valid, rows[valid].astype(np.int64)), np.flatnonzero(rows < 0)
        return self._patterns[key]

    def text(self, text: str) -> int:
        """Returns the number of a name."""
        return self.texts.setdefault(text, len(self.texts))

    # ---- turns of a Repeat ----

    def repeated(self, body: range, turns: int) -> list[tuple[int, Call]]:
        """Returns the calls of a body for all turns, each with its command; views move from turn to turn.

        Turns 0 and 1 are planned: their calls differ in the beginnings of views, as calls of any two turns do.
        """
        commands = self.computation.commands[body.start : body.stop]
        is_uneven = any(s in self.computation.turns for command in commands for s in command.form.operands(command))
        assert not is_uneven or not any(
            self.computation.submatrices[s].row_step and s not in self.computation.turns
            for command in commands
            for s in command.form.operands(command)
        ), "some move evenly, and some do not"
        looked_at, scratch = (0,) if is_uneven else (0, min(1, turns - 1)), len(self.blocks)
        planned = [self._in_turn(body, turn, scratch) for turn in looked_at]
        found: list[tuple[int, Call]] = []
        for calls in zip(*planned, strict=True):
            command, kind, _, number = calls[0]
            operands = zip(*(args for _, _, args, _ in calls), strict=True)
            moved = [each[0] if is_uneven else _moving(*each) for each in operands]
            args = [self.views.add(arg) if isinstance(arg, tuple) else arg for arg in moved]
            assert all(each[:2] == (command, kind) and each[3] == number for each in calls), "turns have other calls"
            found.append((command, (kind, args, number)))
        return found

    def _in_turn(self, body: range, turn: int, scratch: int) -> list[_Planned]:
        """Returns the calls of a body in one turn, with views in the place of their numbers.

        Scratch memory begins with block `scratch`.
        """
        kept = self.views, self.calls, self._known_views
        self.turn, self.views, self.calls, self._known_views = turn, ViewTable(), [], {}
        del self.blocks[scratch:]  # that of the turn before
        found: list[_Planned] = []
        for self.command in body:
            plan_command(self.computation.commands[self.command], self)
            for kind, args, number in self.calls[len(found) :]:
                given = tuple([self.views.rows[arg] if isinstance(arg, View) else arg for arg in args])
                found.append((self.command, kind, given, number))
        self.turn = 0
        self.views, self.calls, self._known_views = kept
        return found

    # ---- views ----

    def block(self, submatrix: int) -> SubMatrix:
        """Returns the block of a sub-matrix in this turn."""
        block = self.computation.submatrices[submatrix]
        return block.at_turn(self.turn) if block.row_step else block

    def view(self, submatrix: int) -> View:
        """Returns the view of a sub-matrix, (rows, columns); (0, 0) for number 0."""
        known = self._known_views.get(submatrix)
        if known is not None and known[1] <= self.command <= known[2]:
            return known[0]
        block = self.block(submatrix)
        space, start, step = self.place(submatrix)
        turns = self.computation.turns.get(submatrix)
        if turns is None:
            number = self.rows_view(space, start, block.num_rows, step, block.num_cols)
        else:
            uneven = self._known_uneven.setdefault(id(turns), len(self.uneven) + 1)
            if uneven > len(self.uneven):
                self.uneven.append(turns)
            origin = start - block.row_offset * step
            lane, col, memory = space
            number = self.views.add((memory, lane, origin, col, 0, 0, block.num_cols, 0, step, 0, uneven))
        first, last = self._block_now(block.matrix)[0] if block.matrix in self._blocks else _ALWAYS
        if not self.computation.submatrices[submatrix].row_step:
            self._known_views[submatrix] = number, first, last
        return number

    def place(self, submatrix: int) -> tuple[Space, int, int]:
        """Returns the space of a sub-matrix, the address of its first row there, the distance of rows.

        Addresses count elements from the beginning of a block, and rows in outside memory.
        """
        block = self.block(submatrix)
        if block.matrix in self._outside:
            return (-1 - self._outside[block.matrix], block.col_offset, -1), block.row_offset, 1
        lane, stride = self.lane_of_matrix[block.matrix], self.computation.matrices[block.matrix].num_cols
        memory = -1 if block.matrix == 0 else self._block_now(block.matrix)[1]
        return (lane, 0, memory), block.row_offset * stride + block.col_offset, stride

    def lane(self, submatrix: int) -> int:
        """Returns the lane of a sub-matrix."""
        return self.lane_of_matrix[self.computation.submatrices[submatrix].matrix]

    def rows_view(
        self, space: Space, start: int, rows: int, step: int, cols: int, outer: int = 0, outer_step: int = 0
    ) -> View:
        """Returns a view of rows at equal distances, (rows, cols), or (outer, rows, cols)."""
        lane, col, memory = space
        return self.views.add((memory, lane, start, col, outer, rows, cols, outer_step, step, 0, 0))

    def block_views(
        self, spaces: Iterable[Space], start: int, unit: int, num_cols: int, blocks: RowBlocks, column: int
    ) -> list[int]:
        """Returns views of blocks, (inner, columns) or (outer, inner, columns), which count in `unit` from `start`.

        `spaces`: the space of each block.
        """
        columns = (
            *(blocks.start[:, column], blocks.outer, blocks.outer_step[:, column]),
            *(blocks.inner, blocks.inner_step[:, column]),
        )
        views: list[int] = []
        for space, first, outer, by, rows, step in zip(spaces, *(each.tolist() for each in columns), strict=False):
            stacked = (outer, by * unit) if outer > 1 else ()
            views.append(self.rows_view(space, start + first * unit, rows, step * unit, num_cols, *stacked))
        return views

    def compressed(self, submatrix: int) -> int:
        """Returns the view of the compressed form of a whole matrix."""
        block = self.computation.submatrices[submatrix]
        space = self._lane(_COMPRESSED), 0, self._block_now(-block.matrix)[1]
        return self.rows_view(space, 0, block.num_rows, block.num_cols, block.num_cols)

    # ---- memory within a command ----

    def scratch(self, rows: int, cols: int, lane: int) -> int:
        """Returns a matrix for this command, valid up to `release_scratch`."""
        space = lane, 0, len(self.blocks)
        itemsize = LANES[self.lanes[lane]].itemsize
        self.blocks.append((0, self.command, self.command, rows * cols, itemsize, self._scratch_turn))
        return self.rows_view(space, 0, rows, cols, cols)

    def release_scratch(self) -> None:
        """Give back the scratch memory taken so far by the present command."""
        self._scratch_turn += 1

    def converted(self, view: int, lane: int) -> int:
        """Returns a copy of a plain view of the arena in another lane, or the view itself if it is in that lane."""
        _, old, _, _, _, rows, cols, *_ = self.views.rows[view]
        if old == lane:
            return view
        result = self.scratch(rows, cols, lane)
        self.call("copy", result, view)
        return result

    def stacked(self, view: int, outer: int) -> int:
        """Returns a plain view with its rows in `outer` groups, (outer, rows / outer, columns)."""
        memory, lane, start, col, _, rows, cols, _, step, *_ = self.views.rows[view]
        inner = rows // outer
        return self.rows_view((lane, col, memory), start, inner, step, cols, outer, inner * step)

    # ---- memory ----

    def _lane(self, name: str) -> int:
        if name not in self.lanes:
            self.lanes.append(name if name == "bool" else lane_of(name))
        return self.lanes.index(name)

    def _size(self, key: int) -> tuple[int, int]:
        """Returns the elements of a matrix or its compressed form, and the bytes of an element."""
        matrix = self.computation.matrices[abs(key)]
        name = self.lanes[self.lane_of_matrix[key]] if key > 0 else _COMPRESSED
        return matrix.num_rows * matrix.num_cols, LANES[name].itemsize

    def _block_now(self, key: int) -> tuple[Span, int]:
        """Returns the span of a matrix that holds the present command, and its block."""
        for span, block in self._blocks.get(key, ()):
            if span[0] <= self.command <= span[1]:
                return span, block
        form = "compressed" if key < 0 else "in memory"
        raise ExecutionError(f"command c{self.command} uses matrix m{abs(key)}, which is not {form} there")


def plan(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> Plan:
    """Lay out the memory of all matrices and decide by which calls each command runs.

    Matrices without a dtype of their own have `dtype`. Raises ExecutionError for a command class without a rule,
    for a command that uses a matrix missing from memory, and for unknown dtypes.
    """
    made = outline(computation, dtype)
    return made.placed(*made.packed())


def outline(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> Outline:
    """Decide by which calls each command runs. Raises the errors of `plan`."""
    return outline_by(Planner(computation, lane_of(dtype)))


@many_objects()
def outline_by(planner: Planner) -> Outline:
    """Choose the calls for each command of the planner's computation."""
    computation = planner.computation
    owners: list[int] = []
    loops: list[tuple[int, ...]] = []
    bodies = {body.start: (repeat, body) for repeat, body in repeats(computation)}
    number = 0
    while number < len(computation.commands):
        if number in bodies:
            repeat, body = bodies[number]
            start, calls = len(planner.calls), planner.repeated(body, repeat.turns)
            planner.calls += [call for _, call in calls]
            owners += [owner for owner, _ in calls]
            if calls:
                loops.append((start, len(owners), repeat.turns, repeat.memo_step, repeat.precomputed_step))
            number = body.stop
            continue
        planner.command = number
        plan_command(computation.commands[number], planner)
        owners += [number] * (len(planner.calls) - len(owners))
        number += 1
    kinds, args, factors = zip(*planner.calls, strict=True) if planner.calls else ((), (), ())
    dtypes = [planner.lanes[lane] for lane in planner.lane_of_matrix]
    starts = np.zeros(len(args) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, args), np.int64, len(args)), out=starts[1:])
    views = np.array(planner.views.rows, dtype=planner.numbers).reshape(-1, 11)
    blocks = np.array(planner.blocks, dtype=planner.numbers).reshape(-1, 6)
    spans = blocks[:, :3].astype(np.int64)
    made = Plan(
        dtype=planner.dtype,
        num_bytes=0,
        lanes=tuple(planner.lanes),
        outside=tuple([_outside_plan(computation, outside, planner) for outside in computation.outside]),
        views=views[:, 1:],
        kinds=tuple(planner.kinds),
        texts=tuple(planner.texts),
        call_kind=np.array(kinds, dtype=np.int32),
        call_start=starts,
        call_args=np.fromiter(chain.from_iterable(args), np.int32, int(starts[-1])),
        call_number=np.array(factors, dtype=np.float64),
        call_command=np.array(owners, dtype=np.int32),
        loops=np.array(loops, dtype=np.int64).reshape(-1, 5),
        indexes=tuple(planner.indexes),
        uneven=tuple(planner.uneven),
        precomputed=tuple(computation.precomputed),
        kernels=tuple(planner.kernels),
        num_memos=computation.num_memos,
        need_model_derivative=computation.need_model_derivative,
        segments=_segments(computation, dtypes, np.array(owners, dtype=np.int64)),
        places=np.pad(spans[spans[:, 0] != 0], ((0, 0), (0, 1))),
    )
    return Outline(made, blocks, views[:, 0].astype(np.int64))


def _moving(first: Any, second: Any) -> Any:
    """Returns an integer or a view's row that stands in a call for all turns, from turns 0 and 1."""
    if not isinstance(first, tuple):
        assert first == second, "an integer changes from turn to turn"
        return first
    assert second[:2] + second[3:] == first[:2] + first[3:], "a view changes its form"
    return (*first[:-2], second[2] - first[2], 0)


def _outside_plan(computation: NnetComputation, outside: Any, planner: Planner) -> OutsidePlan:
    matrix = computation.matrices[computation.submatrices[outside.submatrix].matrix]
    return OutsidePlan(
        outside.name, matrix.num_rows, matrix.num_cols, planner.lanes[planner.lane(outside.submatrix)], outside.writable
    )


def _segments(computation: NnetComputation, dtypes: Sequence[str], owners: np.ndarray) -> tuple[SegmentPlan, ...]:
    """Returns the segments, without idle segments (except the first).

    `dtypes`: the dtypes of the matrices, `owners`: the commands of all calls.
    """
    derivs = {io.name for io in computation.outputs}, {io.name for io in computation.inputs}
    segments = []
    start, accepts, provides = 0, dict[str, Port](), dict[str, Port]()

    def port(name: str, submatrix: int, is_deriv: bool) -> Port:
        block = computation.submatrices[submatrix]
        return Port(name, block.num_rows, block.num_cols, submatrix, dtypes[block.matrix], is_deriv)

    def add(first: int, end: int) -> None:
        first_call, end_call = (int((owners < command).sum()) for command in (first, end))
        ports = tuple(accepts.values()), tuple(provides.values())
        segments.append(SegmentPlan(first, end, first_call, end_call, *ports))

    for number, command in enumerate(computation.commands):
        if isinstance(command, AcceptInput):
            accepts[command.name] = port(command.name, command.dest, command.name in derivs[0])
        elif isinstance(command, ProvideOutput):
            provides[command.name] = port(command.name, command.source, command.name in derivs[1])
        elif isinstance(command, SegmentMarker):
            add(start, number + 1)
            start, accepts, provides = number + 1, {}, {}
    add(start, len(computation.commands))
    return tuple([segment for segment in segments if segment.start == 0 or segment.end_call > segment.first_call])


def _last_memo_users(computation: NnetComputation) -> set[int]:
    """Returns the last user of each memo; a command of a Repeat only if the command is the last user in every turn."""
    last_use: dict[int, tuple[int, int, int]] = {}
    uses = []
    turns = {number: (body.start, repeat) for repeat, body in repeats(computation) for number in body}
    for number, command in enumerate(computation.commands):
        memo = getattr(command, command.form.uses_memo) if command.form.uses_memo else -1
        if memo >= 0:
            start, repeat = turns.get(number, (number, None))
            steps = [(0, memo)] if repeat is None else [(i, memo + i * repeat.memo_step) for i in range(repeat.turns)]
            uses += [(used, (start, turn, number)) for turn, used in steps]
    for memo, use in uses:
        last_use[memo] = max(use, last_use.get(memo, use))
    return {use[-1] for _, use in uses} - {use[-1] for memo, use in uses if last_use[memo] != use}
