"""The sweep from the inputs up, which finds the computable rows (a least fixed point).

In a recurrence the sweep goes round the nodes. From below, with given rows alone at first, a value that is handed on
takes a round for each frame. If every cycle of the recurrence leads back in time, or every cycle leads ahead, no row
depends on itself, and so there is one fixed point only. A sweep from above, with all rows at first, comes to the same
one, and mostly in few rounds where the sweep from below takes many. They take turns, and the first at rest is right.

With x given at t = 0..3 only, y(0), which needs x(-1), is not computable:

>>> from tests.lowering.examples import splice
>>> sweeps = splice(given=range(4)).sweeps
>>> found = Computability(sweeps.ground)
>>> for name, known in zip(sweeps.structure.names, found.known):
...     print(name, known[:, 0, 0].astype(int))
x [0 1 1 1 1]
y_input [0 1 1 1]
y [0 1 1 1]
output [0 1 1 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.slot_table import Mask, SlotTable, SweepGround
from nnet3.engine.lowering.source import NodeKind

_ALONE = 6  # rounds from below before a sweep from above begins: most recurrences are at rest by then
_AT_REST = object()


class Computability:
    """The rows within a domain that can be computed from the given rows.

    `known[node]` (times, xs, classes): the computable rows. `used[node]` (times, xs, classes, slots): the slots used by
    computable rows, None if all slots are used. `known[node]` and `used[node]` are None for nodes outside the domain.
    Rows of a recurrence beyond the domain count as missing, or if `optimistic` as available: the truth is between the
    two.
    """

    def __init__(self, ground: SweepGround, *, optimistic: bool = False):
        self.ground, self.optimistic = ground, optimistic
        structure = ground.domain.structure
        self._source = structure.source
        self.known: list[Mask | None] = [None for _ in structure.nodes]
        self.used: list[Mask | None] = [None for _ in structure.nodes]
        for number, nodes in enumerate(structure.components):
            if ground.tables[nodes[0]] is None:
                continue
            if structure.is_recurrent[number]:
                self._settle(nodes)
            else:
                self.known[nodes[0]], self.used[nodes[0]] = self._evaluate(nodes[0])

    def depends_on_edge(self, node: int) -> bool:
        """True if a row of the node would change if what it looks at outside the domain were available."""
        table = self.ground.tables[node]
        if table is None or table.outside is None:
            return False
        rows = np.flatnonzero(table.outside.any(axis=1))
        available = self.available(node, table)
        shape = (table.grid.num_rows, self.ground.copies(node), table.num_slots)
        some = available.reshape(shape)[rows] | table.outside[rows][:, np.newaxis]
        used = self.used[node]
        was_known = self._known(node).reshape(shape[:2])[rows]
        was_used = available.reshape(shape)[rows] if used is None else used.reshape(shape)[rows]
        computable, uses = self.rule(node, table, some.reshape(-1, table.num_slots), rows)
        computable = computable.reshape(was_known.shape)
        changed = (uses.reshape(was_used.shape) != was_used).any(axis=2)
        differs = (computable & ~was_known) | (was_known & changed)
        if node in self.ground.given:
            differs &= ~self.ground.given[node].reshape(shape[:2])[rows]
        return bool(differs.any())

    # ---- recurrences ----

    def _settle(self, nodes: Sequence[int]) -> None:
        """Evaluate the nodes of a recurrence until nothing changes, from below, and perhaps from above in turn."""
        empty = {node: self.ground.empty(node) for node in nodes}
        sweeps = [self._rounds(empty | {node: self.ground.given[node] for node in nodes if node in self.ground.given})]
        for number in count():
            if number == _ALONE and self.ground.domain.is_one_way(nodes):
                sweeps.append(self._rounds({node: ~rows for node, rows in empty.items()}))
            if any(next(sweep, _AT_REST) is _AT_REST for sweep in sweeps):
                return

    def _rounds(self, known: dict[int, Mask]) -> Iterator[None]:
        """Evaluate the nodes, beginning with these states, until nothing changes; stops after each other round."""
        users, waiting, used = self.ground.domain.structure.users_inside, set(known), dict[int, Mask | None]()
        while True:
            for node, rows in known.items():
                self.known[node] = rows
            for node in known:
                if node in waiting:
                    waiting.discard(node)
                    before = known[node]
                    known[node], used[node] = self._evaluate(node)
                    self.known[node] = known[node]
                    if np.count_nonzero(known[node]) != np.count_nonzero(before):  # rows only come, or only go
                        waiting.update(users[node])
            if not waiting:
                break
            yield
        for node in known:
            self.used[node] = used[node]

    # ---- one node ----

    def _evaluate(self, node: int) -> tuple[Mask, Mask | None]:
        table = self.ground.table(node)
        given = self.ground.given.get(node)
        if self.ground.domain.structure.nodes[node].kind == NodeKind.PROVIDED:
            shape = (*table.grid.shape, self.ground.copies(node))
            absent = np.zeros(shape, bool) if self.ground.domain.structure.has_samples[node] else np.ones(shape, bool)
            return (absent if given is None else given), None
        block = table.passes_on
        if block is not None and not table.asks:
            known: Mask = self._known(block.source)[block.other]
            used: Mask | None = None
        else:
            available = self.available(node, table)
            shape = (*table.grid.shape, self.ground.copies(node))
            if not table.asks:
                known, used = np.asarray(available.all(axis=-1)), None
            else:
                computable, uses = self.rule(node, table, available.reshape(-1, table.num_slots))
                known, used = computable.reshape(shape), uses.reshape(*shape, -1)
        for source in table.all_samples:
            known = known & (self._known(source) >= self.ground.samples[source]).all()
        return (known if given is None else known | given), used

    def _known(self, node: int) -> Mask:
        return present(self.known[node])

    def available(self, node: int, table: SlotTable) -> Mask:
        """Returns the slots that are available, (times, xs, classes, slots)."""
        only = table.passes_on
        if only is not None:
            return self._known(only.source)[only.other][..., np.newaxis]
        return table.seen(self.ground.copies(node), self._known, self.optimistic)

    def rule(self, node: int, table: SlotTable, available: Mask, rows: np.ndarray | None = None) -> tuple[Mask, Mask]:
        """Returns the rows computable from `available` slots, and the slots that they use. `rows`: None for all."""
        if len(table.asked) == 0:
            return np.asarray(available.all(axis=1)), available
        copies = self.ground.copies(node)
        indexes = table.grid.table(copies)
        if rows is not None:
            indexes = indexes.reshape(-1, copies, 3)[rows].reshape(-1, 3)
        if len(table.asked) == table.num_slots:
            return self._source.computable(node, indexes, available)
        computable, uses = self._source.computable(node, indexes, available[:, table.asked])
        used = available.copy()
        used[:, table.asked] = uses
        fixed = np.ones(table.num_slots, bool)
        fixed[table.asked] = False
        return np.asarray(computable & available[:, fixed].all(axis=1)), used
