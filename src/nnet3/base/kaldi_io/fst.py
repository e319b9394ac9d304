"""Finite-state transducers of the tropical semiring as arrays: costs are -log probabilities, label 0 is epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from nnet3.errors import ModelFormatError

NO_STATE = -1
NOT_FINAL = np.float32(np.inf)


def _as_costs(values: ArrayLike) -> npt.NDArray[np.float32]:
    """Converts to float32; numbers that do not fit become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32, copy=False)


@dataclass(frozen=True, eq=False)
class Fst:
    """States 0 .. num_states - 1; arcs `offsets[s] : offsets[s + 1]` leave state s, in the order of the file.

    start: NO_STATE if there are no states. final: (states,) float32 costs of ending, infinite where a path cannot end.
    offsets: (states + 1,) int64. ilabel, olabel, dst: (arcs,) int32. cost: (arcs,) float32, finite. `properties` are
    the property bits of the FST's file, for writing the same file again; None for an FST made here. Raises
    ModelFormatError for an impossible FST: arcs to nowhere, negative labels, NaN.
    """

    start: int
    final: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    ilabel: npt.NDArray[np.int32]
    olabel: npt.NDArray[np.int32]
    cost: npt.NDArray[np.float32]
    dst: npt.NDArray[np.int32]
    properties: int | None = None

    step = 1  # of the numbers of a state's arcs

    def __post_init__(self) -> None:
        states, arcs = len(self.final), len(self.dst)
        assert len(self.offsets) == states + 1, "one offset for each state and one at the end"
        assert len(self.ilabel) == len(self.olabel) == len(self.cost) == arcs, "arrays of different lengths"
        if not (NO_STATE <= self.start < states) or (self.start == NO_STATE) != (states == 0):
            raise ModelFormatError(f"the start state is {self.start}, but there are {states} states")
        if self.offsets[0] != 0 or self.offsets[-1] != arcs or (self.offsets[1:] < self.offsets[:-1]).any():
            raise ModelFormatError("the arcs of the states do not lie one after the other")
        if arcs and (self.dst.min() < 0 or self.dst.max() >= states):
            arc = int(np.argmax((self.dst < 0) | (self.dst >= states)))
            raise ModelFormatError(f"arc {arc} leads to state {self.dst[arc]}, but there are {states} states")
        for labels in {id(array): array for array in (self.ilabel, self.olabel)}.values():
            if arcs and labels.min() < 0:
                raise ModelFormatError(f"arc {int(np.argmin(labels))} has the label {labels.min()}: they are >= 0")
        if not np.isfinite(self.cost).all():
            arc = int(np.argmin(np.isfinite(self.cost)))
            raise ModelFormatError(f"arc {arc} has the cost {self.cost[arc]}, which is not a finite number")
        if np.isnan(self.final).any() or (self.final == -np.inf).any():
            state = int(np.argmax(np.isnan(self.final) | (self.final == -np.inf)))
            raise ModelFormatError(f"state {state} has the final cost {self.final[state]}")

    @classmethod
    def from_arcs(
        cls,
        start: int,
        final: ArrayLike,
        src: ArrayLike,
        dst: ArrayLike,
        ilabel: ArrayLike,
        cost: ArrayLike | None = None,
        olabel: ArrayLike | None = None,
    ) -> Fst:
        """Makes an FST of arcs; a state's arcs keep their order. Costs are 0 by default; no `olabel`: an acceptor.

        ModelFormatError also for an arc from nowhere.
        """
        final = _as_costs(final)
        src = np.asarray(src, np.int64)
        if src.size and (src.min() < 0 or src.max() >= len(final)):
            raise ModelFormatError(f"an arc leaves a state that is not one of the {len(final)} states")
        order = slice(None) if (np.diff(src) >= 0).all() else np.argsort(src, kind="stable")
        offsets = np.zeros(len(final) + 1, np.int64)
        np.cumsum(np.bincount(src, minlength=len(final)), out=offsets[1:])
        labels = np.asarray(ilabel, np.int32)[order]
        out = labels if olabel is None else np.asarray(olabel, np.int32)[order]
        costs = np.zeros(len(src), np.float32) if cost is None else _as_costs(cost)[order]
        return cls(start, final, offsets, labels, out, costs, np.asarray(dst, np.int32)[order])

    @classmethod
    def empty(cls) -> Fst:
        """Returns the FST without states, which accepts nothing."""
        return cls.from_arcs(NO_STATE, (), (), (), ())

    @property
    def num_states(self) -> int:
        return len(self.final)

    @property
    def num_arcs(self) -> int:
        return len(self.dst)

    @cached_property
    def src(self) -> npt.NDArray[np.int32]:
        """The source state of each arc, (arcs,)."""
        return np.repeat(np.arange(self.num_states, dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def is_acceptor(self) -> bool:
        """True if the two labels of every arc are the same."""
        return self.olabel is self.ilabel or bool(np.array_equal(self.ilabel, self.olabel))

    @cached_property
    def has_epsilons(self) -> bool:
        """True if some arc has label 0 on both sides."""
        return bool(((self.ilabel == 0) & (self.olabel == 0)).any())

    @property
    def largest_input(self) -> int:
        """The largest label of input; 0 without arcs."""
        return int(self.ilabel.max(initial=0))

    @property
    def largest_label(self) -> int:
        """The largest label of either side; 0 without arcs."""
        return int(max(self.ilabel.max(), self.olabel.max())) if self.num_arcs else 0

    def __repr__(self) -> str:
        kind = "acceptor" if self.is_acceptor else "transducer"
        return f"<Fst: {kind} of {self.num_states} states and {self.num_arcs} arcs>"
