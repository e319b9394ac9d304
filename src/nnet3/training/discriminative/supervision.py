"""Supervisions of discriminative training: alignments of sequences (numerator), and denominator lattices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.base.kaldi_io.lattice_states import topologically_sorted
from nnet3.errors import ModelFormatError
from nnet3.training.discriminative.lattice_levels import LatticeLevels
from nnet3.training.examples.sequence_target import SequenceTarget

_LARGEST = 2**31 - 1


def acceptor(
    final: npt.ArrayLike,
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    transition_id: npt.ArrayLike,
    graph_cost: npt.ArrayLike,
    acoustic_cost: npt.ArrayLike,
    final_acoustic: npt.ArrayLike | None = None,
) -> Lattice:
    """Makes a lattice with start 0 and transition-ids (0: none) as words. Arcs of a state keep their order.

    `final`, `final_acoustic`: (states,), infinite where no path ends; all further arrays: (arcs,).
    """
    start = 0 if len(np.asarray(final)) else -1
    fst = Fst.from_arcs(start, final, src, dst, transition_id, graph_cost)
    order = np.argsort(np.asarray(src), kind="stable")
    ids = fst.ilabel.astype(np.int64)
    ends = np.zeros(fst.num_states) if final_acoustic is None else np.asarray(final_acoustic)
    ends = np.where(np.isfinite(fst.final), ends, np.inf)
    strings = Strings.of(ids > 0, ids[ids > 0])
    acoustic = np.asarray(acoustic_cost, np.float32)[order]
    return Lattice(fst, acoustic, ends.astype(np.float32), strings, no_strings(fst.num_states), is_plain=True)


def ids_of_arcs(lattice: Lattice) -> npt.NDArray[np.int64]:
    """Returns the transition-id of each arc of a plain lattice, 0 for none, (arcs,)."""
    ids = np.zeros(lattice.fst.num_arcs, np.int64)
    ids[lattice.transition_ids.lengths > 0] = lattice.transition_ids.values
    return ids


@dataclass(frozen=True, eq=False)
class DiscriminativeSupervision:
    """Sequences of equal length (Kaldi: discriminative::DiscriminativeSupervision).

    weight: scales the objective. num_sequences, frames_per_sequence: in output frames. alignment: (sequences * frames,)
    int32, the right transition-id of each frame, all frames of the first sequence first. lattice: plain, of
    sequences * frames transition-ids on every path, which are its words too; it may have arcs without a transition-id.
    Acoustic costs of the lattice have no influence, except where there is no transition-id.
    """

    weight: float
    num_sequences: int
    frames_per_sequence: int
    alignment: npt.NDArray[np.int32]
    lattice: Lattice

    def __post_init__(self) -> None:
        for what, number in (("sequences", self.num_sequences), ("frames in a sequence", self.frames_per_sequence)):
            if not 0 < number <= _LARGEST:
                raise ModelFormatError(f"a supervision cannot have {number} {what}")
        if not math.isfinite(self.weight):
            raise ModelFormatError(f"the weight of a supervision is {self.weight}")
        if len(self.alignment) != self.num_frames:
            raise ModelFormatError(
                f"a supervision of {self.num_sequences} sequences of {self.frames_per_sequence} frames has an "
                f"alignment of {len(self.alignment)}"
            )
        if self.alignment.min() < 1:
            raise ModelFormatError(f"the alignment of a supervision has the transition-id {self.alignment.min()}")
        if not self.lattice.is_plain:
            raise ModelFormatError("the lattice of a supervision must have one transition-id an arc, or none")
        if not np.array_equal(self.lattice.fst.ilabel, ids_of_arcs(self.lattice)):
            raise ModelFormatError("the lattice of a supervision must be an acceptor: both labels of an arc the same")

    @property
    def num_frames(self) -> int:
        """The frames of all sequences together."""
        return self.num_sequences * self.frames_per_sequence

    @cached_property
    def levels(self) -> LatticeLevels:
        """The lattice level by level. Raises TrainingError for a lattice that is not of the frames."""
        return LatticeLevels.of(self.lattice, self.num_frames)


def merge_supervisions(supervisions: Sequence[DiscriminativeSupervision]) -> DiscriminativeSupervision:
    """Merges supervisions of one sequence each, arc for arc as in Kaldi. Raises ModelFormatError for unequal ones."""
    first = supervisions[0]
    if len(supervisions) == 1:
        return first
    if any(each.num_sequences != 1 for each in supervisions):
        raise ModelFormatError("only supervisions of one sequence can be merged: some are merged already")
    for what, values in (
        ("frames", {each.frames_per_sequence for each in supervisions}),
        ("weight", {each.weight for each in supervisions}),
    ):
        if len(values) > 1:
            shown = ", ".join(f"{value:g}" for value in sorted(values))
            raise ModelFormatError(f"supervisions can be merged only if their {what} are equal, got {shown}")
    return replace(
        first,
        num_sequences=len(supervisions),
        alignment=np.concatenate([each.alignment for each in supervisions]),
        lattice=concatenated([each.lattice for each in supervisions]),
    )


def concatenated(lattices: Sequence[Lattice]) -> Lattice:
    """Returns the paths of the first lattice, each followed by the paths of the second, and so on; sorted.

    Where a path may end, the first arc, without a transition-id, has the costs of ending and leads to the start of the
    next lattice.
    """
    states = [lattice.fst.num_states for lattice in lattices]
    bases = np.cumsum(states) - states
    if 0 in states:
        raise ModelFormatError("the lattice of a supervision is empty")
    starts = [base + lattice.fst.start for base, lattice in zip(bases, lattices, strict=True)]
    columns = []
    for number, lattice in enumerate(lattices):
        fst, base = lattice.fst, bases[number]
        arcs = (base + fst.src, base + fst.dst, ids_of_arcs(lattice), fst.cost, lattice.acoustic_cost)
        ends = np.flatnonzero(fst.final < np.inf)
        if number + 1 < len(lattices):
            nowhere = np.zeros_like(ends)
            costs = fst.final[ends], lattice.final_acoustic_cost[ends]
            columns.append((base + ends, nowhere + starts[number + 1], nowhere, *costs, nowhere))
        columns.append((*arcs, np.ones(fst.num_arcs, np.int64)))
    *parts, is_arc = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((is_arc, parts[0]))
    src, dst, ids, graph, acoustic = (column[order] for column in parts)
    final, final_acoustic = np.full((2, int(sum(states))), np.inf, np.float32)
    final[bases[-1] :], final_acoustic[bases[-1] :] = lattices[-1].fst.final, lattices[-1].final_acoustic_cost
    made = acceptor(final, src, dst, ids, graph, acoustic, final_acoustic)
    return topologically_sorted(replace(made, fst=replace(made.fst, start=int(starts[0]))))


@dataclass(frozen=True, eq=False)
class DiscriminativeTarget(SequenceTarget[DiscriminativeSupervision]):
    """The supervision of an output node, with its rows (Kaldi: NnetDiscriminativeSupervision).

    Weights are at most 1.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deriv_weights.max(initial=0) > 1:
            raise ModelFormatError(f"the deriv-weights of output '{self.name}' must be at most 1")
