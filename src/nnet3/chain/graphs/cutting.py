"""Cuts the frames of chunks out of supervisions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst


class FrameCutter:
    """Cuts frames out of an acceptor in which every path to a state has the same number of arcs.

    States must be numbered by that number, their time, from the start, 0, on. TrainingError if they are not.
    """

    def __init__(self, fst: Fst):
        self.fst = fst
        self.time = self._times()

    def _times(self) -> npt.NDArray[np.int64]:
        """Returns the time of each state, (states,): each time starts where the arcs of the one before it lead."""
        fst = self.fst
        time = np.zeros(fst.num_states, np.int64)
        first, behind = 0, 1
        while behind < fst.num_states:
            dst = fst.dst[fst.offsets[first] : fst.offsets[behind]]
            if len(dst) == 0 or dst.min() != behind:
                raise TrainingError("the states of a supervision must be numbered by time, from the start on")
            first, behind = behind, int(dst.max()) + 1
            time[first:behind] = time[first - 1] + 1
        if fst.start != 0 or (time[fst.dst] != time[fst.src] + 1).any():
            raise TrainingError("the states of a supervision must be numbered by time, from the start on")
        return time

    @property
    def num_frames(self) -> int:
        return int(self.time[-1])

    def cut(self, first: int, count: int) -> Fst:
        """Returns frames first .. first + count - 1. Costs of arcs inside are kept, those of ending are not.

        A new start has epsilons to all states of the first time, and arcs that leave lead to a new final state.
        """
        if first < 0 or count < 1 or first + count > self.num_frames:
            raise TrainingError(
                f"there are no frames {first} .. {first + count - 1} in a supervision of {self.num_frames}"
            )
        fst = self.fst
        low, beginning, high = np.searchsorted(self.time, [first, first + 1, first + count])
        arcs = slice(fst.offsets[low], fst.offsets[high])
        final = np.full(high - low + 2, np.inf, np.float32)
        final[-1] = 0
        begin = np.arange(beginning - low)
        zeros = np.zeros(len(begin), np.int32)
        return Fst.from_arcs(
            0,
            final,
            np.concatenate([zeros, 1 + fst.src[arcs] - low]),
            np.concatenate([1 + begin, np.minimum(1 + fst.dst[arcs] - low, len(final) - 1)]),
            np.concatenate([zeros, fst.ilabel[arcs]]),
            np.concatenate([zeros, fst.cost[arcs]]),
        )
