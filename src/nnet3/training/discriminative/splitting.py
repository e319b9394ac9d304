"""Cuts chunks out of denominator lattices; paths keep the probability of all paths before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from nnet3.base.kaldi_io.fst_reach import longest_paths
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import connected, state_times, topologically_sorted, with_states
from nnet3.base.options.discriminative import DiscriminativeMakingOptions
from nnet3.errors import ModelFormatError
from nnet3.training.chain.trellis import log_sums
from nnet3.training.discriminative.determinizing import determinized
from nnet3.training.discriminative.epsilons import without_epsilons
from nnet3.training.discriminative.frame_arcs import FrameArcs
from nnet3.training.discriminative.supervision import acceptor

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PreparedLattice:
    """A plain lattice with scaled acoustic costs, its states sorted by time; `time` (states,).

    `before`, `after`: (states,) the logarithms of the sums of exp(-costs) over all paths from the start to each state,
    and from each state to an end.
    """

    lattice: Lattice
    time: npt.NDArray[np.int64]
    before: Doubles
    after: Doubles

    @classmethod
    def of(cls, lattice: Lattice, acoustic_scale: float) -> PreparedLattice:
        """Raises ModelFormatError for a lattice without paths, with a cycle, or with paths of different lengths."""
        plain = topologically_sorted(connected(lattice.plain())).with_costs(acoustic=(0.0, acoustic_scale))
        time = state_times(plain)
        order = np.argsort(time, kind="stable")
        plain, time = with_states(plain, order), time[order]
        if len(time) == 0:
            raise ModelFormatError("a lattice that is to be cut has no path")
        if (time[plain.fst.final < np.inf] != time[-1]).any():
            raise ModelFormatError("the paths of a lattice that is to be cut must have equally many transition-ids")
        return cls(plain, time, *_path_sums(plain))

    @property
    def num_frames(self) -> int:
        return int(self.time[-1])

    @cached_property
    def _arcs(self) -> FrameArcs:
        return FrameArcs.of(self.lattice)

    def chunk(self, first: int, count: int, *, is_first: bool) -> Lattice:
        """Returns frames first .. first + count - 1 as a plain lattice, with epsilon arcs at both ends.

        Epsilon arcs lead from the start to all states of the first time, with the cost of all paths to the state. Arcs
        out of the chunk lead to one end, with the cost of all paths from their destination. So the sum over all paths
        is 1, but for the first chunk of an utterance, which keeps the sum over the whole lattice (as in Kaldi).
        """
        low, beginning, high = np.searchsorted(self.time, [first, first + 1, first + count])
        offsets = self.lattice.fst.offsets
        arcs = self._arcs.part(np.arange(offsets[low], offsets[high]))
        leaves = arcs.dst >= high
        graph = arcs.graph - np.where(leaves, self.after[arcs.dst], 0.0)
        entries = np.arange(low, beginning)
        total = 0.0 if is_first else self.after[0]
        none, end = np.zeros(len(entries), np.int64), 1 + high - low
        final = np.full(end + 1, np.inf)
        final[end] = 0.0
        return acceptor(
            final,
            np.concatenate([none, 1 + arcs.src - low]),
            np.concatenate([1 + entries - low, np.where(leaves, end, 1 + arcs.dst - low)]),
            np.concatenate([none, arcs.id]),
            np.concatenate([total - self.before[entries], graph]).astype(np.float32),
            np.concatenate([none, arcs.acoustic]),
        )


def _path_sums(lattice: Lattice) -> tuple[Doubles, Doubles]:
    """Returns log-sums over paths from the start to each state, and from each state to an end, (states,) each."""
    fst, none = lattice.fst, torch.full((lattice.fst.num_states,), -torch.inf, dtype=torch.float64)
    depth = longest_paths(fst.num_states, fst.src, fst.dst)
    score = torch.from_numpy(-(fst.cost.astype(np.float64) + lattice.acoustic_cost))
    src, dst = (torch.from_numpy(each.astype(np.int64)) for each in (fst.src, fst.dst))
    before, after = none.clone(), none.clone()
    before[fst.start] = 0.0
    is_final = fst.final < np.inf
    ends = np.where(is_final, fst.final.astype(np.float64), 0) + np.where(is_final, lattice.final_acoustic_cost, 0)
    after[is_final] = torch.from_numpy(-ends[is_final])
    for arcs in _groups(depth[fst.dst]):
        states, group = torch.unique(dst[arcs], return_inverse=True)
        before[states] = log_sums(before[src[arcs]] + score[arcs], group, len(states))
    for arcs in _groups(depth[fst.src])[::-1]:
        states, group = torch.unique(src[arcs], return_inverse=True)
        sums = log_sums(score[arcs] + after[dst[arcs]], group, len(states))
        after[states] = torch.logaddexp(after[states], sums)
    return before.numpy(), after.numpy()


def _groups(level: npt.NDArray[np.integer]) -> list[torch.Tensor]:
    """Returns the numbers of the arcs of each level, from the first level on."""
    order = np.argsort(level, kind="stable")
    edges = np.flatnonzero(np.diff(level[order])) + 1
    return [torch.from_numpy(part) for part in np.split(order, edges)]


class LatticeCutter:
    """Makes the denominator lattices of chunks. `pdf_of_id`: (ids + 1,), the pdf of each transition-id."""

    def __init__(self, prepared: PreparedLattice, pdf_of_id: np.ndarray, options: DiscriminativeMakingOptions):
        self._prepared, self._pdf_of_id, self._options = prepared, pdf_of_id, options

    def cut(self, first: int, count: int, *, is_first: bool) -> Lattice:
        """Returns frames first .. first + count - 1, states in topological order, acoustic costs not scaled."""
        options = self._options
        lattice = without_epsilons(self._prepared.chunk(first, count, is_first=is_first))
        if options.collapse_transition_ids:
            lattice = self._collapsed(lattice)
        if options.determinize:
            lattice = determinized(lattice, options.minimize)
        return topologically_sorted(lattice).with_costs(acoustic=(0.0, 1.0 / options.acoustic_scale))

    def _collapsed(self, lattice: Lattice) -> Lattice:
        """Replaces all transition-ids of one pdf at one time by one transition-id, the first.

        State k of the chunk gets the time of state k of the whole lattice, as in Kaldi. This is right for first chunks
        only: elsewhere equal paths stay two, and ids come from other frames. Pdfs do not change.
        """
        arcs, time = FrameArcs.of(lattice), self._prepared.time
        at = time[np.minimum(arcs.src, len(time) - 1)]
        pdfs = self._pdf_of_id[arcs.id]
        _, first, of = np.unique(at * (int(pdfs.max(initial=0)) + 1) + pdfs, return_index=True, return_inverse=True)
        made = acceptor(lattice.fst.final, *arcs._replace(id=arcs.id[first[of]]), lattice.final_acoustic_cost)
        return replace(made, fst=replace(made.fst, start=lattice.fst.start))
