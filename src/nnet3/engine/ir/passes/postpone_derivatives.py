"""Postponing: going backward, a recurrence computes at every step only the derivatives another step waits for.

A step of a recurrent layer multiplies `Append(input, r(t-1))` by one matrix. Backward, the step before waits for the
derivative of r(t-1) alone. The derivatives of all steps' inputs are one product after the last step:

    before                                     after
    W.Backprop([], [], m4(3, :), &m2)          W[6:9].Backprop([], [], m4(3, :), &m2(:, 6:8))
    m1(3, :) = m2(:, 0:5)                      m5(2, :) += m2(:, 6:8)
    m5(2, :) += m2(:, 6:8)                     ...
    ...                                        W[6:9].Backprop([], [], m4(2, :), &m2(:, 6:8))
    W.Backprop([], [], m4(2, :), &m2)          W[0:6].Backprop([], [], m4(2:3, :), &m9)
    m1(2, :) = m2(:, 0:5)                      m1(2:3, :) = m9

A derivative without readers, as of an input computed by no trained layer, is not computed at all.

Two commands writing to common elements may change places only if both add. So

* a sender of late columns moves past no access to its destination, except by commands that send later too;
* commands sending after one step stay before commands sending after a later step;
* commands sending after one step keep their order, unless both add. Append(x(t), x(t-1)) needs, backward in time,

      step by step              x(t-1) before x(t)             x(t) before x(t-1): wrong
      m1(3, :) = m2(:, 0:2)     m1(0:2, :) = m9                m1(3, :) = m8(2, :)
      m1(2, :) = m2(:, 3:5)     m1(3, :) = m8(2, :)            m1(1:2, :) += m8(0:1, :)
      m1(2, :) += m2(:, 0:2)    m1(1:2, :) += m8(0:1, :)       m1(0:2, :) = m9
      ...

  Columns are sent span by span in an order keeping the last rule; without a possible order, spans take turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice, pairwise, takewhile
from typing import NamedTuple, TypeAlias

import numpy as np

from nnet3.base.index import concatenate_ranges, distinct
from nnet3.engine.ir.analysis import READ, WRITE, Analysis, analyse
from nnet3.engine.ir.commands import AllocMatrix, Backprop, Command, DeallocMatrix, MatrixAdd, MatrixCopy
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode
from nnet3.engine.ir.kernel import InputPromises, KernelInfo, slice_name
from nnet3.engine.ir.passes.recurrent_steps import Rewriting, step_of, steps_of_kernels
from nnet3.engine.ir.program_tables import SubMatrix

Sending: TypeAlias = MatrixCopy | MatrixAdd
"""A command that sends columns of a step's derivative to where they came from."""


class InputColumns(NamedTuple):
    """The columns [first, end) of a kernel's input."""

    first: int
    end: int


@dataclass(frozen=True)
class LateStep:
    """A Backprop by number, with the number of the only reader of some of the columns.

    `width`: number of all columns; `sent_by`: the only reader of columns; `read_by`: the columns read by every command,
    readers in `sent_by` included.
    """

    number: int
    width: int
    sent_by: dict[InputColumns, int]
    read_by: list[tuple[int, InputColumns]]

    def without(self, columns: Collection[InputColumns]) -> LateStep:
        """Returns the step with the given columns no longer late: it computes them itself."""
        sent_by = {key: number for key, number in self.sent_by.items() if key not in columns}
        return LateStep(self.number, self.width, sent_by, self.read_by)

    def rest(self) -> list[InputColumns]:
        """Returns the columns read by other commands than late senders, in order; neighbours are joined."""
        late, found = set(self.sent_by.values()), list[InputColumns]()
        for first, end in sorted(columns for number, columns in self.read_by if number not in late):
            if found and first <= found[-1].end:
                found[-1] = InputColumns(found[-1].first, max(end, found[-1].end))
            else:
                found.append(InputColumns(first, end))
        return found


@dataclass(frozen=True)
class LateSteps:
    """The steps of a kernel."""

    steps: list[LateStep]

    @cached_property
    def last(self) -> int:
        """The last command of all steps."""
        return max(max(step.number, *step.sent_by.values(), 0) for step in self.steps)

    def in_iterations(self, follows: Mapping[int, set[int]]) -> list[tuple[InputColumns, list[int]]]:
        """Returns the senders of columns, in an order in which a command comes after all commands it `follows`.

        Senders of equal columns are neighbours where possible: neighbouring rows are then sent by one command.
        """
        left = {columns: sorted(step.sent_by[columns] for step in self.steps) for columns in self.steps[0].sent_by}
        iterations, sent = list[tuple[InputColumns, list[int]]](), set[int]()
        while left:
            ready = {columns: _ready(numbers, sent, follows) for columns, numbers in sorted(left.items())}
            columns = max(ready, key=lambda each: (len(ready[each]) == len(left[each]), len(ready[each])))
            iterations.append((columns, ready[columns]))
            sent.update(ready[columns])
            left[columns] = left[columns][len(ready[columns]) :]
            if not left[columns]:
                del left[columns]
        return iterations

    def alike(self) -> list[LateSteps]:
        """Returns the steps with the same late columns together."""
        found: dict[tuple[InputColumns, ...], list[LateStep]] = defaultdict(list)
        for step in self.steps:
            found[tuple(sorted(step.sent_by))].append(step)
        return [LateSteps(steps) for columns, steps in found.items() if columns and len(steps) > 1]


def _ready(numbers: Sequence[int], sent: set[int], follows: Mapping[int, set[int]]) -> list[int]:
    """Returns the first of the commands, as long as all commands they follow are sent or among `numbers`."""
    own = set(numbers)
    return list(takewhile(lambda number: not follows.get(number, set()) - sent - own, numbers))


def postpone_derivatives(computation: NnetComputation) -> NnetComputation:
    """Compute the derivatives no step of a recurrence waits for by one product after the last step."""

    outside = computation.outside_by_matrix()

    def is_step(step: Backprop) -> bool:
        if step.update or step.memo >= 0 or not computation.kernels[step.kernel].has_slices:
            return False
        return step.input_derivs[0] != 0 and computation.submatrices[step.input_derivs[0]].matrix not in outside

    candidates = steps_of_kernels(computation, Backprop, is_step)
    if not candidates:
        return computation
    finder = _Finder(computation, analyse(computation))
    groups = finder.steps(candidates)
    late = finder.late_steps(groups)
    steps = {step.number: step.without(step.sent_by) for group in groups for step in group.steps}  # nothing is late
    steps |= {step.number: step for group in late for step in group.steps}
    narrower = [step for step in steps.values() if step.rest() != [InputColumns(0, step.width)]]
    if not narrower:
        return computation
    rewriting = _Postponing(computation.copy())
    for group in late:
        rewriting.postpone(group, finder.follows(group))
    for step in narrower:
        rewriting.narrow(step)
    return rewriting.finish()


class _Finder:
    """Finds the steps with columns that nobody looks at before the last step."""

    def __init__(self, computation: NnetComputation, analysis: Analysis) -> None:
        self._computation, self._analysis = computation, analysis
        reads = np.flatnonzero((analysis.event_mode & READ) != 0)
        self._readers = reads[np.argsort(analysis.source_of_event[reads], kind="stable")]
        self._read = analysis.source_of_event[self._readers]  # the event that each of these finds the value of
        self._accesses: dict[int, dict[int, list[int]]] = defaultdict(dict)  # by the last command, see below

    def late_steps(self, groups: list[LateSteps]) -> list[LateSteps]:
        """Returns the groups of postponable steps, with their possible late columns."""
        found = [alike for steps in self._without_conflicts(groups) for alike in steps.alike()]
        found = [steps for steps in found if self._has_one_output(steps)]
        return [steps for steps in self._without_conflicts(found) if steps.steps[0].sent_by]

    def follows(self, steps: LateSteps) -> dict[int, set[int]]:
        """Returns for every sender of the steps' late columns the senders that must come before."""
        sent = {number for step in steps.steps for number in step.sent_by.values()}
        found: dict[int, set[int]] = defaultdict(set)
        if len(steps.steps[0].sent_by) < 2:
            return found
        accesses = self._accesses_of_dests(sent, steps.last)
        for number in sent:
            adds = isinstance(self._computation.commands[number], MatrixAdd)
            for other in sent.intersection(accesses[number]):
                if not (adds and isinstance(self._computation.commands[other], MatrixAdd)):
                    found[other].add(number)
        return found

    def steps(self, candidates: Sequence[Sequence[int]]) -> list[LateSteps]:
        """Returns the steps of all kernels with all columns that could be late."""
        commands, blocks = self._computation.commands, self._computation.submatrices
        numbers = list(chain.from_iterable(candidates))
        derivs = [step_of(self._computation, number, Backprop).input_derivs[0] for number in numbers]
        steps, sent = [], list[tuple[LateStep, InputColumns, int, int]]()
        for number, deriv, readers in zip(numbers, derivs, self._readers_of(derivs, numbers), strict=True):
            own = blocks[deriv]
            step = LateStep(number, own.num_cols, {}, [])
            steps.append(step)
            for reader in sorted(set(readers)):
                sending = commands[reader]
                touched = [
                    (access, columns)
                    for access in sending.accesses(self._computation)
                    if (columns := _common_columns(own, blocks[access.submatrix])) is not None
                ]
                step.read_by.extend((reader, columns) for access, columns in touched if access.mode != AccessMode.WRITE)
                if isinstance(sending, Sending) and sending.scale == 1 and len(touched) == 1:
                    [(_, columns)] = touched
                    if blocks[sending.source] == _some(own, columns):
                        sent.append((step, columns, reader, sending.source))
        sources, at = [each[3] for each in sent], [each[0].number for each in sent]
        counts = self._analysis.variables.counts(np.array(sources, np.int64)).tolist()
        for (step, columns, reader, _), readers, count in zip(sent, self._readers_of(sources, at), counts, strict=True):
            if readers == [reader] * count:
                step.sent_by[columns] = reader
        rest = iter(steps)
        return [LateSteps(list(islice(rest, len(group)))) for group in candidates]

    def _readers_of(self, submatrices: Sequence[int], at: Sequence[int]) -> list[list[int]]:
        """Returns for each command `at` the readers of the values that it wrote to a sub-matrix, for every variable."""
        blocks = np.array(submatrices, np.int64)
        events = self._analysis.events_at(blocks, np.array(at, np.int64))
        begin, end = (np.searchsorted(self._read, events, side=side) for side in ("left", "right"))
        readers = self._analysis.event_command[self._readers[concatenate_ranges(begin, end - begin)]].tolist()
        so_far = [0, *np.cumsum(end - begin).tolist()]
        ends = np.cumsum(self._analysis.variables.counts(blocks)).tolist()
        return [readers[so_far[first] : so_far[last]] for first, last in pairwise([0, *ends])]

    def _has_one_output(self, steps: LateSteps) -> bool:
        """Returns true if the derivatives of all outputs are a range of rows, unchanged up to the last step."""
        numbers = np.array([step_of(self._computation, step.number, Backprop).output_deriv for step in steps.steps])
        at = np.array([step.number for step in steps.steps])
        blocks = [self._computation.submatrices[number] for number in numbers.tolist()]
        starts, counts = np.array([block.row_offset for block in blocks]), np.array([b.num_rows for b in blocks])
        rows = concatenate_ranges(starts, counts)
        if len({_columns(block) for block in blocks}) > 1 or len(distinct(rows)) < len(rows):
            return False
        is_range = len(rows) == _enclosing(blocks).num_rows
        return is_range and bool((self._analysis.next_access(numbers, at + 1, WRITE) > steps.last).all())

    def _without_conflicts(self, chosen: list[LateSteps]) -> list[LateSteps]:
        """Returns the steps without columns with a destination read or added to before the last step.

        Commands sent as late or later do no harm.
        """
        while True:
            sent_after = {number: s.last for s in chosen for step in s.steps for number in step.sent_by.values()}
            conflicts = [self._conflicts(steps, sent_after) for steps in chosen]
            if not any(conflicts):
                return chosen
            chosen = [
                LateSteps([step.without(columns) for step in steps.steps]) if columns else steps
                for steps, columns in zip(chosen, conflicts, strict=True)
            ]

    def _conflicts(self, steps: LateSteps, sent_after: dict[int, int]) -> set[InputColumns]:
        last = steps.last
        sent = [(columns, number) for step in steps.steps for columns, number in step.sent_by.items()]
        accesses = self._accesses_of_dests([number for _, number in sent], last)
        return {
            columns for columns, number in sent if any(sent_after.get(other, -1) < last for other in accesses[number])
        }

    def _accesses_of_dests(self, numbers: Collection[int], last: int) -> dict[int, list[int]]:
        """Returns the commands after each of `numbers`, up to `last`, that access the destination of this command."""
        known = self._accesses[last]
        new = [number for number in numbers if number not in known]
        commands = (self._computation.commands[number] for number in new)
        dests = [command.dest for command in commands if isinstance(command, Sending)]
        known.update(zip(new, self._analysis.commands_between(dests, new, last), strict=True))
        return known


def _some(block: SubMatrix, columns: InputColumns) -> SubMatrix:
    """Returns some columns of a block."""
    return block._replace(col_offset=block.col_offset + columns.first, num_cols=columns.end - columns.first)


def _common_columns(own: SubMatrix, other: SubMatrix) -> InputColumns | None:
    """Returns the columns of `own` that `other` shares, with any rows; None without common columns."""
    first = max(other.col_offset - own.col_offset, 0)
    end = min(other.col_offset + other.num_cols - own.col_offset, own.num_cols)
    return InputColumns(first, end) if other.matrix == own.matrix and first < end else None


def _columns(block: SubMatrix) -> SubMatrix:
    """Returns the columns of a block, with all rows forgotten."""
    return block._replace(row_offset=0, num_rows=0)


def _enclosing(blocks: Sequence[SubMatrix]) -> SubMatrix:
    """Returns the rows from the first to the last row of blocks of a matrix."""
    first = min(block.row_offset for block in blocks)
    end = max(block.row_offset + block.num_rows for block in blocks)
    return blocks[0]._replace(row_offset=first, num_rows=end - first)


class _Postponing(Rewriting):
    """Replaces steps by slices of steps, and puts their common product after the last step."""

    def postpone(self, steps: LateSteps, follows: Mapping[int, set[int]]) -> None:
        """Compute and send late columns after the last step; `follows`: see `LateSteps.in_iterations`."""
        computation = self.computation
        commands = [step_of(computation, step.number, Backprop) for step in steps.steps]
        outputs = [computation.submatrices[command.output_deriv] for command in commands]
        together = _enclosing(outputs)
        info = computation.matrix_info.get(together.matrix)
        if info is not None:
            rows = slice(together.row_offset, together.row_offset + together.num_rows)
            indexes = None if info.indexes is None else info.indexes[rows]
            info = replace(info, node=commands[0].node, indexes=indexes)
        after, late, iterations = self.after[steps.last], dict[InputColumns, int](), steps.in_iterations(follows)
        last_iteration = {span: iteration for iteration, (span, _) in enumerate(iterations)}
        for iteration, (span, numbers) in enumerate(iterations):
            rows_of = {step.sent_by[span]: block for step, block in zip(steps.steps, outputs, strict=True)}
            self.instead |= {number: [] for number in numbers}
            if span not in late:
                late[span] = computation.new_matrix(together.num_rows, span.end - span.first, info)
                after.append(AllocMatrix(late[span], zeroed=False))
                after.append(self._slice(commands[0], span, computation.find_or_add(together), late[span]))
            after += self._sent({number: rows_of[number] for number in numbers}, late[span], together.row_offset)
            if iteration == last_iteration[span]:
                after.append(DeallocMatrix(late[span]))

    def narrow(self, step: LateStep) -> None:
        """Let a step compute nothing but the rest of its columns."""
        command = step_of(self.computation, step.number, Backprop)
        part = partial(self.computation.new_submatrix, command.input_derivs[0], 0, None)
        dests = [(columns, part(columns.first, columns.end - columns.first)) for columns in step.rest()]
        self.instead[step.number] = [self._slice(command, columns, command.output_deriv, d) for columns, d in dests]

    def _slice(self, command: Backprop, columns: InputColumns, output_deriv: int, dest: int) -> Command:
        """Returns the Backprop computing only the given columns of a derivative."""
        whole = self.computation.kernels[command.kernel]
        info = KernelInfo(
            slice_name(whole.name, *columns), (InputPromises(),), row_by_row=True, packs=whole.slices_pack
        )
        kernel = self.computation.find_or_add_kernel(info)
        return Backprop(kernel, command.node, (0,), 0, output_deriv, (dest,), (0,), update=False)

    def _sent(self, sent: dict[int, SubMatrix], late: int, first_row: int) -> Iterator[Command]:
        """Yields the senders of the late columns, a single command for neighbouring rows.

        `sent`: the former senders of a step's columns, by number, with the rows of the step; the rows of `late`
        begin at `first_row`.
        """
        run: tuple[type[Sending], SubMatrix, SubMatrix] | None = None
        for number in sorted(sent):
            command = self.computation.commands[number]
            assert isinstance(command, Sending)
            dest = self.computation.submatrices[command.dest]
            source = sent[number]._replace(row_offset=sent[number].row_offset - first_row)
            if run is not None and run[0] is type(command) and _adjoin((run[1], dest), (run[2], source)):
                run = type(command), _enclosing([run[1], dest]), _enclosing([run[2], source])
                continue
            if run is not None:
                yield self._sending(late, *run)
            run = type(command), dest, source
        if run is not None:
            yield self._sending(late, *run)

    def _sending(self, late: int, kind: type[Sending], dest: SubMatrix, source: SubMatrix) -> Command:
        rows = self.computation.new_submatrix(late, source.row_offset, source.num_rows)
        return kind(self.computation.find_or_add(dest), rows)


def _adjoin(*pairs: tuple[SubMatrix, SubMatrix]) -> bool:
    """Tells whether in all pairs the second's rows follow the first's rows, or in all pairs precede them."""
    if any(_columns(one) != _columns(other) for one, other in pairs):
        return False
    follow = [one.row_offset + one.num_rows == other.row_offset for one, other in pairs]
    precede = [other.row_offset + other.num_rows == one.row_offset for one, other in pairs]
    return all(follow) or all(precede)
