"""Form: the kind of source node made of an operation for lowering, and the rules by which slots look at sources."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.base.index import IndexTable, T
from nnet3.engine.lowering.source import GatherPart, NodeKind
from nnet3.model.components.base import Component, Properties


class SlotRule(abc.ABC):
    """The positions at which the slots of a node look: `moves` (slots,) in time, at `sources` (slots,)."""

    #: The frames of time after which the rule is the same again; None if that is not known.
    period: int | None = 1

    def __init__(self, sources: Sequence[int], moves: Sequence[int]):
        self.sources = list(sources)
        self._moves = np.array(moves, np.int64)

    def slots(self, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        rows = len(indexes)
        nodes = np.broadcast_to(np.array(self.sources, np.int32), (rows, len(self.sources)))
        looked_at = np.repeat(indexes[:, np.newaxis], len(self.sources), axis=1)
        looked_at[:, :, T] += self._moves.astype(np.int32)
        return nodes, looked_at

    @abc.abstractmethod
    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the computable rows (rows,), and the slots used, of available slots (rows, slots)."""

    def arrange(self, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        """Returns the orders of rows that the kernel wants."""
        return inputs, outputs


class StackRule(SlotRule):
    """The same index of each source; all sources must have the row."""

    def __init__(self, sources: Sequence[int]):
        super().__init__(sources, [0] * len(sources))

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = np.logical_and.reduce(available, axis=1)
        return whole, available & whole[:, np.newaxis]


class PaddedRule(SlotRule):
    """The same index of the operand (slot 1) in the clock's frames; in other frames the default.

    The clock is an input (slot 0, never used).
    """

    def __init__(self, clock: int, operand: int):
        super().__init__([clock, operand], [0, 0])

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used = available.copy()
        used[:, 1] &= used[:, 0]
        used[:, 0] = False
        return np.ones(len(available), bool), used


class ComponentRule(SlotRule):
    """The rows of one gathered node read by a component."""

    def __init__(self, gathered: int, component: Component):
        super().__init__([gathered], [0])
        self.component, self.period = component, component.rules_period

    def slots(self, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        looked_at = self.component.wanted_inputs(indexes)
        return np.full(looked_at.shape[:2], self.sources[0], np.int32), looked_at

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.component.computable(indexes, available)

    def arrange(self, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        if self.component.properties & Properties.REORDERS_INDEXES:
            return self.component.reorder_indexes(inputs, outputs)
        return inputs, outputs


class DelayRule(SlotRule):
    """The rule of a delay: a row exists where the clock, an input, has one (slot 0, never used).

    The row uses the first existing row of the operand and the initial state, `lag` frames ago; else it is the default.
    """

    def __init__(self, clock: int, sources: Sequence[int], lag: int):
        super().__init__([clock, *sources], [0] + [-lag] * len(sources))

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exists = available[:, 0].copy()
        used = available & exists[:, np.newaxis]
        used[:, 0] = False
        if used.shape[1] > 2:
            used[:, 2] &= ~used[:, 1]
        return exists, used


@dataclass(frozen=True)
class NodeForm:
    """The kind of source node made of an operation, and the needs of this kind (see `SourceNode`).

    `rule`: the slots' positions of a GATHERED node and of a KERNEL with an INDEXED operand: made of the number of the
    clock, an input that has all frames, and of the numbers of the operands. `clock_for`: the reason to have a clock, ""
    if none is needed.
    """

    kind: NodeKind
    parts: tuple[GatherPart, ...] = ()
    col_offset: int = 0
    rule: Callable[[int, Sequence[int]], SlotRule] | None = None
    clock_for: str = ""
