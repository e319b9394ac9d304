"""Acoustic costs by frame and transition-id: moves costs back to the arcs they had before determinization."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import state_times, topologically_sorted
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers


class FrameCosts:
    """The mean acoustic cost of the arcs with each transition-id at each frame of a plain lattice.

    Raises ModelFormatError if an arc without a transition-id, or an end, has an acoustic cost.
    """

    def __init__(self, lattice: Lattice):
        emits = lattice.transition_ids.lengths > 0
        ends = lattice.final_acoustic_cost[lattice.fst.final < np.inf]
        if lattice.acoustic_cost[~emits].any() or ends.any():
            raise ModelFormatError(
                "a lattice has an acoustic cost where it has no transition-id: expected one as a search leaves it "
                "(--determinize-lattice=false)"
            )
        self._base = int(lattice.transition_ids.values.max(initial=0)) + 1
        keys, of = np.unique(self._keys(lattice), return_inverse=True)
        sums = np.bincount(of, lattice.acoustic_cost[emits], len(keys))
        self._keys_known, self._means = keys, (sums / np.bincount(of, minlength=len(keys))).astype(np.float32)

    def _keys(self, lattice: Lattice) -> Integers:
        emits = lattice.transition_ids.lengths > 0
        time = state_times(lattice)[lattice.fst.src[emits]]
        keys: Integers = time * self._base + lattice.transition_ids.values
        return keys

    def put_into(self, lattice: Lattice) -> Lattice:
        """Returns the lattice with an arc for each transition-id, in topological order, with its acoustic cost."""
        plain = topologically_sorted(lattice.plain())
        acoustic = np.zeros(plain.fst.num_arcs, np.float32)
        position = np.searchsorted(self._keys_known, self._keys(plain))
        acoustic[plain.transition_ids.lengths > 0] = self._means[position]
        return replace(plain, acoustic_cost=acoustic, final_acoustic_cost=np.zeros_like(plain.final_acoustic_cost))
