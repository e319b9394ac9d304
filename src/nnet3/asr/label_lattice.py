"""Lattices of labels whose arcs carry strings of transition-ids, in the order of levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.asr.arrays import Doubles, Integers
from nnet3.asr.levels import Levels
from nnet3.asr.strings import chosen
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.lattice import Lattice, Strings


@dataclass(frozen=True, eq=False)
class LabelLattice(Levels):
    """Arcs with a label or none (0), sorted by the states that they leave; state 0 is the start.

    level: (states,), by which states are sorted; arcs lead to higher levels. src, dst, label: (arcs,). graph_cost,
    acoustic_cost: (arcs,). ids: of each arc. final_graph, final_acoustic: (states,), infinite where no path ends;
    final_ids: of each state.
    """

    level: Integers
    src: Integers
    dst: Integers
    label: Integers
    graph_cost: Doubles
    acoustic_cost: Doubles
    ids: Strings
    final_graph: Doubles
    final_acoustic: Doubles
    final_ids: Strings

    @cached_property
    def final_cost(self) -> Doubles:
        """What ending in each state costs, (states,)."""
        return self.final_graph + self.final_acoustic

    def pruned(self, beam: float) -> LabelLattice:
        """Keeps the paths that cost at most `beam` more than the best one."""
        states, arcs, is_final = self.within(beam)
        return self.part(states, arcs, is_final)

    def best_path(self) -> LabelLattice:
        """Keeps one path of least cost."""
        return self.part(*self.on_best_path())

    def part(
        self, states: npt.NDArray[np.bool_], arcs: npt.NDArray[np.bool_], is_final: npt.NDArray[np.bool_]
    ) -> LabelLattice:
        """Keeps these states and arcs; only these states are final."""
        number = np.cumsum(states) - 1
        ends = is_final[states]
        return LabelLattice(
            self.level[states],
            number[self.src[arcs]],
            number[self.dst[arcs]],
            self.label[arcs],
            self.graph_cost[arcs],
            self.acoustic_cost[arcs],
            chosen(self.ids, np.flatnonzero(arcs)),
            np.where(ends, self.final_graph[states], np.inf),
            np.where(ends, self.final_acoustic[states], np.inf),
            chosen(self.final_ids, np.flatnonzero(states)),
        )

    def with_labels(self, label: Integers) -> LabelLattice:
        """Returns the same with other labels of the arcs."""
        costs = self.graph_cost, self.acoustic_cost, self.ids, self.final_graph, self.final_acoustic, self.final_ids
        return LabelLattice(self.level, self.src, self.dst, label, *costs)

    def lattice(self) -> Lattice:
        """Returns it as an acceptor, as tables have it."""
        fst = Fst.from_arcs(0, self.final_graph, self.src, self.dst, self.label, self.graph_cost)
        ends = np.where(np.isfinite(self.final_graph), self.final_acoustic, np.inf)
        return Lattice(fst, self.acoustic_cost.astype(np.float32), ends.astype(np.float32), self.ids, self.final_ids)
