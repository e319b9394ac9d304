"""Columns of the arcs of an acceptor of transition-ids."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.training.discriminative.supervision import ids_of_arcs

Integers = npt.NDArray[np.int64]
Costs = npt.NDArray[np.floating]


class FrameArcs(NamedTuple):
    """Arcs with a transition-id or none (0), and two costs, (arcs,) each."""

    src: Integers
    dst: Integers
    id: Integers
    graph: Costs
    acoustic: Costs

    @classmethod
    def of(cls, lattice: Lattice) -> FrameArcs:
        """Returns the arcs of a plain lattice, in order."""
        src, dst = lattice.fst.src.astype(np.int64), lattice.fst.dst.astype(np.int64)
        return cls(src, dst, ids_of_arcs(lattice), lattice.fst.cost, lattice.acoustic_cost)

    def part(self, chosen: npt.NDArray[Any]) -> FrameArcs:
        """Returns the chosen arcs: numbers of arcs, or a mask."""
        return FrameArcs(*(column[chosen] for column in self))

    def joined(self, other: FrameArcs) -> FrameArcs:
        """Returns these arcs, then the arcs of `other`."""
        return FrameArcs(*(np.concatenate(columns) for columns in zip(self, other, strict=True)))

    def best_first(self, *keys: npt.NDArray[Any]) -> Integers:
        """Returns the numbers of the arcs sorted by `keys`, the most important one first, then by costs.

        Of two arcs the one with the smaller sum of costs is better; of equal sums the one with the smaller graph cost.
        """
        order: Integers = np.lexsort((self.graph, self.graph + self.acoustic, *keys[::-1]))
        return order


def first_of_each(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Marks the first row, and each row different from the row before."""
    different = np.zeros(len(columns[0]), bool)
    different[:1] = True
    for column in columns:
        different[1:] |= column[1:] != column[:-1]
    return different
