"""Lattices as the search leaves them: arcs with a transition-id or none, a word or none, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Strings, no_strings
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.levels import Levels, longest_paths

_OF_STATES = ("row_of_state", "level", "final_graph", "graph_state")
_OF_ARCS = ("word", "transition_id", "graph_cost", "acoustic_cost")  # besides their ends


@dataclass(frozen=True, eq=False)
class RawLattice(Levels):
    """States in topological order, the start first; arcs ordered by source state.

    row_of_state: (states,), the number of rows of scores before the state. level: (states,), by row, and within a row
    by the longest chain of arcs without a transition-id. src, dst, word, transition_id (0: none): (arcs,). graph_cost,
    acoustic_cost: (arcs,), final_graph: (states,), infinite where no path ends; float64. graph_state: (states,), the
    state's number in the graph. `has_ended`: the final costs are the graph's; otherwise no path had come to an end of
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
    def sorted(cls, row_of_state: Integers, depth: Integers | None = None, **columns: Any) -> RawLattice:
        """Makes a lattice of states and arcs in any order; the first state of the first row at depth 0 is the start.

        `columns` are all other fields but `level`, by name. depth: (states,), the longest chain to each state within
        its row, by default of these arcs.
        """
        found = cls(row_of_state=row_of_state, level=np.zeros(len(row_of_state), np.int64), **columns)
        if depth is None:
            within = row_of_state[found.src] == row_of_state[found.dst]
            depth = longest_paths(len(row_of_state), found.src[within], found.dst[within])
        order = np.lexsort((depth, row_of_state))
        number = np.argsort(order)
        step = (np.diff(row_of_state[order]) != 0) | (np.diff(depth[order]) != 0)
        chosen = found._chosen(order, np.argsort(number[found.src], kind="stable"), number)
        return replace(chosen, level=np.append(0, np.cumsum(step)))

    @property
    def num_rows(self) -> int:
        return int(self.row_of_state.max(initial=0))

    @property
    def final_cost(self) -> Doubles:
        return self.final_graph

    def pruned(self, beam: float) -> RawLattice:
        """Keeps the paths at most `beam` worse than the best path."""
        states, arcs, ends = self.within(beam)
        ending = replace(self, final_graph=np.where(ends, self.final_graph, np.inf))
        return ending._chosen(states, arcs, np.cumsum(states) - 1)

    def labelled(self, label: Integers | None = None) -> LabelLattice:
        """Returns the lattice with words, or other labels of the arcs, as labels."""
        emits = self.transition_id > 0
        ids = Strings.of(emits, self.transition_id[emits])
        return LabelLattice(
            *(self.level, self.src, self.dst, self.word if label is None else label),
            *(self.graph_cost, self.acoustic_cost, ids),
            *(self.final_graph, np.where(np.isfinite(self.final_cost), 0.0, np.inf), no_strings(self.num_states)),
        )

    def _chosen(self, states: npt.NDArray[Any], arcs: npt.NDArray[Any], number: Integers) -> RawLattice:
        """Returns these states and arcs, numbers or masks; `number` (states,) has the new numbers of states."""
        columns = {name: getattr(self, name)[states] for name in _OF_STATES}
        columns |= {name: getattr(self, name)[arcs] for name in _OF_ARCS}
        return replace(self, **columns, src=number[self.src[arcs]], dst=number[self.dst[arcs]])
