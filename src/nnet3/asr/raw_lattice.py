"""Lattices as the search leaves them: arcs with a transition-id or none, a word or none, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.asr.arrays import Doubles, Flags, Integers
from nnet3.asr.label_lattice import LabelLattice
from nnet3.asr.levels import Levels, longest_paths
from nnet3.kaldi_io.lattice import Strings, no_strings


@dataclass(frozen=True, eq=False)
class RawLattice(Levels):
    """States in topological order, of which 0 is the start, and arcs in the order of the states that they leave.

    row_of_state: (states,), the rows of scores that are over. level: (states,), by row, and within it by the longest
    chain of arcs without a transition-id. src, dst, word, transition_id (0: none): (arcs,). graph_cost,
    acoustic_cost: (arcs,), final_graph: (states,), infinite where no path ends; float64. graph_state: (states,), where
    in the graph each is. `has_ended`: the final costs are those of the graph; without it no path had come to an end of
    the graph, and all may end.
    """

    row_of_state: Integers
    level: Integers
    src: Integers
    dst: Integers
    word: Integers
    transition_id: Integers
    graph_cost: Doubles
    acoustic_cost: Doubles
    final_graph: Doubles
    graph_state: Integers
    has_ended: bool = True

    @classmethod
    def sorted(
        cls,
        row_of_state: Integers,
        src: Integers,
        dst: Integers,
        word: Integers,
        transition_id: Integers,
        graph_cost: Doubles,
        acoustic_cost: Doubles,
        final_cost: Doubles,
        graph_state: Integers,
        has_ended: bool = True,
    ) -> RawLattice:
        """Makes a lattice of states and arcs in any order; the first state of the first row at depth 0 is the start."""
        within = row_of_state[src] == row_of_state[dst]
        depth = longest_paths(len(row_of_state), src[within], dst[within])
        order = np.lexsort((depth, row_of_state))
        number = np.argsort(order)
        arcs = np.argsort(number[src], kind="stable")
        step = (np.diff(row_of_state[order]) != 0) | (np.diff(depth[order]) != 0)
        return cls(
            row_of_state[order],
            np.append(0, np.cumsum(step)),
            number[src[arcs]],
            number[dst[arcs]],
            word[arcs],
            transition_id[arcs],
            graph_cost[arcs],
            acoustic_cost[arcs],
            final_cost[order],
            graph_state[order],
            has_ended,
        )

    @property
    def num_rows(self) -> int:
        return int(self.row_of_state.max(initial=0))

    @property
    def final_cost(self) -> Doubles:
        return self.final_graph

    def pruned(self, beam: float) -> RawLattice:
        """Keeps the paths that cost at most `beam` more than the best one."""
        return self._part(*self.within(beam))

    def labelled(self, label: Integers | None = None) -> LabelLattice:
        """Returns it with words, or other labels of the arcs, as labels."""
        emits = self.transition_id > 0
        ids = Strings.of(emits, self.transition_id[emits])
        return LabelLattice(
            *(self.level, self.src, self.dst, self.word if label is None else label),
            *(self.graph_cost, self.acoustic_cost, ids),
            *(self.final_graph, np.where(np.isfinite(self.final_cost), 0.0, np.inf), no_strings(self.num_states)),
        )

    def _part(self, states: Flags, arcs: Flags, ends: Flags) -> RawLattice:
        """Keeps these states and arcs; only these states are final."""
        number = np.cumsum(states) - 1
        return RawLattice(
            self.row_of_state[states],
            self.level[states],
            number[self.src[arcs]],
            number[self.dst[arcs]],
            self.word[arcs],
            self.transition_id[arcs],
            self.graph_cost[arcs],
            self.acoustic_cost[arcs],
            np.where(ends, self.final_graph, np.inf)[states],
            self.graph_state[states],
            self.has_ended,
        )
