"""Small supervisions: the worked example of the facts, and random lattices of its transition model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.discriminative.lattice_example import DiscriminativeExample
from nnet3.training.discriminative.supervision import (
    DiscriminativeSupervision,
    DiscriminativeTarget,
    acceptor,
    merge_supervisions,
)
from nnet3.training.examples.chunk_ios import indexes
from nnet3.training.examples.example import NnetIo

TOY = 4  # transition-ids of the toy
PDFS = 3
_ARCS = ((0, 1, 1, 0.5), (0, 2, 2, 0.2), (1, 3, 2, 0.1), (2, 3, 3, 0.4)), ((2, 4, 4, 0.3), (3, 5, 3, 0.2))


def toy_transitions() -> TransitionModel:
    """Transition-ids 1 to 4: of phone 1 with pdf 0, of phone 2 with pdfs 1 and 2, and of phone 3 with pdf 0."""
    short, long = (
        TopologyEntry((*(TopologyState(state, state, ((state + 1, 1.0),)) for state in range(count)), TopologyState()))
        for count in (1, 2)
    )
    tuples = [(1, 0, 0, 0), (2, 0, 1, 1), (2, 1, 2, 2), (3, 0, 0, 0)]
    return TransitionModel(HmmTopology((short, long), np.array([-1, 0, 1, 0])), tuples, np.zeros(5))


def worked() -> tuple[Tensor, DiscriminativeSupervision, TransitionModel, Tensor]:
    """Output, supervision, transition model and log-priors of the worked example."""
    arcs = [*_ARCS[0], *_ARCS[1], (3, 5, 4, 0.9), (4, 5, 2, 0.6)]
    src, dst, ids, costs = (np.array(column) for column in zip(*arcs, strict=True))
    lattice = acceptor(np.append(np.full(5, np.inf), 0.0), src, dst, ids, costs, np.arange(1.0, 9.0))
    supervision = DiscriminativeSupervision(1.0, 1, 3, np.array([1, 2, 3], np.int32), lattice)
    output = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.25, 0.25, 0.5]], dtype=torch.float64).log()
    return output, supervision, toy_transitions(), torch.tensor([0.4, 0.35, 0.25], dtype=torch.float64).log()


def random_lattice(rng: np.random.Generator, frames: int, with_epsilons: bool = False, width: int = 3) -> Lattice:
    """A lattice of transition-ids with up to `width` states a time; some have an arc without one to the next state."""
    counts = np.concatenate([[1], rng.integers(1, width + 1, frames - 1), [rng.integers(1, 3)]])
    first = np.cumsum(counts) - counts
    rows = list[tuple[int, int, int]]()
    for t in range(frames + 1):
        here = range(first[t], first[t] + counts[t])
        for state in here:
            if with_epsilons and state + 1 in here:
                rows.append((state, state + 1, 0))
            if t < frames:
                rows += [
                    (state, int(first[t + 1] + rng.integers(counts[t + 1])), int(rng.integers(1, TOY + 1)))
                    for _ in range(rng.integers(1, 4))
                ]
    src, dst, ids = (np.array(column) for column in zip(*rows, strict=True))
    final = np.full(int(counts.sum()), np.inf)
    final[first[-1] :] = rng.normal(size=counts[-1]).round(2)
    costs = rng.normal(size=(2, len(rows))).round(2)
    return acceptor(final, src, dst, ids, costs[0], costs[1], np.where(np.isfinite(final), 0.0, np.inf))


def random_supervision(
    rng: np.random.Generator, sequences: int, frames: int, with_epsilons: bool = False
) -> DiscriminativeSupervision:
    """A merged supervision of random lattices and alignments."""
    return merge_supervisions(
        [
            DiscriminativeSupervision(
                *(1.0, 1, frames, rng.integers(1, TOY + 1, frames).astype(np.int32)),
                random_lattice(rng, frames, with_epsilons),
            )
            for _ in range(sequences)
        ]
    )


def random_output(rng: np.random.Generator, supervision: DiscriminativeSupervision) -> Tensor:
    """Log-probabilities in float64, (rows, pdfs)."""
    return torch.log_softmax(torch.from_numpy(rng.normal(size=(supervision.num_frames, PDFS))), 1)


def small_example(rng: np.random.Generator, frames: int = 4, name: str = "output") -> DiscriminativeExample:
    """An example of one sequence whose input has three columns and a frame of context on both sides."""
    target = DiscriminativeTarget(
        *(name, indexes(0, frames), random_supervision(rng, 1, frames)), np.full(frames, 0.4, np.float32)
    )
    rows = rng.normal(size=(frames + 2, 3)).astype(np.float32)
    return DiscriminativeExample((NnetIo("input", indexes(-1, frames + 2), rows),), (target,))
