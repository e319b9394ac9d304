"""Lattices of labels whose arcs carry strings of transition-ids, in the order of levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.fst_reach import accessible
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.base.kaldi_io.lattice_states import with_states
from nnet3.errors import ExecutionError
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers
from nnet3.speech.arrays.columns import part
from nnet3.speech.lattices.levels import Levels, longest_paths


class LabelledArcs(NamedTuple):
    """Arcs between states, with their labels, costs and strings."""

    src: Integers
    dst: Integers
    label: Integers
    graph: Doubles
    acoustic: Doubles
    ids: Strings

    def renumbered(self, order: Integers) -> LabelledArcs:
        """Returns the arcs for states in the given order, (states,), sorted by source state."""
        number = np.argsort(order)
        arcs = self._replace(src=number[self.src], dst=number[self.dst])
        return part(arcs, np.argsort(arcs.src, kind="stable"))


_NONE, _FREE = np.zeros(0, np.int64), np.zeros(0)
NO_ARCS = LabelledArcs(_NONE, _NONE, _NONE, _FREE, _FREE, no_strings(0))


def final_columns(
    states: int, final: Integers, graph: Doubles, acoustic: Doubles, ids: Strings
) -> tuple[Doubles, Doubles, Strings]:
    """Returns the costs and ids of ending for all states, (states,) each, from columns of the final states, (n,)."""
    final_graph, final_acoustic = np.full((2, states), np.inf)
    final_graph[final], final_acoustic[final] = graph, acoustic
    end_of_state = np.full(states, len(final))
    end_of_state[final] = np.arange(len(final))
    return final_graph, final_acoustic, Strings.joined([ids, no_strings(1)])[end_of_state]


@dataclass(frozen=True, eq=False)
class LabelLattice(Levels):
    """Arcs with a label or none (0), sorted by source state; state 0 is the start.

    level: (states,), in ascending order; arcs lead to higher levels. src, dst, label: (arcs,). graph_cost,
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

    @classmethod
    def of(cls, lattice: Lattice, *, keeps_order: bool = False) -> LabelLattice:
        """Returns a lattice of tables, plain or compact, without states out of reach of the start.

        Labels are the lattice's words. `keeps_order`: arcs lead upwards, and each state gets a level of its own. Raises
        ExecutionError for a cycle or a lattice without states.
        """
        if lattice.fst.num_states == 0:
            raise ExecutionError("the lattice is empty")
        lattice = with_states(lattice, np.flatnonzero(accessible(lattice.fst)))
        fst = lattice.fst
        depth = np.arange(fst.num_states) if keeps_order else longest_paths(fst.num_states, fst.src, fst.dst)
        order = np.argsort(depth, kind="stable")
        costs = fst.cost.astype(np.float64), lattice.acoustic_cost.astype(np.float64)
        arcs = LabelledArcs(
            *(fst.src.astype(np.int64), fst.dst.astype(np.int64), fst.ilabel), *costs, lattice.transition_ids
        )
        final, acoustic = (each[order].astype(np.float64) for each in (fst.final, _final_acoustic(lattice)))
        return cls(depth[order], *arcs.renumbered(order), final, acoustic, lattice.final_transition_ids[order])

    @cached_property
    def final_cost(self) -> Doubles:
        """The cost of ending in each state, (states,)."""
        return self.final_graph + self.final_acoustic

    @property
    def arcs(self) -> LabelledArcs:
        return LabelledArcs(self.src, self.dst, self.label, self.graph_cost, self.acoustic_cost, self.ids)

    def pruned(self, beam: float) -> LabelLattice:
        """Keeps the paths at most `beam` worse than the best path."""
        states, arcs, ends = self.within(beam)
        whole = states.all() and arcs.all() and np.count_nonzero(ends) == np.count_nonzero(self.final_cost < np.inf)
        return self if whole else self._part(states, arcs, ends)

    def best_path(self) -> LabelLattice:
        """Keeps one path of least cost."""
        return self._part(*self.on_best_path())

    def with_arcs_behind(self, arcs: Integers, labels: Integers) -> LabelLattice:
        """Lets arcs lead to new states, from where arcs with `labels`, (arcs,), and no costs lead on."""
        new, states = len(arcs), self.num_states
        between, dst, nothing = states + np.arange(new), self.dst.copy(), np.zeros(new)
        dst[arcs] = between
        behind = LabelledArcs(between, self.dst[arcs], labels, nothing, nothing, no_strings(new))
        cut = replace(self, level=2 * self.level, dst=dst)
        return cut._with_states(2 * self.level[self.src[arcs]] + 1, np.inf, behind)

    def with_plain_ends(self) -> LabelLattice:
        """Lets an arc without a label, with the costs and ids, lead to a new end, in the place of each end with ids."""
        ending, states = np.flatnonzero(self.final_ids.lengths), self.num_states
        if not len(ending):
            return self
        costs, level = (self.final_graph, self.final_acoustic), np.full(len(ending), self.level[-1] + 1)
        ways = ending, states + np.arange(len(ending)), np.zeros(len(ending), np.int64)
        last = LabelledArcs(*ways, self.final_graph[ending], self.final_acoustic[ending], self.final_ids[ending])
        graph, acoustic = (np.where(self.final_ids.lengths, np.inf, cost) for cost in costs)
        cut = replace(self, final_graph=graph, final_acoustic=acoustic, final_ids=no_strings(states))
        return cut._with_states(level, 0.0, last)

    def _with_states(self, level: Integers, end: float, arcs: LabelledArcs) -> LabelLattice:
        """Adds states of some levels, with the cost `end` of ending there, and arcs."""
        new, level = len(level), np.append(self.level, level)
        order = np.argsort(level, kind="stable")
        columns = (np.concatenate(pair) for pair in zip(self.arcs[:-1], arcs[:-1], strict=True))
        joined = LabelledArcs._make((*columns, Strings.joined([self.ids, arcs.ids])))
        graph, acoustic = (
            np.append(cost, np.full(new, end))[order] for cost in (self.final_graph, self.final_acoustic)
        )
        ids = Strings.joined([self.final_ids, no_strings(new)])[order]
        return LabelLattice(level[order], *joined.renumbered(order), graph, acoustic, ids)

    def _part(self, states: Flags, arcs: Flags, is_final: Flags) -> LabelLattice:
        """Returns the lattice with some states and arcs; `is_final`: the states that stay final."""
        number, kept = np.cumsum(states) - 1, part(self.arcs, arcs)
        kept = kept._replace(src=number[kept.src], dst=number[kept.dst])
        graph, acoustic = (np.where(is_final, cost, np.inf)[states] for cost in (self.final_graph, self.final_acoustic))
        return LabelLattice(self.level[states], *kept, graph, acoustic, self.final_ids[states])

    def lattice(self) -> Lattice:
        """Returns the lattice as an acceptor, in the form of tables."""
        start = 0 if self.num_states else NO_STATE
        fst = Fst.from_arcs(start, self.final_graph, self.src, self.dst, self.label, self.graph_cost)
        ends = np.where(np.isfinite(self.final_graph), self.final_acoustic, np.inf)
        return Lattice(fst, self.acoustic_cost.astype(np.float32), ends.astype(np.float32), self.ids, self.final_ids)


def _final_acoustic(lattice: Lattice) -> Doubles:
    return np.where(np.isfinite(lattice.fst.final), lattice.final_acoustic_cost, np.inf)
