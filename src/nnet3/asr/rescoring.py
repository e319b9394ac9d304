"""Rescoring: the costs of a whole language model in the place of those that a first pass could know."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.asr.columns import Waiting, joined, part
from nnet3.asr.language_model import BackoffModel
from nnet3.asr.lookahead import FirstPass
from nnet3.asr.raw_lattice import RawLattice
from nnet3.asr.search_graph import arcs_leaving

Integers = npt.NDArray[np.integer]
Doubles = npt.NDArray[np.float64]


class _Arcs(NamedTuple):
    """Arcs of the new lattice: the pair that each leaves, the arc of the old lattice, the state of the model that it
    leads to, the cost of the path up to there, and what the model's cost is more than that of the first pass."""

    src: Integers
    arc: Integers
    history: Integers
    path_cost: Doubles
    change: Doubles


_NO_ARCS = _Arcs(*np.zeros((3, 0), np.int64), *np.zeros((2, 0)))


def rescored(lattice: RawLattice, first: FirstPass, model: BackoffModel, beam: float) -> RawLattice:
    """Returns the lattice with the model's costs of words and of the end.

    States are pairs of a state of the lattice and one of the model. Of the pairs of one level, those are dropped that
    cost `beam` more than the best one, where what follows is taken to cost what it did in the first pass.
    """
    waiting = Waiting[_Arcs]()
    state, history, cost = np.zeros(1, np.int64), np.array([model.start], np.int64), np.zeros(1)
    states, histories, arcs, dst, count = [state], [history], [], [], 1
    for level in range(int(lattice.level[-1]) + 1):
        if level:
            arrived = waiting.take(level)
            if arrived is None:
                continue
            target = lattice.dst[arrived.arc] * np.int64(model.num_states) + arrived.history
            pairs, pair = np.unique(target, return_inverse=True)
            cost = np.full(len(pairs), np.inf)
            np.minimum.at(cost, pair, arrived.path_cost)
            state, history = np.divmod(pairs, model.num_states)
            estimate = cost + lattice.backward[state]
            good = estimate <= estimate.min() + beam
            state, history, cost = state[good], history[good], cost[good]
            kept = good[pair]
            arcs.append(part(arrived, kept))
            dst.append((count + np.cumsum(good) - 1)[pair[kept]])
            states.append(state)
            histories.append(history)
            count += len(state)
        leaving = _leaving(lattice, first, model, state, history, cost, count - len(state))
        waiting.add(leaving, lattice.level[lattice.dst[leaving.arc]])
    state, history, all_arcs = np.concatenate(states), np.concatenate(histories), joined([_NO_ARCS, *arcs])
    final = lattice.final_cost[state]
    if lattice.has_ended:
        final = np.where(final < np.inf, final + first.start_cost - first.end_cost + model.end(history), np.inf)
    old = all_arcs.arc
    return RawLattice.sorted(
        lattice.row_of_state[state],
        all_arcs.src,
        np.concatenate(dst) if dst else np.zeros(0, np.int64),
        lattice.word[old],
        lattice.transition_id[old],
        lattice.graph_cost[old] + all_arcs.change,
        lattice.acoustic_cost[old],
        final,
        lattice.has_ended,
    )


def _leaving(
    lattice: RawLattice,
    first: FirstPass,
    model: BackoffModel,
    state: Integers,
    history: Integers,
    cost: Doubles,
    number: int,
) -> _Arcs:
    """Returns the arcs that leave these pairs, which are numbered from `number` on, in all ways of the model."""
    arc, place = arcs_leaving(lattice.offsets, state)
    word = lattice.word[arc].astype(np.int64)
    silent, spoken = np.flatnonzero(word == 0), np.flatnonzero(word)
    steps = model.read(history[place[spoken]], word[spoken])
    way = np.concatenate([silent, spoken[steps.place]])
    change = np.concatenate([np.zeros(len(silent)), steps.cost]) - first.cost_of_word[word[way]]
    behind = np.concatenate([history[place[silent]], steps.state])
    return _Arcs(number + place[way], arc[way], behind, cost[place[way]] + lattice.cost[arc[way]] + change, change)
