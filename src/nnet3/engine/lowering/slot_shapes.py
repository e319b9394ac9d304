"""Shapes of slots: most look at a constant distance in t and x, whatever the index.

The node that puts x(t-1) and x(t) side by side, at t = 0..3:

>>> from tests.lowering.examples import splice
>>> source = splice().source
>>> slots = node_slots(source, 1, source.nodes[1])
>>> for shift in slot_shape(source, 1, slots, Grid(((0, 3),), (0,)), [True] * 4).shifts:
...     print(shift)
Shift(slot=0, source=0, dt=-1, dx=0)
Shift(slot=1, source=0, dt=0, dx=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.base.index import T, X, distinct
from nnet3.engine.lowering.grids import Grid, Int64
from nnet3.engine.lowering.source import GraphRules, NodeKind, SourceNode, Use

_MAX_SHIFTS = 24  # of one node that are worth an array operation each


@dataclass(frozen=True)
class Shift:
    """A slot that looks at (t + dt, x + dx) of one node for every (t, x)."""

    slot: int
    source: int
    dt: int
    dx: int


@dataclass(frozen=True, eq=False)
class Scattered:
    """Slots whose distance from a node varies. `valid` (rows, slots): True where a slot looks at the node `source`."""

    source: int
    slots: npt.NDArray[np.intp]  # (slots,)
    times: Int64  # (rows, slots)
    xs: Int64
    valid: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SlotShape:
    """The slots of a node by where they look, for the rows of one grid. `singles`: (slot, source) without samples."""

    shifts: Sequence[Shift] = ()
    singles: Sequence[tuple[int, int]] = ()
    scattered: Sequence[Scattered] = ()


@dataclass(frozen=True, eq=False)
class NodeSlots:
    """The slots of a node. `fixed`: (slot, source) of ROW and WHOLE operands and of views.

    `asked`: the slots that `GraphRules.slots` names. `all_samples`: (position, node) of operands of that kind.
    """

    fixed: tuple[tuple[int, int], ...]
    asked: npt.NDArray[np.intp]
    operand: npt.NDArray[np.int32]  # (slots,): the position of the operand that each belongs to
    all_samples: tuple[tuple[int, int], ...] = ()

    @cached_property
    def num_slots(self) -> int:
        return len(self.operand)


def node_slots(source: GraphRules, number: int, node: SourceNode) -> NodeSlots:
    """Returns the slots of a node, with the operand of each slot."""
    probe = np.zeros((1, 3), np.int32)
    if node.kind == NodeKind.GATHERED:
        num_slots = source.slots(number, probe)[0].shape[1]
        return NodeSlots((), np.arange(num_slots), np.zeros(num_slots, np.int32))
    if any(operand.use == Use.INDEXED for operand in node.operands):
        asked_sources = source.slots(number, probe)[0][0]
    else:
        asked_sources = np.empty(0, np.int32)
    fixed: list[tuple[int, int]] = []
    asked: list[int] = []
    owner: list[int] = []
    for position, operand in enumerate(node.operands):
        if operand.use == Use.INDEXED:
            count = int((asked_sources == operand.node).sum())
            asked += range(len(owner), len(owner) + count)
            owner += [position] * count
        elif operand.use != Use.ALL_SAMPLES:
            fixed.append((len(owner), operand.node))
            owner.append(position)
    all_samples = tuple((p, operand.node) for p, operand in enumerate(node.operands) if operand.use == Use.ALL_SAMPLES)
    return NodeSlots(tuple(fixed), np.array(asked, np.intp), np.array(owner, np.int32), all_samples)


def slot_shape(source: GraphRules, number: int, slots: NodeSlots, grid: Grid, has_samples: Sequence[bool]) -> SlotShape:
    """Returns where the slots of node `number` look, for the rows of the grid."""
    shifts, singles, scattered = [], [], []
    for slot, at in slots.fixed:
        if has_samples[at]:
            shifts.append(Shift(slot, at, 0, 0))
        else:
            singles.append((slot, at))
    if len(slots.asked) == 0 or grid.num_rows == 0:
        return SlotShape(shifts, singles)
    own = grid.table()
    nodes, indexes = source.slots(number, own)  # (rows, slots), (rows, slots, 3)
    moves = indexes[:, :, T:] - own[:, np.newaxis, T:]
    one_source = (nodes == nodes[:1]).all(axis=0)
    same = (moves == moves[:1]).all(axis=(0, 2)) & one_source
    if same.sum() > _MAX_SHIFTS:
        same[:] = False
    for column in np.flatnonzero(one_source).tolist():
        slot, at = int(slots.asked[column]), int(nodes[0, column])
        if not has_samples[at]:
            singles.append((slot, at))
            same[column] = True
        elif same[column]:
            dt, dx = moves[0, column].tolist()
            shifts.append(Shift(slot, at, dt, dx))
    rest = np.flatnonzero(~same)
    if len(rest):
        for at in distinct(nodes[:, rest]).tolist():
            here = nodes[:, rest] == at
            columns = here.any(axis=0)
            chosen = rest[columns]
            where = indexes[:, chosen].astype(np.int64)
            scattered.append(
                Scattered(at, slots.asked[chosen], where[..., T], where[..., X], np.ascontiguousarray(here[:, columns]))
            )
    return SlotShape(shifts, singles, scattered)
