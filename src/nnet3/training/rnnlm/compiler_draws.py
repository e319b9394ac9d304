"""The random numbers that Kaldi's compiler draws for its own checks, which move all later draws of rnnlm-train.

Kaldi finds the rows of a computation in rounds, from the outputs back to the inputs. After round r the compiler draws
a number of 1 .. r + 1, and checks the known rows if the number is 1. A last number of 1 .. 2 decides about a last
check. A check draws a number at each row that it looks at; with 100 rows or more, a second number says how many rows
it leaves out.

A computation of more than two sequences is made from that of two. Then Kaldi looks at the rows of each step of a
component with indexes of its own: it draws up to five rows of the input, and as many of the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nnet3.model.nnet import Nnet
from nnet3.model.structure.cycles import recurrent_nodes
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import ComponentNode, DimRangeNode, InputNode
from nnet3.model.structure.parts import NetworkParts
from nnet3.training.examples.c_random import CRandom

_MOST_COMPILED = 2  # sequences
_MOST_CHECKED = 5  # rows of a step

_Cindex = tuple[int, tuple[int, ...]]  # a node and an index


@dataclass(eq=False)
class _Row:
    """A row of a node: `slots` are rows it may need, `users` rows that may need it.

    `can_be`: whether the row can be computed; None: not known yet.
    """

    cindex: _Cindex
    number: int
    slots: list[_Row] = field(default_factory=list)
    sources: list[_Row] = field(default_factory=list)
    users: list[_Row] = field(default_factory=list)
    num_wanting: int = 0
    can_be: bool | None = None
    waits: bool = False
    is_expanded: bool = False


class CompiledRows:
    """The rows needed by the outputs of some sequences, found in Kaldi's order.

    `sizes`: the number of rows known after each round.
    """

    def __init__(self, parts: NetworkParts, num_sequences: int, num_times: int) -> None:
        self._parts, self._rules = parts, NodeRules(parts)
        self._rows: dict[_Cindex, _Row] = {}
        self._later: list[_Row] = []
        self.num_sequences, self.sizes = num_sequences, list[int]()
        number, indexes = parts.node_number, [(n, t, 0) for t in range(num_times) for n in range(num_sequences)]
        for index in indexes:
            self._row((number["input"], index)).can_be = True
        for index in indexes:
            self._row((number["output"], index)).num_wanting = 1
            self._wait(self._row((number["output"], index)))
        while self._later:
            now, self._later = self._later, []
            while now:
                self._work_on(now.pop())
            self.sizes.append(len(self._rows))

    def rows_of_steps(self) -> Iterator[int]:
        """Yields the number of rows of each step of components that precompute indexes.

        A step of a recurrence has the rows of equal depth; any other node has one step.
        """
        recurrent = set(recurrent_nodes(self._rules))
        depths: dict[_Row, int] = {}
        for row in self._rows.values():
            _find_depth(row, depths)
        steps = Counter[tuple[int, int]]()
        for row, depth in depths.items():
            node = self._parts.nodes[row.cindex[0]]
            if row.can_be and isinstance(node, ComponentNode) and self._parts.component(node).needs_indexes:
                steps[row.cindex[0], depth if row.cindex[0] in recurrent else 0] += 1
        yield from steps.values()

    def _work_on(self, row: _Row) -> None:
        row.waits = False
        if not row.is_expanded and row.num_wanting:
            row.is_expanded = True
            self._expand(row)
            self._wait(row)
        elif row.can_be is None and row.num_wanting:
            row.can_be = self._decide(row)
            if row.can_be is not None:
                for user in row.users:
                    if user.can_be is None:
                        self._wait(user)
            if row.can_be is False:
                for source in row.sources:
                    self._drop(source)

    def _expand(self, row: _Row) -> None:
        node, index = row.cindex
        nodes, indexes = self._rules.slots(node, np.array([index], np.int32))
        for source, where in zip(nodes[0].tolist(), indexes[0].tolist(), strict=True):
            is_new = (cindex := (source, tuple(where))) not in self._rows
            row.slots.append(self._row(cindex))
            if is_new:
                self._wait(row.slots[-1])
        row.sources = sorted(set(row.slots), key=lambda each: each.number)
        for each in row.sources:
            each.users.append(row)
            self._want(each)

    def _decide(self, row: _Row) -> bool | None:
        """Returns whether a row can be computed, from `can_be` of the rows in its slots; None: not known yet."""
        node, index = row.cindex
        kind, known = self._parts.nodes[node], [each.can_be for each in row.slots]
        if isinstance(kind, InputNode):
            return False
        if isinstance(kind, DimRangeNode):
            return known[0]
        at_least, at_most = ([bool(each) for each in known], [each is not False for each in known])
        for slots, answer in ((at_least, True), (at_most, False)):
            can_be = self._rules.computable(node, np.array([index], np.int32), np.array([slots], bool))[0][0]
            if bool(can_be) is answer:
                return answer
        return None

    def _row(self, cindex: _Cindex) -> _Row:
        return self._rows.setdefault(cindex, _Row(cindex, len(self._rows)))

    def _wait(self, row: _Row) -> None:
        if not row.waits:
            row.waits = True
            self._later.append(row)

    def _want(self, row: _Row) -> None:
        row.num_wanting += 1
        if row.num_wanting == 1 and row.can_be is not False:
            for source in row.sources:
                self._want(source)
            if row.can_be is None:
                self._wait(row)

    def _drop(self, row: _Row) -> None:
        row.num_wanting -= 1
        if row.num_wanting == 0 and row.can_be is not False:
            for source in row.sources:
                self._drop(source)


def _find_depth(row: _Row, depths: dict[_Row, int]) -> None:
    """Adds a row, and all rows below, to `depths`: the length of the longest chain of rows computed before."""
    stack = [row]
    while stack:
        unknown = [each for each in stack[-1].sources if each.can_be and each not in depths]
        if unknown:
            stack.append(unknown[0])
        else:
            last = stack.pop()
            depths[last] = 1 + max((depths[each] for each in last.sources if each.can_be), default=-1)


class CompilerDraws:
    """Draws the random numbers that Kaldi's compiler draws for minibatches; a shape compiled before draws none."""

    def __init__(self, nnet: Nnet, random: CRandom) -> None:
        self._parts, self.random = nnet.parts, random
        self._compiled: dict[tuple[int, int], CompiledRows] = {}
        self.seen: set[tuple[int, int]] = set()

    def compile(self, num_sequences: int, num_times: int) -> None:
        """Draws what Kaldi's compiler draws for a minibatch of `num_sequences` sequences of `num_times` words."""
        if (num_sequences, num_times) in self.seen:
            return
        small = min(num_sequences, _MOST_COMPILED), num_times
        is_new = small not in self.seen
        self.seen |= {small, (num_sequences, num_times)}
        if small not in self._compiled:
            self._compiled[small] = CompiledRows(self._parts, *small)
        rows = self._compiled[small]
        if is_new:
            self._draw_checks(rows.sizes)
        if num_sequences > _MOST_COMPILED:
            for num_rows in rows.rows_of_steps():
                for _ in range(2 * min(_MOST_CHECKED, num_rows)):
                    self.random.integer(0, num_rows - 1)

    def _draw_checks(self, sizes: list[int]) -> None:
        random = self.random
        for number, size in enumerate(sizes, 1):
            if random.integer(1, number + 1) == 1:
                self._draw_check(size)
        if random.integer(1, 2) == 1:
            self._draw_check(sizes[-1])

    def _draw_check(self, size: int) -> None:
        row = 0
        while row < size:
            self.random.integer(0, row)
            row += 1 + self.random.integer(0, size // 100)
