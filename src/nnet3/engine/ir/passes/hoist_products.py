"""Hoisting: a recurrence multiplies at each step only the result of the step before; the rest is one earlier product.

A step of a recurrent layer multiplies `Append(input, r(t-1))` by a matrix. The input's columns are known for all
steps before the first. Their products are computed at once, to read the matrix once instead of at every step:

    before                                     after
    m2(0:1, 0:5) = m1(0:1, :)                  W[0:6].Propagate(m1, &m9)
    W.Propagate(m2(0:1, :), &m4)               W[6:9]+.Propagate(m2(0:1, 6:8), m9(0:1, :), &m4)
    ...                                        ...
    m2(0:1, 0:5) = m1(2:3, :)
    W.Propagate(m2(0:1, :), &m4)               W[6:9]+.Propagate(m2(0:1, 6:8), m9(2:3, :), &m4)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np

from nnet3.base.index import concatenate_ranges, distinct
from nnet3.engine.ir.analysis import Analysis, analyse
from nnet3.engine.ir.commands import AllocMatrix, Command, CopyRows, DeallocMatrix, MatrixCopy, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode
from nnet3.engine.ir.kernel import InputPromises, KernelInfo, slice_name
from nnet3.engine.ir.passes.recurrent_steps import Rewriting, step_of, steps_of_kernels
from nnet3.engine.ir.program_tables import MatrixInfo, SubMatrix
from nnet3.engine.ir.variables import Integers


class EarlyColumns(NamedTuple):
    """The columns [first, end) of a kernel's input, and their source: a matrix, from column `source_column` on."""

    first: int
    end: int
    matrix: int
    source_column: int


@dataclass(frozen=True)
class EarlyStep:
    """A Propagate by number, with the columns known early and the first source row of every group of columns."""

    number: int
    early: dict[EarlyColumns, int]


def hoist_products(computation: NnetComputation) -> NnetComputation:
    """Multiply the columns known to all steps of a recurrence before the first step by a single product."""

    def is_step(step: Propagate) -> bool:
        return step.memo < 0 and not step.store_stats and computation.kernels[step.kernel].has_slices

    candidates = [numbers for numbers in steps_of_kernels(computation, Propagate, is_step) if len(numbers) > 1]
    if not candidates:
        return computation
    chosen = [steps for steps in _ColumnFinder(computation, analyse(computation)).steps(candidates) if len(steps) > 1]
    if not chosen:
        return computation
    rewriting = _Hoisting(computation.copy())
    for steps in chosen:
        rewriting.hoist(steps)
    return rewriting.finish()


class _ColumnFinder:
    """Finds the columns of a step's input copied from values that exist before the first step."""

    def __init__(self, computation: NnetComputation, analysis: Analysis) -> None:
        self._computation, self._analysis = computation, analysis

    def steps(self, candidates: Sequence[Sequence[int]]) -> list[list[EarlyStep]]:
        """Returns for each kernel the largest group of steps with equal columns known early, from the same matrices."""
        early = iter(self._early_steps(candidates))
        return [self._alike(list(islice(early, len(numbers)))) for numbers in candidates]

    def _alike(self, steps: list[EarlyStep]) -> list[EarlyStep]:
        """Returns the largest group of steps with equal columns known early; none if these are all or no columns."""
        width = self._computation.submatrices[step_of(self._computation, steps[0].number, Propagate).inputs[0]].num_cols
        [(columns, _)] = Counter(tuple(sorted(step.early)) for step in steps).most_common(1)
        steps = [step for step in steps if tuple(sorted(step.early)) == columns]
        if not 0 < sum(span.end - span.first for span in columns) < width:
            return []
        counts = np.array([_output(self._computation, step.number).num_rows for step in steps])
        starts = [np.array([step.early[span] for step in steps]) for span in columns]
        return steps if all(_is_range(concatenate_ranges(start, counts)) for start in starts) else []

    def _early_steps(self, candidates: Sequence[Sequence[int]]) -> list[EarlyStep]:
        """Returns for each step the columns known before the first step of its kernel."""
        numbers = list(chain.from_iterable(candidates))
        firsts = [group[0] for group in candidates for _ in group]
        inputs = [step_of(self._computation, number, Propagate).inputs[0] for number in numbers]
        writers = self._writers(inputs, numbers)
        copied = [self._copied(number, each) for number, each in zip(numbers, writers, strict=True)]
        copies = sorted({copy for found in copied for copy, _ in found.values()})
        sources = [self._computation.commands[copy].source for copy in copies]  # type: ignore[attr-defined]
        before = dict(zip(copies, self._writers(sources, copies), strict=True))
        return [
            EarlyStep(
                number,
                {
                    columns: row
                    for columns, (copy, row) in found.items()
                    if before[copy][0] >= 0 and before[copy][-1] < first
                },
            )
            for number, first, found in zip(numbers, firsts, copied, strict=True)
        ]

    def _copied(self, number: int, writers: Sequence[int]) -> dict[EarlyColumns, tuple[int, int]]:
        """Returns the columns of a step's input copied by one command: the command's number, and the first row copied.

        `writers`: the commands that wrote the input, -1 for unwritten elements.
        """
        blocks, commands = self._computation.submatrices, self._computation.commands
        block = blocks[step_of(self._computation, number, Propagate).inputs[0]]
        found: dict[EarlyColumns, tuple[int, int]] = {}
        written = 0
        for writer in writers:
            if writer < 0:
                return {}
            command = commands[writer]
            for access in command.accesses(self._computation):
                dest = blocks[access.submatrix]
                if dest.matrix != block.matrix or access.mode == AccessMode.READ:
                    continue
                first, end = _common(block.col_offset, block.num_cols, dest.col_offset, dest.num_cols)
                first_row, end_row = _common(block.row_offset, block.num_rows, dest.row_offset, dest.num_rows)
                written += (end - first) * (end_row - first_row)
                if not isinstance(command, MatrixCopy) or command.scale != 1 or end_row - first_row < block.num_rows:
                    continue
                source = blocks[command.source]
                shift = source.col_offset - dest.col_offset
                columns = EarlyColumns(first - block.col_offset, end - block.col_offset, source.matrix, first + shift)
                found[columns] = writer, source.row_offset + first_row - dest.row_offset
        return found if written == block.num_rows * block.num_cols else {}  # nobody writes over what another wrote

    def _writers(self, submatrices: Sequence[int], at: Sequence[int]) -> list[list[int]]:
        """Returns for each command `at` the writers of the values found in a sub-matrix; -1 for unwritten elements."""
        blocks = np.array(submatrices, dtype=np.int64)
        events = self._analysis.events_at(blocks, np.array(at, dtype=np.int64))
        sources = self._analysis.source_of_event[events]
        writers = np.where(sources >= 0, self._analysis.event_command[sources], -1)
        ends, found = np.cumsum(self._analysis.variables.counts(blocks)).tolist(), writers.tolist()
        return [sorted(set(found[first:end])) for first, end in pairwise([0, *ends])]


def _common(start: int, count: int, other: int, other_count: int) -> tuple[int, int]:
    first = max(start, other)
    return first, max(first, min(start + count, other + other_count))


def _is_range(rows: Integers) -> bool:
    """Tells whether the rows fill the range from the first to the last: missing rows might be undefined."""
    return len(distinct(rows)) == rows.max() + 1 - rows.min()


def _output(computation: NnetComputation, number: int) -> SubMatrix:
    return computation.submatrices[step_of(computation, number, Propagate).output]


class _Rows:
    """The order of all steps' rows in the hoisted product: the order of a source if the rows are a range of it."""

    def __init__(self, starts: Integers, counts: Integers) -> None:
        """`starts` are the first rows of the steps in a source, `counts` the numbers of rows, (steps,)."""
        rows = concatenate_ranges(starts, counts)
        lowest, self.count = int(rows.min()), len(rows)
        #: The first row of each step, (steps,).
        self.starts = starts - lowest if self.count == rows.max() + 1 - lowest else np.cumsum(counts) - counts
        self._order = np.argsort(concatenate_ranges(self.starts, counts))
        self._counts = counts

    def of(self, starts: Integers) -> Integers:
        """Returns the rows of a source in the order of `self`; `starts` are the steps' first rows in the source."""
        return concatenate_ranges(starts, self._counts)[self._order]


class _Hoisting(Rewriting):
    """Replaces steps by slices of steps, and puts their common product before the first step."""

    def hoist(self, steps: Sequence[EarlyStep]) -> None:
        computation, columns = self.computation, sorted(steps[0].early)
        command = step_of(computation, steps[0].number, Propagate)
        counts = np.array([_output(computation, step.number).num_rows for step in steps])
        starts = [np.array([step.early[span] for step in steps]) for span in columns]
        rows = _Rows(starts[0], counts)
        info = computation.matrix_info.get(columns[0].matrix)
        if info is not None and info.indexes is not None:
            # Node and times are those of the source: a row is there as long as the one that it is made of.
            info = replace(info, indexes=info.indexes[rows.of(starts[0])])
        hoisted = computation.new_matrix(rows.count, _output(computation, steps[0].number).num_cols, info)
        before = self.before[steps[0].number]
        before.append(AllocMatrix(hoisted, zeroed=False))
        addend = 0
        for span, start in zip(columns, starts, strict=True):
            source, is_gathered = self._source(span, rows.of(start), before, info)
            kernel = self._kernel(command, span.first, span.end, adds=addend != 0)
            before.append(Propagate(kernel, command.node, (source, addend) if addend else (source,), hoisted))
            before += [DeallocMatrix(source)] * is_gathered
            addend = hoisted
        self.after[steps[-1].number].append(DeallocMatrix(hoisted))
        width = computation.submatrices[command.inputs[0]].num_cols
        firsts, ends = [0, *(span.end for span in columns)], [*(span.first for span in columns), width]
        left = [
            (first, end, self._kernel(command, first, end, adds=True))
            for first, end in zip(firsts, ends, strict=True)
            if first < end
        ]
        for step, start, count in zip(steps, rows.starts.tolist(), counts.tolist(), strict=True):
            addend = computation.new_submatrix(hoisted, start, count)
            self.instead[step.number] = list(self._rest(step.number, left, addend))

    def _source(
        self, span: EarlyColumns, rows: Integers, before: list[Command], info: MatrixInfo | None
    ) -> tuple[int, bool]:
        """Returns a sub-matrix with `rows` of the source of some columns; true if the rows are gathered for it."""
        num_cols = span.end - span.first
        if (np.diff(rows) == 1).all():
            block = SubMatrix(span.matrix, int(rows[0]), len(rows), span.source_column, num_cols)
            return self.computation.find_or_add(block), False
        lowest, count = int(rows.min()), int(np.ptp(rows)) + 1
        source = self.computation.find_or_add(SubMatrix(span.matrix, lowest, count, span.source_column, num_cols))
        gathered = self.computation.new_matrix(len(rows), num_cols, info)
        before += [
            AllocMatrix(gathered, zeroed=False),
            CopyRows(gathered, source, self.computation.new_index_table(rows - lowest)),
        ]
        return gathered, True

    def _rest(self, number: int, columns: Sequence[tuple[int, int, int]], addend: int) -> Iterator[Command]:
        """Yields the products of the remaining columns of a step, added to `addend`: first, end and kernel of each."""
        command = step_of(self.computation, number, Propagate)
        for first, end, kernel in columns:
            block = self.computation.new_submatrix(command.inputs[0], 0, None, first, end - first)
            yield Propagate(kernel, command.node, (block, addend), command.output)
            addend = command.output

    def _kernel(self, command: Propagate, first: int, end: int, *, adds: bool) -> int:
        """Returns the kernel multiplying the given columns; it adds the bias in the absence of an addend."""
        whole = self.computation.kernels[command.kernel]
        name = slice_name(whole.name, first, end, adds=adds)
        addends = (InputPromises(propagate_in_place=True),) if adds else ()
        return self.computation.find_or_add_kernel(
            KernelInfo(name, (InputPromises(), *addends), row_by_row=True, packs=whole.slices_pack and adds)
        )
