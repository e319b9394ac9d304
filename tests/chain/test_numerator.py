"""The numerator: worked numbers, an oracle that lists all paths, supervisions that cannot be one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.chain import Supervision
from nnet3.errors import TrainingError
from nnet3.training.chain.numerator import make_trellis, state_times
from nnet3.training.chain.supervision import concatenate
from nnet3.training.chain.trellis import sum_paths
from tests.chain import slow_sums
from tests.chain.chain_data import SCORES, fst_of, random_acceptor, random_cyclic_acceptor, supervision_of

INF = np.inf


def _sums(supervision: Supervision, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (pieces,) and posteriors of the shape of y."""
    sums = sum_paths(make_trellis(supervision), y)
    gamma = torch.zeros(y.numel(), dtype=torch.float64).index_add_(0, sums.positions, sums.posteriors)
    return sums.log_probs.numpy(), gamma.view(y.shape).numpy()


def test_worked_numbers_of_a_lattice() -> None:
    arcs = [
        *((0, 1, 1, 3.325394), (0, 2, 2, 4.163695), (1, 3, 1, 0.0), (1, 4, 3, 0.223144), (2, 3, 1, 0.0)),
        *((2, 4, 2, 0.510826), (3, 5, 1, 0.0), (3, 6, 3, 0.223144), (4, 5, 1, 0.0), (5, 7, 1, 0.0), (6, 7, 1, 0.0)),
        (6, 7, 2, 0.510826),
    ]
    log_probs, gamma = _sums(supervision_of([fst_of(arcs, [INF] * 7 + [0.0])], 4, 3), SCORES)
    assert log_probs == pytest.approx([-0.5138841], abs=1e-6)
    expected = [
        *([0.9373206, 0.0626794, 0], [0.3177981, 0.0347131, 0.6474888]),
        *([0.9010463, 0, 0.0989537], [0.9971298, 0.0028702, 0]),
    ]
    np.testing.assert_allclose(gamma, expected, atol=1e-6)


def test_worked_numbers_of_a_cyclic_fst() -> None:
    fst = fst_of([(0, 1, 1, 0.7), (1, 1, 2, 0.2), (1, 2, 3, 0.9), (2, 1, 2, 0.1)], [INF, 0.3, 0.0])
    log_probs, gamma = _sums(supervision_of([fst], 3, 3, end_to_end=True), SCORES[:3])
    assert log_probs == pytest.approx([0.9868349], abs=1e-6)
    np.testing.assert_allclose(gamma, [[1, 0, 0], [0, 0.627245, 0.372755], [0, 0.875921, 0.124079]], atol=1e-6)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("end_to_end", [False, True])
def test_several_sequences_against_the_oracle(seed: int, end_to_end: bool) -> None:
    frames, labels, sequences = 4, 4, 3
    make = random_cyclic_acceptor if end_to_end else lambda seed, labels: random_acceptor(seed, frames, labels)
    fsts = [make(10 * seed + s, labels) for s in range(sequences)]
    merged = tuple(fsts) if end_to_end else (concatenate(fsts),)
    supervision = Supervision(1.0, sequences, frames, labels, merged, end_to_end)
    y = 5 * torch.randn(frames * sequences, labels, generator=torch.Generator().manual_seed(seed))
    log_probs, gamma = _sums(supervision, y)
    expected = [slow_sums.numerator(fst, y[s::sequences].numpy()) for s, fst in enumerate(fsts)]
    assert log_probs.sum() == pytest.approx(sum(log_prob for log_prob, _ in expected), rel=1e-6)
    for s, (_, posteriors) in enumerate(expected):
        np.testing.assert_allclose(gamma[s::sequences], posteriors, atol=1e-6)


def test_sequences_that_part_at_one_state_run_side_by_side() -> None:
    """The number of steps is that of frames of the longest piece between two such states."""
    chain = fst_of([(0, 1, 1, 0.5), (1, 2, 2, 0.0)], [INF, INF, 0.25])
    two_ends = fst_of([(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 1, 0.0), (2, 4, 2, 0.0)], [INF, INF, INF, 0.5, 0.25])
    supervision = Supervision(1.0, 4, 2, 2, (concatenate([chain, two_ends, chain, chain]),))
    trellis = make_trellis(supervision)
    assert (trellis.num_sequences, len(trellis.arcs)) == (3, 4)
    assert len(make_trellis(Supervision(1.0, 3, 2, 2, (concatenate([chain] * 3),))).arcs) == 2


@pytest.mark.parametrize(
    ("fst", "message"),
    [
        (Fst.empty(), "empty"),
        (fst_of([(0, 1, 0, 0.0), (1, 2, 1, 0.0)], [INF, INF, 0.0]), "epsilons"),
        (fst_of([(0, 1, 1, 0.0)], [INF, 0.0]), "another length"),
        (fst_of([(0, 1, 1, 0.0), (1, 2, 1, 0.0), (2, 3, 1, 0.0)], [INF, INF, INF, 0.0]), "another length"),
        (fst_of([(0, 1, 1, 0.0), (1, 1, 1, 0.0)], [INF, 0.0]), "another length"),
        (fst_of([(0, 1, 1, 0.0), (1, 2, 1, 0.0), (0, 2, 1, 0.0)], [INF, INF, 0.0]), "another length"),
        (fst_of([(0, 1, 1, 0.0), (1, 2, 1, 0.0), (1, 0, 1, 0.0)], [INF, INF, 0.0]), "another length"),
        (fst_of([(0, 2, 1, 0.0), (2, 1, 1, 0.0)], [INF, 0.0, INF]), "another length"),
        (fst_of([(0, 1, 1, 0.0), (1, 2, 1, 0.0)], [INF, INF, INF]), "no final state"),
        (fst_of([(1, 0, 1, 0.0), (0, 2, 1, 0.0)], [INF, INF, 0.0], start=1), "starts at state 1"),
    ],
)
def test_fsts_that_are_no_supervision(fst: Fst, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make_trellis(supervision_of([fst], 2, 3))


def test_an_end_to_end_fst_must_start_at_0() -> None:
    fst = fst_of([(1, 0, 1, 0.0), (0, 0, 1, 0.0)], [0.0, INF], start=1)
    with pytest.raises(TrainingError, match="sequence 0 of a supervision starts at state 1"):
        make_trellis(supervision_of([fst], 2, 3, end_to_end=True))


def test_an_end_to_end_fst_without_a_path_of_the_length_has_no_probability() -> None:
    fst = fst_of([(0, 1, 1, 0.0)], [INF, 0.0])
    log_probs, _ = _sums(supervision_of([fst], 2, 3, end_to_end=True), torch.zeros(2, 3))
    assert log_probs == [-INF]


def test_times_of_states() -> None:
    fst = fst_of([(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 1, 0.0), (2, 3, 1, 0.0)], [INF, INF, INF, 0.0])
    assert state_times(fst, 2).tolist() == [0, 1, 1, 2]
