"""Explanations why outputs are not computable: by input frames, or by the node that is the reason.

>>> from tests.lowering.examples import splice
>>> complain_not_computable(splice(given=range(4)).sweeps)
Traceback (most recent call last):
    ...
nnet3.errors.NotComputableError: not computable: output (0) needs x t=-1..0; given 0..3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from nnet3.base.index import IndexTable, N, T, X, format_indexes, format_time_span, format_times
from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.needed import needed_rows
from nnet3.engine.lowering.slot_table import Mask, SlotTable
from nnet3.engine.lowering.source import NodeKind, OffersHints, RequestedRows
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.errors import NotComputableError

_LONGEST_WALK = 10_000
_MOST_NAMES = 6

Row = tuple[int, int, int]  # node, row of its grid, class


_MOST_WORK = 10**8


class Requirements:
    """The rows that failing outputs require, `reached[node]` (times, xs, classes); None outside the domain.

    `required[node]` (times, xs, classes, slots): the slots that a row needs. A single slot is required if the row is
    not computable even with all other slots. All slots are required if the row lacks something, but no single slot. A
    row lacking an input itself requires only the input, not the rows that its recurrence lacks further away.
    `refused[node]`: rows that nothing could make computable.

    With x given at t = 0..3, the output at t = 0 fails; the output requires x at t = -1 and 0:

    >>> from tests.lowering.examples import splice
    >>> sweeps = splice(given=range(4)).sweeps
    >>> reached = Requirements(sweeps, {3: sweeps.asked[3] & ~sweeps.known(3)}).reached
    >>> sweeps.ground.domain.grid(0).times[reached[0][:, 0, 0]].tolist()
    [-1, 0]
    """

    def __init__(self, sweeps: Sweeps, failing: dict[int, Mask]):
        self.sweeps = sweeps
        self.refused: dict[int, Mask] = {}
        self.required = [self._required(node) for node in range(len(sweeps.ground.tables))]
        self.reached = needed_rows(sweeps.ground, self.required, failing)

    def _required(self, node: int) -> Mask | None:
        table = self.sweeps.ground.tables[node]
        if table is None or table.num_slots == 0:
            return None
        known = self.sweeps.known(node)
        shape = (*known.shape, table.num_slots)
        if len(table.asked) == 0:
            return self._unless_it_lacks_an_input(table, np.ones(shape, bool))
        required = np.zeros(shape, bool)
        available = np.ones(shape, bool).reshape(-1, table.num_slots)
        rule = self.sweeps.computability.rule
        self.refused[node] = ~rule(node, table, available)[0].reshape(known.shape) & ~known
        if required.size * table.num_slots <= _MOST_WORK:
            for slot in range(table.num_slots):
                available[:, slot] = False
                required[..., slot] = ~rule(node, table, available)[0].reshape(known.shape)
                available[:, slot] = True
        required[~known & ~required.any(axis=-1)] = True
        required[self.refused[node]] = False
        return self._unless_it_lacks_an_input(table, required)

    def _unless_it_lacks_an_input(self, table: SlotTable, required: Mask) -> Mask:
        nodes, known, copies = self.sweeps.structure.nodes, self.sweeps.known, required.shape[2]

        def is_input(node: int) -> Mask:
            return np.full_like(known(node), nodes[node].kind == NodeKind.PROVIDED)

        singles = [slot for slot, _ in table.singles]
        from_input, computable = table.seen(copies, is_input, False), table.seen(copies, known, False)
        from_input[..., singles], computable[..., singles] = False, True
        lacking = (required & from_input & ~computable).any(axis=-1)
        required[lacking] &= (from_input | computable)[lacking]
        return required


def complain_not_computable(sweeps: Sweeps) -> NoReturn:
    """Raise NotComputableError with the names of the outputs, the times out of reach and the missing rows."""
    complaints = []
    for rows, computable in zip(sweeps.request.outputs, sweeps.outputs_computable(), strict=True):
        if computable.all():
            continue
        failing = sweeps.asked[rows.node] & ~sweeps.known(rows.node)
        reason = _Reason(sweeps, Requirements(sweeps, {rows.node: failing}), rows.node, failing)
        complaints.append(f"{rows.name}{_which(rows, computable)} {reason}")
    raise NotComputableError("not computable: " + "; ".join(complaints))


def _which(rows: RequestedRows, computable: Mask) -> str:
    if len(rows.indexes) == 0:
        return ""
    return " all" if not computable.any() else f" {format_times(rows.indexes[~computable], max_items=20)}"


class _Reason:
    """The reason why some rows of one output are not computable; `str` words it."""

    def __init__(self, sweeps: Sweeps, requirements: Requirements, node: int, failing: Mask):
        self.sweeps, self.requirements, self.structure = sweeps, requirements, sweeps.structure
        self.domain, self.node, self.failing = sweeps.ground.domain, node, failing

    def __str__(self) -> str:
        reasons = [*self._refusals(), *self._missing_inputs()]
        return ", ".join(reasons) or self._walk()

    # ---- inputs ----

    def _missing_inputs(self) -> Iterator[str]:
        """Yields "needs input t=-2..17; given 0..14" for every input that lacks something required."""
        for number, node in enumerate(self.structure.nodes):
            reached = self.requirements.reached[number]
            if node.kind == NodeKind.PROVIDED and reached is not None:
                missing = reached & ~self.sweeps.known(number)
                if missing.any():
                    yield self._missing_input(number, self._indexes(number, reached), self._indexes(number, missing))

    def _missing_input(self, number: int, wanted: IndexTable, missing: IndexTable) -> str:
        name = self.structure.names[number]
        given = [rows.indexes for rows in self.sweeps.request.inputs if rows.node == number and len(rows.indexes)]
        if not given:
            return f"needs {name} {format_time_span(wanted)}; none is given"
        have = format_time_span(np.concatenate(given)).removeprefix("t=")
        part = f"needs {name} {format_time_span(wanted)}; given {have}"
        if format_time_span(wanted).removeprefix("t=") == have or _within(missing, np.concatenate(given)):
            first = ", ".join(f"({n}, {t}, {x})" for n, t, x in missing[:3].tolist())
            part += f", but {len(missing)} of these are missing, first (n, t, x) = {first}"
        return part

    def _indexes(self, number: int, rows: Mask) -> IndexTable:
        """Returns the indexes of these rows of a node, for all sequences of their classes, in order of t, x and n."""
        grid, classes = self.domain.grid(number), self.sweeps.classes
        time, x, which = np.nonzero(rows)
        if not self.structure.has_samples[number]:
            return grid.table()[time]
        pieces = []
        for position in range(classes.num_classes):
            mine = which == position
            n = classes.members_of(position)
            table = np.empty((int(mine.sum()), len(n), 3), np.int32)
            table[..., N] = n
            table[..., T] = grid.times[time[mine], np.newaxis]
            table[..., X] = grid.xs[x[mine], np.newaxis]
            pieces.append(table.reshape(-1, 3))
        indexes = np.concatenate(pieces)
        return indexes[np.lexsort((indexes[:, N], indexes[:, X], indexes[:, T]))]

    # ---- when it is not for want of input ----

    def _refusals(self) -> Iterator[str]:
        """Yields a reason for each node with required rows that no given rows could make computable."""
        for number, refused in self.requirements.refused.items():
            reached = present(self.requirements.reached[number])
            if (reached & refused).any():
                indexes = self._indexes(number, reached & refused)
                name = self.structure.names[number]
                yield f"needs {name} {format_indexes(indexes, max_items=4)}, which nothing can make computable" + (
                    self._hint(number, indexes)
                )

    def _walk(self) -> str:
        """Follows what is required and not computable, row by row, until it comes round; returns the reason."""
        time, x, which = (int(axis[0]) for axis in np.nonzero(self.failing))
        row: Row | None = (self.node, time * self.failing.shape[1] + x, which)
        position: dict[Row, int] = {}
        while row is not None and row not in position and len(position) < _LONGEST_WALK:
            position[row] = len(position)
            row = self._lacks(row)
        walked = list(position)
        if row is None:
            return f"needs {self._name(walked[-1])}, which cannot be computed{self._hint_at(walked[-1:])}"
        cycle = walked[position[row] :] if row in position else walked[-_MOST_NAMES:]
        shown = " <- ".join(self._name(each) for each in cycle[:_MOST_NAMES])
        shown += " <- ..." if len(cycle) > _MOST_NAMES else f" <- {self._name(cycle[0])}"
        return f"depends on itself: a recurrence with no way to start, {shown}{self._hint_at(cycle)}"

    def _lacks(self, row: Row) -> Row | None:
        """Returns a row required by `row` that is not computable; None for no such row."""
        node, own, which = row
        table = self.sweeps.ground.table(node)
        required = self.requirements.required[node]
        time, x = divmod(own, table.grid.shape[1])
        for block in table.blocks:
            t, at = time - block.own[0].start + block.other[0].start, x - block.own[1].start + block.other[1].start
            if block.other[0].start <= t < block.other[0].stop and block.other[1].start <= at < block.other[1].stop:
                is_required = required is None or required[time, x, which, block.slot]
                if is_required and not self.sweeps.known(block.source)[t, at, which]:
                    return block.source, t * self.domain.grid(block.source).shape[1] + at, which
        for gather in table.gathers:
            for slot, position in zip(gather.slots.tolist(), gather.position[own].tolist(), strict=True):
                known = self.sweeps.known(gather.source)
                is_required = required is None or required[time, x, which, slot]
                copy = which % known.shape[2]
                if is_required and position >= 0 and not known.reshape(-1, known.shape[2])[position, copy]:
                    return gather.source, position, copy
        return self._lacks_single(node)

    def _lacks_single(self, node: int) -> Row | None:
        table = self.sweeps.ground.table(node)
        for source in (*(source for _, source in table.singles), *table.all_samples):
            known = self.sweeps.known(source)
            asked = self.sweeps.ground.samples.get(source, np.ones_like(known))
            if (asked & ~known).any():
                time, x, which = (int(axis[0]) for axis in np.nonzero(asked & ~known))
                return source, time * known.shape[1] + x, which
        return None

    def _name(self, row: Row) -> str:
        node, own, _ = row
        name = f"'{self.structure.names[node]}'"
        grid = self.domain.grids[node]
        if grid is None or not self.structure.has_samples[node]:
            return name
        _, t, x = grid.table()[own].tolist()
        return f"{name} at t={t}" + (f", x={x}" if x else "")

    def _hint_at(self, rows: list[Row]) -> str:
        """Returns the source's first advice on one of the rows, in parentheses."""
        for node, own, _ in rows:
            hint = self._hint(node, self.domain.grid(node).table()[own : own + 1])
            if hint:
                return hint
        return ""

    def _hint(self, node: int, indexes: IndexTable) -> str:
        source = self.structure.source
        hint = source.hint(node, indexes) if isinstance(source, OffersHints) else ""
        return f" ({hint})" if hint else ""


def _within(missing: IndexTable, given: IndexTable) -> bool:
    """True if some missing time lies within the span of what is given."""
    low, high = given[:, T].min(), given[:, T].max()
    return bool(((missing[:, T] >= low) & (missing[:, T] <= high)).any())
