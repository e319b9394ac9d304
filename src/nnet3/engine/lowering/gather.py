"""The commands of gathered nodes: rows brought together going forward, derivatives sent back going backward.

Step 1 of the sum x(t) + h(t-1), whose matrix is m3; x is m1, h is m5, their derivatives are m2 and m6:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> code = GatherCode(each.computation, each.reading.gathered[1], each.layout.values)
>>> for command in code.forward(1):
...     print(command.text(each.computation))
m3(1, :) = m1(1, :)
m3(1, :) += m5(0, :)
>>> for command in code.backward(1, each.layout.derivs, each.writers.slots[1], each.needs.needed):
...     print(command.text(each.computation))
m2(1, :) = m4
m6(0, :) += m4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nnet3.engine.ir.commands import Command, MatrixAdd, MatrixCopy, SetConst
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.irregular import IrregularGather
from nnet3.engine.lowering.locations import NodeMatrices
from nnet3.engine.lowering.reading import GatheredNode, SlotPattern
from nnet3.engine.lowering.source import GatherPart


class _Term(NamedTuple):
    """Rows [first, first + num_rows) of a gathered node take scale times rows of a source from `source_first` on."""

    first: int
    num_rows: int
    source: int
    source_first: int
    scale: float
    slot: int  # its number among all slots of the node


class _SlotSteps:
    """A slot's pattern as lists over steps."""

    def __init__(self, pattern: SlotPattern, part: GatherPart, number: int) -> None:
        self.pattern, self.number = pattern, number
        self.regular: list[bool] = pattern.regular.tolist()
        self.count: list[int] = pattern.count.tolist()
        self._first, self._source = pattern.first.tolist(), pattern.source.tolist()
        self._source_first = pattern.source_first.tolist()
        self._scales = part.scale_of_source

    def term(self, step: int) -> _Term:
        source = self._source[step]
        scale = self._scales.get(source, 1.0)
        return _Term(self._first[step], self.count[step], source, self._source_first[step], scale, self.number)


class _PartSteps(NamedTuple):
    """A part, its first column, its slots, and whether all of these are regular, (steps,)."""

    part: GatherPart
    column: int
    slots: list[_SlotSteps]
    regular: list[bool]


class GatherCode:
    """Writes the commands of one gathered node, step by step."""

    def __init__(self, computation: NnetComputation, gathered: GatheredNode, values: NodeMatrices) -> None:
        self.computation, self.gathered, self.values = computation, gathered, values
        self.irregular = IrregularGather(computation, gathered)
        self._parts: list[_PartSteps] = []
        self._members = values.schedule.multiplicity(gathered.number)
        number = 0
        for part, column, slots in gathered.parts:
            steps = [_SlotSteps(slot, part, number + i) for i, slot in enumerate(slots)]
            of_slots = [[True] * len(gathered.step_first), *(slot.regular for slot in steps)]
            self._parts.append(_PartSteps(part, column, steps, list(map(all, zip(*of_slots, strict=True)))))
            number += len(slots)
        self._first, self._count = gathered.step_first.tolist(), gathered.step_count.tolist()

    # ---- forward ----

    def forward(self, step: int) -> list[Command]:
        """Returns the commands that fill the rows of a step, whatever the rows hold before."""
        first, count = self._first[step], self._count[step]
        whole = self.values.block(self.gathered.number, first, count)
        commands: list[Command] = []
        for part, column, slots, regular in self._parts:
            target = self._columns(whole, column, part.num_cols)
            if regular[step] and part.default == 0.0:
                terms = [slot.term(step) for slot in slots if slot.count[step]]
                commands += self._fill(target, part, first, count, terms)
            else:
                patterns = [slot.pattern for slot in slots]
                commands += self.irregular.forward(part, patterns, target, self.values, first, count)
        return commands

    def _columns(self, whole: int, column: int, num_cols: int) -> int:
        if len(self._parts) == 1:
            return whole
        return self.computation.new_submatrix(whole, col_offset=column, num_cols=num_cols)

    def _fill(self, target: int, part: GatherPart, first: int, count: int, terms: list[_Term]) -> Iterator[Command]:
        """Yields commands for target = constant + terms; a term that fills all rows is copied, not added to zeros."""
        if part.constant != 0.0 or not terms:
            yield SetConst(target, part.constant)
        else:
            head = terms[0] if len(terms) == 1 else max(terms, key=lambda term: self._worth_copying(term, count))
            begin, end = head.first - first, head.first - first + head.num_rows
            for low, high in ((0, begin), (end, count)):
                if low < high:
                    yield SetConst(self._rows(target, low, high - low), 0.0)
            dest = target if head.num_rows == count else self._rows(target, begin, head.num_rows)
            yield MatrixCopy(dest, self._taken(head), head.scale)
            terms = [term for term in terms if term is not head]
        for term in terms:
            dest = target if term.num_rows == count else self._rows(target, term.first - first, term.num_rows)
            yield MatrixAdd(dest, self._taken(term), term.scale)

    def _worth_copying(self, term: _Term, count: int) -> tuple[bool, bool]:
        """Returns a key, larger for a better first term: a term that fills all rows, in a matrix fit for the sum."""
        schedule = self.values.schedule
        same_rows = schedule.num_rows(term.source) == schedule.num_rows(self.gathered.number)
        return term.num_rows == count, term.scale == 1.0 and same_rows

    def _rows(self, target: int, first: int, count: int) -> int:
        return self.computation.new_submatrix(target, first * self._members, count * self._members)

    def _taken(self, term: _Term) -> int:
        return self.values.block(term.source, term.source_first, term.num_rows)

    # ---- backward ----

    def backward(
        self, step: int, derivs: NodeMatrices, overwrites: Mapping[int, np.ndarray], needed: np.ndarray
    ) -> list[Command]:
        """Returns the commands that send the derivative of a step's rows back to the sources of the rows.

        `overwrites[slot]` (rows,): the rows that write first to a source; slots missing in `overwrites` send nothing.
        """
        first, count = self._first[step], self._count[step]
        whole = derivs.block(self.gathered.number, first, count)
        commands: list[Command] = []
        for part, column, slots, regular in self._parts:
            sent = [slot for slot in slots if slot.count[step] and slot.number in overwrites]
            origin = self._columns(whole, column, part.num_cols)
            if regular[step] or all(slot.regular[step] for slot in sent):
                for slot in sent:
                    term = slot.term(step)
                    if needed[term.source]:
                        commands += self._send(term, origin, first, count, derivs, overwrites[term.slot])
            else:
                patterns = [slot.pattern for slot in sent]
                commands += self.irregular.backward(part, patterns, origin, derivs, first, count, needed)
        return commands

    def _send(
        self, term: _Term, origin: int, first: int, count: int, derivs: NodeMatrices, overwrites: np.ndarray
    ) -> Iterator[Command]:
        fresh = overwrites[term.first : term.first + term.num_rows]
        cuts = (np.flatnonzero(fresh[1:] != fresh[:-1]) + 1).tolist() if term.num_rows > 1 else ()
        for begin, end in pairwise((0, *cuts, term.num_rows)):
            dest = derivs.block(term.source, term.source_first + begin, end - begin)
            is_all = end - begin == count
            rows = origin if is_all else self._rows(origin, term.first - first + begin, end - begin)
            yield MatrixCopy(dest, rows, term.scale) if fresh[begin] else MatrixAdd(dest, rows, term.scale)
