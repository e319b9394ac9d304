"""Posteriors of the arcs of a lattice, and the number of arcs across each frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import state_times
from nnet3.base.kaldi_io.table_values import Posterior
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice


class ArcPosteriors(NamedTuple):
    """The log-probability of each arc, (arcs,), and of all paths together."""

    log_probs: Doubles
    total: float


def arc_posteriors(lattice: LabelLattice) -> ArcPosteriors:
    """Returns the posterior of each arc, (arcs,); the likelihood of a path is exp(-cost)."""
    forward, backward = np.full(lattice.num_states, -np.inf), -lattice.final_cost
    forward[0] = 0
    levels = list(lattice.arcs_by_source())
    for arcs in levels:
        np.logaddexp.at(forward, lattice.dst[arcs], forward[lattice.src[arcs]] - lattice.cost[arcs])
    for arcs in reversed(levels):
        np.logaddexp.at(backward, lattice.src[arcs], backward[lattice.dst[arcs]] - lattice.cost[arcs])
    total = float(backward[0])
    return ArcPosteriors(forward[lattice.src] - lattice.cost + backward[lattice.dst] - total, total)


class FramePosteriors(NamedTuple):
    """Posteriors of transition-ids by frame, the log-likelihood of all paths, and the mean of the acoustic ones."""

    posterior: Posterior
    total: float
    acoustic: float


def frame_posteriors(lattice: Lattice) -> FramePosteriors:
    """Returns the posteriors of the transition-ids of each frame of a lattice, ids ascending, without zeros."""
    plain = LabelLattice.of(lattice.plain())
    found, ids = arc_posteriors(plain), plain.ids
    rows = _rows(plain)
    probs = np.exp(found.log_probs)
    arc = np.flatnonzero(ids.lengths)
    frames = int(rows.max(initial=0))
    base = int(ids.values.max(initial=0)) + 1
    cells, cell_of_arc = np.unique(rows[plain.src[arc]] * base + ids.values, return_inverse=True)
    weights = np.bincount(cell_of_arc, probs[arc], len(cells)).astype(np.float32)
    cells, weights = cells[weights > 0], weights[weights > 0]
    indptr = np.searchsorted(cells, np.arange(frames + 1) * base)
    ends = np.flatnonzero(plain.final_cost < np.inf)
    at_end = np.exp(_forward_of(plain, ends) - plain.final_cost[ends] - found.total)
    acoustic = -float(probs @ plain.acoustic_cost + at_end @ plain.final_acoustic[ends])
    return FramePosteriors(Posterior(indptr, (cells % base).astype(np.int32), weights), found.total, acoustic)


def _forward_of(lattice: LabelLattice, states: Integers) -> Doubles:
    forward = np.full(lattice.num_states, -np.inf)
    forward[0] = 0
    for arcs in lattice.arcs_by_source():
        np.logaddexp.at(forward, lattice.dst[arcs], forward[lattice.src[arcs]] - lattice.cost[arcs])
    return forward[states]


def _rows(lattice: LabelLattice) -> Integers:
    """Returns the number of transition-ids up to each state, (states,)."""
    rows = np.zeros(lattice.num_states, np.int64)
    for arcs in lattice.arcs_by_source():
        rows[lattice.dst[arcs]] = rows[lattice.src[arcs]] + lattice.ids.lengths[arcs]
    return rows


def depths(lattice: Lattice) -> Integers:
    """Returns the number of arcs across each frame of a compact lattice, (frames,)."""
    times, ids, finals = state_times(lattice), lattice.transition_ids.lengths, lattice.final_transition_ids.lengths
    ends = np.flatnonzero(lattice.fst.final < np.inf)
    begin = np.concatenate([times[lattice.fst.src], times[ends]])
    behind = begin + np.concatenate([ids, finals[ends]])
    changes = np.bincount(begin, minlength=int(behind.max(initial=0)) + 1)
    changes -= np.bincount(behind, minlength=len(changes))
    return np.cumsum(changes)[:-1]
