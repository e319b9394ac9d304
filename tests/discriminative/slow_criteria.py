"""The criteria as sums over all paths of a lattice, path by path."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.discriminative.supervision import DiscriminativeSupervision, ids_of_arcs

Path = list[tuple[int, float]]  # the transition-id of each arc, 0 for none, and the arc's cost


def paths_of(supervision: DiscriminativeSupervision) -> list[tuple[Path, float]]:
    """All paths, and what ending costs."""
    lattice = supervision.lattice
    fst, leaving = lattice.fst, defaultdict(list)
    costs = fst.cost.astype(np.float64) + np.where(ids_of_arcs(lattice) > 0, 0, lattice.acoustic_cost)
    for src, dst, number, cost in zip(fst.src, fst.dst, ids_of_arcs(lattice), costs, strict=True):
        leaving[int(src)].append((int(dst), int(number), float(cost)))
    found, waiting = list[tuple[Path, float]](), [(fst.start, Path())]
    while waiting:
        state, path = waiting.pop()
        if fst.final[state] < np.inf:
            found.append((path, float(fst.final[state])))
        waiting += [(dst, [*path, (number, cost)]) for dst, number, cost in leaving[state]]
    return found


def slow_value(
    output: np.ndarray,
    supervision: DiscriminativeSupervision,
    transitions: TransitionModel,
    options: DiscriminativeOptions,
) -> float:
    """The criterion for outputs (rows, pdfs) without priors."""
    sequences, frames, alignment = (
        supervision.num_sequences, supervision.frames_per_sequence, supervision.alignment.tolist()
    )  # fmt: skip
    silence = set(options.silence_phones)

    def score(frame: int, number: int) -> float:
        row = frame % frames * sequences + frame // frames
        return float(options.acoustic_scale * output[row, transitions.pdf(number)])

    def accuracy(number: int, right: int) -> float:
        kind = transitions.pdf if options.criterion == "smbr" else transitions.phone
        same, quiet = kind(number) == kind(right), transitions.phone(number) in silence
        if options.one_silence_class:
            return float(same or (quiet and transitions.phone(right) in silence))
        return float(same and not quiet)

    totals, accuracies = list[float](), list[float]()
    for path, end in paths_of(supervision):
        total, right, frame = -end, 0.0, 0
        for number, cost in path:
            total -= cost
            if number:
                wrong = transitions.phone(number) != transitions.phone(alignment[frame])
                if options.criterion == "mmi" and wrong and transitions.phone(number) not in silence:
                    total += options.boost
                total += score(frame, number)
                right += accuracy(number, alignment[frame])
                frame += 1
        totals.append(total)
        accuracies.append(right)
    log_sum = float(np.logaddexp.reduce(totals))
    if options.criterion == "mmi":
        return sum(score(frame, number) for frame, number in enumerate(alignment)) - log_sum
    return float(np.exp(np.array(totals) - log_sum) @ np.array(accuracies))
