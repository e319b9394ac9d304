"""Makes trellises of supervisions: the sum over the sequences that they allow (docs/chain.md, the numerator)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.errors import TrainingError
from nnet3.training.chain.supervision import Supervision
from nnet3.training.chain.trellis import Arcs, Ends, Trellis, sum_paths


def make_trellis(
    supervision: Supervision, device: torch.device | str = "cpu", lengths: np.ndarray | None = None
) -> Trellis:
    """Returns the paths of a supervision over an output (frames * sequences, labels), sequences side by side.

    `lengths` (sequences,): the frames of each; by default all that the supervision has. Raises TrainingError for FSTs
    that no supervision can have: with epsilons, or without paths of the length.
    """
    for fst in supervision.fsts:
        if fst.num_states == 0:
            raise TrainingError("a supervision allows nothing: its FST is empty")
        if (fst.ilabel == 0).any():
            raise TrainingError("the FST of a supervision has epsilons: was it made without its normalization FST?")
    counts = np.full(supervision.num_sequences, supervision.frames_per_sequence) if lengths is None else lengths
    make = _of_sequences if supervision.end_to_end else _of_frames
    return make(supervision, device, counts)


def _of_sequences(supervision: Supervision, device: torch.device | str, lengths: np.ndarray) -> Trellis:
    """Puts all FSTs side by side. A state may be occupied at every frame, so that all frames have equal arcs; where
    a sequence is at its end its arcs lead nowhere.
    """
    fsts, sequences, labels = supervision.fsts, supervision.num_sequences, supervision.label_dim
    for number, fst in enumerate(fsts):
        if fst.start != 0:
            raise TrainingError(f"the FST of sequence {number} of a supervision starts at state {fst.start}, not at 0")
    base = np.concatenate([[0], np.cumsum([fst.num_states for fst in fsts])])
    of_arc = np.repeat(np.arange(sequences), [fst.num_arcs for fst in fsts])
    final = np.concatenate([fst.final for fst in fsts])
    ending = np.flatnonzero(final < np.inf)
    arcs = Arcs(
        _tensor(np.concatenate([fst.src for fst in fsts]) + base[of_arc], device),
        _tensor(np.concatenate([fst.dst for fst in fsts]) + base[of_arc], device),
        _tensor(np.concatenate([fst.cost for fst in fsts]), device, np.float64),
        _tensor(of_arc * labels + np.concatenate([fst.ilabel for fst in fsts]) - 1, device),
        _tensor(of_arc, device),
    )
    of_end = np.searchsorted(base, ending, side="right") - 1
    frames = int(lengths.max())
    ends: list[Ends | None] = [None] * (frames + 1)
    for length in np.unique(lengths).tolist():
        here = lengths[of_end] == length
        states, costs = ending[here], final[ending[here]]
        ends[length] = Ends(_tensor(states, device), _tensor(costs, device, np.float64), _tensor(of_end[here], device))
    return Trellis(
        sequences,
        [int(base[-1])] * (frames + 1),
        _tensor(base[:-1], device),
        [arcs] * frames,
        [frame * sequences * labels for frame in range(frames)],
        ends,
    )


def _of_frames(supervision: Supervision, device: torch.device | str, lengths: np.ndarray) -> Trellis:
    """Cuts one FST of all sequences in a row where only one state lies between two of them: pieces run side by side."""
    fst, sequences = supervision.fsts[0], supervision.num_sequences
    last = np.cumsum(lengths)
    time, between = state_times(fst, int(last[-1])), last[:-1]
    bounds = np.searchsorted(time, [between, between + 1])  # first state of each of these times, and of the next
    cuts = bounds[0][np.diff(bounds, axis=0)[0] == 1]  # the states that part one piece from the next
    starts = np.concatenate([[0], cuts])  # a piece begins with a copy of the state that the one before ends with
    piece_of_arc = np.searchsorted(cuts, fst.src, side="right")
    piece_of_state = np.searchsorted(cuts, np.arange(fst.num_states), side="left")
    level = time - time[starts][piece_of_state]
    levels = np.concatenate([np.zeros(len(starts), np.int64), level[1:]])  # of the copies, then of states 1, 2, ...
    node_of_source = np.arange(fst.num_states) + len(starts) - 1
    node_of_source[starts] = np.arange(len(starts))
    node_of_destination = np.arange(fst.num_states) + len(starts) - 1
    position = _rank_within(levels)
    arc_level = levels[node_of_source[fst.src]]
    sequence = np.searchsorted(between, time[fst.src], side="right")
    row = (time[fst.src] - (last - lengths)[sequence]) * sequences + sequence
    columns = (
        position[node_of_source[fst.src]],
        position[node_of_destination[fst.dst]],
        fst.cost.astype(np.float64),
        row * supervision.label_dim + fst.ilabel - 1,
        piece_of_arc,
    )
    order = np.argsort(arc_level, kind="stable")
    splits = np.cumsum(np.bincount(arc_level))[:-1]
    tensors = [torch.from_numpy(np.ascontiguousarray(column[order])).to(device) for column in columns]
    arcs = [Arcs(*pieces) for pieces in zip(*(column.tensor_split(splits.tolist()) for column in tensors), strict=True)]
    ends = _ends(fst, cuts, piece_of_state, position[node_of_destination], levels[node_of_destination], device)
    counts = np.bincount(levels).tolist()
    return Trellis(len(starts), counts, _tensor(np.arange(len(starts)), device), arcs, [0] * len(arcs), ends)


def state_times(fst: Fst, num_frames: int) -> np.ndarray:
    """Returns the time of each state, (states,): the number of arcs on every path from the start.

    Raises TrainingError if paths to a state differ in length, or if paths to an end have not `num_frames` arcs. States
    must be numbered by time, so that the arcs of a frame lead to the states of the next frame.
    """
    expected = f"every path of {num_frames} arcs, states numbered along them from 0 on"
    if fst.start != 0:
        raise TrainingError(f"the FST of a supervision starts at state {fst.start}: expected {expected}")
    furthest = np.zeros(fst.num_states, np.int64)
    np.maximum.at(furthest, fst.src, fst.dst)
    furthest = np.maximum.accumulate(furthest)
    firsts, last = [0], 0  # the first state of each time
    while last < fst.num_states and len(firsts) <= num_frames + 1:
        firsts.append(last + 1)
        last, before = int(furthest[last]), last
        if last == before:
            break
    time = np.searchsorted(firsts, np.arange(fst.num_states), side="right") - 1
    if (time[fst.dst] != time[fst.src] + 1).any() or (time[fst.final < np.inf] != num_frames).any():
        raise TrainingError(
            f"the FST of a supervision has a path that has another length, or is a cycle: expected {expected}"
        )
    if not (fst.final < np.inf).any():
        raise TrainingError("the FST of a supervision has no final state")
    return time


def _ends(
    fst: Fst,
    cuts: np.ndarray,
    piece_of_state: np.ndarray,
    position: np.ndarray,
    level: np.ndarray,
    device: torch.device | str,
) -> list[Ends | None]:
    """Returns where paths end: pieces where they are cut, the last one at the final states."""
    states = np.concatenate([cuts, np.flatnonzero(fst.final < np.inf)])
    costs = np.where(np.isin(states, cuts), 0.0, fst.final[states])
    found: list[Ends | None] = []
    for boundary in range(int(level.max()) + 1):
        here = level[states] == boundary
        columns = (position[states[here]], piece_of_state[states[here]])
        ends = Ends(_tensor(columns[0], device), _tensor(costs[here], device, np.float64), _tensor(columns[1], device))
        found.append(ends if here.any() else None)
    return found


def _rank_within(levels: np.ndarray) -> np.ndarray:
    """Returns the rank of every item within its level, in order."""
    order = np.argsort(levels, kind="stable")
    firsts = np.cumsum(np.bincount(levels)) - np.bincount(levels)
    rank = np.empty(len(levels), np.int64)
    rank[order] = np.arange(len(levels)) - firsts[levels[order]]
    return rank


def _tensor(values: np.ndarray, device: torch.device | str, dtype: type = np.int64) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype)).to(device)


def pdf_weights(supervision: Supervision) -> SparseMatrix:
    """Returns the shares of paths that have each pdf, (frames, pdfs), by the costs in the FST of one sequence alone.

    End-to-end supervision gives the pdfs of its alignment. Raises TrainingError for merged sequences, and for
    end-to-end supervision without an alignment.
    """
    frames, pdfs = supervision.frames_per_sequence, supervision.label_dim
    if supervision.num_sequences != 1:
        raise TrainingError(f"a supervision of one sequence is expected, not of {supervision.num_sequences}")
    if not supervision.end_to_end:
        sums = sum_paths(make_trellis(supervision), torch.zeros(frames, pdfs))
        summed = np.bincount(sums.positions.numpy(), sums.posteriors.numpy(), frames * pdfs).reshape(frames, pdfs)
        row, column = np.nonzero(summed)
        values = summed[row, column].astype(np.float32)
    else:
        row, column = np.arange(frames), supervision.alignment_pdfs
        if len(column) != frames:
            raise TrainingError(f"an end-to-end supervision of {frames} frames has an alignment of {len(column)} pdfs")
        values = np.ones(frames, np.float32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=frames))])
    return SparseMatrix(frames, pdfs, indptr, column.astype(np.int32), values)
