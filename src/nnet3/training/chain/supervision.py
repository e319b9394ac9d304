"""Supervisions, the label sequences that are allowed for an output, and targets of output nodes (docs/chain.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import breadth_first, breadth_first_fronts, coaccessible
from nnet3.errors import ModelFormatError
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first
from nnet3.training.chain.graphs.openfst import without_epsilons
from nnet3.training.examples.sequence_target import SequenceTarget

_LARGEST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Supervision:
    """Sequences of equal length, as acceptors whose labels are pdf-id + 1 (Kaldi: chain::Supervision).

    weight: scales the objective. num_sequences, frames_per_sequence: in output frames. label_dim: the largest possible
    label, the number of pdfs. fsts: if not `end_to_end` one FST of all sequences in a row, with
    num_sequences * frames_per_sequence arcs on every path; if `end_to_end` an FST for each sequence, possibly with
    cycles. alignment_pdfs: one pdf a frame, or none.
    """

    weight: float
    num_sequences: int
    frames_per_sequence: int
    label_dim: int
    fsts: tuple[Fst, ...]
    end_to_end: bool = False
    alignment_pdfs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    def __post_init__(self) -> None:
        for what, number in (
            ("sequences", self.num_sequences),
            ("frames in a sequence", self.frames_per_sequence),
            ("labels", self.label_dim),
        ):
            if not 0 < number <= _LARGEST:
                raise ModelFormatError(f"a supervision cannot have {number} {what}")
        if not math.isfinite(self.weight):
            raise ModelFormatError(f"the weight of a supervision is {self.weight}")
        expected = self.num_sequences if self.end_to_end else 1
        if len(self.fsts) != expected:
            raise ModelFormatError(f"a supervision of {self.num_sequences} sequences has {len(self.fsts)} FSTs")
        for fst in self.fsts:
            if not fst.is_acceptor:
                raise ModelFormatError("the FST of a supervision must be an acceptor: both labels of an arc the same")
            if fst.largest_label > self.label_dim:
                raise ModelFormatError(
                    f"label {fst.largest_label} of a supervision is above its {self.label_dim} labels"
                )

    @property
    def num_frames(self) -> int:
        """The frames of all sequences together."""
        return self.num_sequences * self.frames_per_sequence


def merge_supervisions(supervisions: Sequence[Supervision]) -> Supervision:
    """Merges several supervisions of one sequence each, byte for byte as Kaldi does.

    Raises ModelFormatError if they do not fit: lengths must be equal, and except end to end weights and labels too.
    """
    if len(supervisions) == 1:
        return supervisions[0]
    _check_equal("frames", [supervision.frames_per_sequence for supervision in supervisions])
    return merge_ragged(supervisions)[0]


def merge_ragged(supervisions: Sequence[Supervision]) -> tuple[Supervision, np.ndarray]:
    """Merges supervisions that may differ in length to one as long as the longest; also returns the lengths.

    The lengths are (sequences,) int64. Raises ModelFormatError as `merge_supervisions` does.
    """
    first = supervisions[0]
    if any(supervision.num_sequences != 1 for supervision in supervisions):
        raise ModelFormatError("only supervisions of one sequence can be merged")
    _check_equal("end_to_end", [supervision.end_to_end for supervision in supervisions])
    if not first.end_to_end:
        _check_equal("weight", [supervision.weight for supervision in supervisions])
        _check_equal("labels", [supervision.label_dim for supervision in supervisions])
    fsts = tuple(supervision.fsts[0] for supervision in supervisions)
    lengths = np.array([supervision.frames_per_sequence for supervision in supervisions])
    merged = replace(
        first,
        num_sequences=len(supervisions),
        frames_per_sequence=int(lengths.max()),
        fsts=fsts if first.end_to_end else (_in_a_row(fsts),),
        alignment_pdfs=np.zeros(0, np.int32),
    )
    return merged, lengths


def _check_equal(what: str, values: list[float]) -> None:
    if len(set(values)) != 1:
        shown = ", ".join(f"{value:g}" for value in dict.fromkeys(values))
        raise ModelFormatError(f"supervisions can be merged only if their {what} are equal, got {shown}")


def _in_a_row(fsts: Sequence[Fst]) -> Fst:
    """Returns the paths of the FSTs one after the other, without the epsilons that unnormalized examples begin with."""
    if not any(fst.has_epsilons for fst in fsts) or any(fst.num_states == 0 for fst in fsts):
        return concatenate(fsts)
    return numbered_breadth_first(without_epsilons(_joined_by_epsilons(fsts)))


def _joined_by_epsilons(fsts: Sequence[Fst]) -> Fst:
    """Returns the FSTs one after the other: where one may end, an epsilon with that cost leads to the next one's start.

    The epsilon is the last arc of its state.
    """
    bases = np.cumsum([0, *(fst.num_states for fst in fsts)])
    pieces = [
        (base + fst.src, base + fst.dst, fst.ilabel, fst.cost) for base, fst in zip(bases[:-1], fsts, strict=True)
    ]
    for number, (ending, starting) in enumerate(pairwise(fsts)):
        ends = np.flatnonzero(ending.final < np.inf)
        start = np.full(len(ends), bases[number + 1] + starting.start)
        pieces.append((bases[number] + ends, start, np.zeros_like(ends), ending.final[ends]))
    src, dst, label, cost = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(src, kind="stable")
    final = np.full(bases[-1], np.inf, np.float32)
    final[bases[-2] :] = fsts[-1].final
    return Fst.from_arcs(fsts[0].start, final, src[order], dst[order], label[order], cost[order])


def concatenate(fsts: Sequence[Fst]) -> Fst:
    """Returns the paths of the first FST, each followed by the paths of the second, and so on; states breadth-first.

    Where a path may end, copies of the next FST's first arcs leave, with the cost of ending added. The arcs of
    every state are in reverse order: OpenFst's removal of epsilons leaves them so.
    """
    if any(fst.num_states == 0 for fst in fsts):
        return Fst.empty()
    bases = np.concatenate([[0], np.cumsum([fst.num_states for fst in fsts])])
    pieces = [
        (base + fst.src, base + fst.dst, fst.ilabel, fst.cost) for base, fst in zip(bases[:-1], fsts, strict=True)
    ]
    for number, (ending, starting) in enumerate(pairwise(fsts)):
        ends = np.flatnonzero(ending.final < np.inf)
        first = np.arange(starting.offsets[starting.start], starting.offsets[starting.start + 1])
        state, arc = np.repeat(ends, len(first)), np.tile(first, len(ends))
        costs = ending.final[state] + starting.cost[arc]
        pieces.append((bases[number] + state, bases[number + 1] + starting.dst[arc], starting.ilabel[arc], costs))
    src, dst, label, cost = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.lexsort((-np.arange(len(src)), src))
    final = np.full(bases[-1], np.inf, np.float32)
    final[bases[-2] :] = fsts[-1].final
    joined = Fst.from_arcs(fsts[0].start, final, src[order], dst[order], label[order], cost[order])
    return _renumbered(joined, bases[:-1] + [fst.start for fst in fsts], bases)


def _renumbered(fst: Fst, starts: np.ndarray, bases: np.ndarray) -> Fst:
    """Keeps states on a path to an end, in breadth-first order from the start; arcs keep their order.

    starts: the start of each part of the FST; bases: the first state of each part, and the number of states.
    """
    alive = coaccessible(fst)
    kept = alive[fst.src] & alive[fst.dst]
    if not alive[fst.start]:
        return Fst.empty()
    trimmed = Fst.from_arcs(fst.start, fst.final, fst.src[kept], fst.dst[kept], fst.ilabel[kept], fst.cost[kept])
    states = _states_of_parts(trimmed, starts, bases)
    number = np.full(trimmed.num_states, -1, np.int64)
    number[states] = np.arange(len(states))
    reached = number[trimmed.src] >= 0
    arcs = (trimmed.ilabel[reached], trimmed.cost[reached])
    return Fst.from_arcs(0, trimmed.final[states], number[trimmed.src[reached]], number[trimmed.dst[reached]], *arcs)


def _states_of_parts(fst: Fst, starts: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Returns the states that can be reached from the first start, in breadth-first order.

    Where all paths through a part have equally many arcs, its states come after all those of the part before, so that
    the search may go through all parts side by side: in as many rounds as the longest part has frames, not all parts.
    """
    fronts = breadth_first_fronts(fst, starts)
    states = np.concatenate(fronts)
    level = np.full(fst.num_states, -1)
    level[states] = np.repeat(np.arange(len(fronts)), [len(front) for front in fronts])
    part = np.searchsorted(bases, np.arange(fst.num_states), "right") - 1
    depth = np.maximum.reduceat(level, bases[:-1])
    src, dst = (each[level[fst.src] >= 0] for each in (fst.src, fst.dst))
    ends = part[src] < part[dst]
    follows = np.where(ends, (level[src] == depth[part[src]]) & (level[src] > 0), level[dst] == level[src] + 1)
    if not follows.all():
        return breadth_first(fst, starts[:1])
    in_order = states[np.argsort(part[states], kind="stable")]
    return in_order[(level[in_order] > 0) | (in_order == starts[0])]


@dataclass(frozen=True, eq=False)
class ChainTarget(SequenceTarget[Supervision]):
    """The supervision of an output node, with its rows (Kaldi: NnetChainSupervision)."""
