"""Cuts the frames of chunks out of supervisions, and makes supervision that leaves the times inside free."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.expansion import with_self_loops
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first, with_labels
from nnet3.training.chain.graphs.normalization import MOST_STATES
from nnet3.training.chain.graphs.openfst import OpenFst, without_epsilons
from nnet3.training.chain.graphs.phone_hmms import TransitionTables


class FrameCutter:
    """Cuts frames out of an acceptor in which all paths to a state have equally many arcs.

    States must be numbered by the number of arcs, their time, from the start, 0, on. TrainingError if not.
    """

    def __init__(self, fst: Fst):
        self.fst = fst
        self.time = self._times()

    def _times(self) -> npt.NDArray[np.int64]:
        """Returns the time of each state, (states,): a time starts where the arcs of the time before lead."""
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


def without_times(chunk: Fst, tables: TransitionTables) -> Fst:
    """Frees the times in a chunk of transition-ids, one a frame: the phones in order, of any duration.

    The possible states at the edges of the chunk stay as they are. The result accepts pdf + 1, has cycles, and
    no epsilons. TrainingError for a result that would be too large.
    """
    ids = without_epsilons(chunk)
    inside = ids.src != ids.start
    hidden = inside & tables.is_self_loop[ids.ilabel]
    forward = _compact(with_labels(ids, np.where(hidden, 0, ids.ilabel)))
    looping = with_self_loops(forward, tables, scale=0.0)
    return numbered_breadth_first(_compact(with_labels(looping, tables.pdf_of_id[looping.ilabel] + 1)))


def _compact(fst: Fst) -> Fst:
    result = OpenFst.of(fst).determinized_without_epsilons(MOST_STATES)
    if result is None:
        raise TrainingError(f"the supervision takes more than {MOST_STATES} states")
    return result.minimized().fst()


def random_pdfs(chunk: Fst, tables: TransitionTables, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Returns the pdfs along a random path of transition-ids, one a frame: (frames,)."""
    state, ids = chunk.start, []
    while chunk.final[state] == np.inf:
        arc = int(rng.integers(chunk.offsets[state], chunk.offsets[state + 1]))
        ids.append(int(chunk.ilabel[arc]))
        state = int(chunk.dst[arc])
    return tables.pdf_of_id[[number for number in ids if number > 0]].astype(np.int32)


def supervision_of_graph(graph: Fst, pdf_of_id: npt.NDArray[np.integer]) -> Fst:
    """Returns the supervision of a training graph (input labels: transition-ids): pdf + 1, its costs, no epsilons.

    TrainingError if a label is no transition-id or nothing is left.
    """
    if graph.ilabel.max(initial=0) >= len(pdf_of_id):
        raise TrainingError(
            f"the training graph has transition-id {graph.ilabel.max()}, but the model has {len(pdf_of_id) - 1}"
        )
    fst = OpenFst.of(with_labels(graph, pdf_of_id[graph.ilabel] + 1)).without_epsilons().fst()
    if fst.num_states == 0:
        raise TrainingError("no path through the training graph ends")
    if fst.has_epsilons:
        raise TrainingError("the epsilons of the training graph cannot be removed")
    return fst


def shortest_path(fst: Fst) -> int:
    """Returns the fewest arcs from the start to an end. TrainingError if there is no end."""
    seen = np.zeros(fst.num_states, bool)
    front = np.array([fst.start])
    seen[front] = True
    length = 0
    while len(front):
        if (fst.final[front] < np.inf).any():
            return length
        found = fst.dst[entries_of_rows(fst.offsets, front)]
        front = np.unique(found[~seen[found]])
        seen[front] = True
        length += 1
    raise TrainingError("no path of the supervision ends")
