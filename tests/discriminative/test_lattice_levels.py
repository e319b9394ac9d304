"""Forward and backward over lattices, against sums over all paths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3.errors import TrainingError
from nnet3.training.discriminative.lattice_levels import LatticeLevels, sum_lattice
from nnet3.training.discriminative.supervision import acceptor, concatenated
from tests.discriminative.slow_criteria import paths_of
from tests.discriminative.small_supervision import random_supervision
from tests.effort import draws


@settings(max_examples=draws(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
def test_sums_are_those_of_all_paths(seed: int, sequences: int, with_epsilons: bool) -> None:
    rng = np.random.default_rng(seed)
    supervision = random_supervision(rng, sequences, 3, with_epsilons)
    levels = supervision.levels
    scores = -levels.graph_cost - np.where(levels.transition_id > 0, 0.0, levels.acoustic_cost)
    right = (levels.transition_id % 2).astype(float)
    sums = sum_lattice(levels, torch.from_numpy(scores), torch.from_numpy(right))
    totals = np.array([-end - sum(cost for _, cost in path) for path, end in paths_of(supervision)])
    counts = np.array([sum(number % 2 for number, _ in path) for path, _ in paths_of(supervision)])
    log_sum = float(np.logaddexp.reduce(totals))
    assert float(sums.log_sum) == pytest.approx(log_sum, abs=1e-5)  # costs are float32 there
    weights = np.exp(totals - log_sum)
    assert sums.accuracy is not None
    assert sums.gain is not None
    assert float(sums.accuracy) == pytest.approx(float(weights @ counts), abs=1e-5)
    emits = levels.transition_id > 0
    assert float(sums.shares[emits].sum()) == pytest.approx(supervision.num_frames, abs=1e-9)
    gain = np.bincount(levels.frame[emits], (sums.shares * sums.gain).numpy()[emits])
    np.testing.assert_allclose(gain, 0, atol=1e-9)  # what some paths gain at a frame, the others lose


def test_sequences_of_a_minibatch_are_pieces_side_by_side() -> None:
    rng = np.random.default_rng(0)
    ladder = acceptor([np.inf] * 8 + [0.0], *_ladder(4))
    merged = LatticeLevels.of(concatenated([ladder] * 5), 20)
    assert merged.num_pieces == 5 * 4 + 4  # frames, and arcs to the next sequence
    assert len(merged.first_node) == 4  # three levels
    assert merged.num_nodes == 24 + 5 * 9 - 1
    scores = torch.from_numpy(rng.normal(size=len(merged.src)))
    assert float(sum_lattice(merged, scores).shares[torch.from_numpy(merged.transition_id > 0)].sum()) == pytest.approx(
        20
    )


def _ladder(frames: int) -> tuple[np.ndarray, ...]:
    """Two arcs a frame, by two states; one of them goes on without a transition-id."""
    rows = [
        arc for t in range(frames) for arc in ((2 * t, 2 * t + 1, 1), (2 * t, 2 * t + 2, 2), (2 * t + 1, 2 * t + 2, 0))
    ]
    src, dst, ids = (np.array(column) for column in zip(*rows, strict=True))
    return src, dst, ids, np.zeros(len(rows)), np.zeros(len(rows))


@pytest.mark.parametrize(
    ("final", "arcs", "message"),
    [
        ([np.inf, np.inf], [(0, 1, 1)], "has no path"),
        ([np.inf, np.inf, 0], [(0, 1, 1), (1, 2, 0)], "path of 1 transition-ids, but the supervision 2"),
        ([np.inf, np.inf, 0], [(0, 1, 1), (1, 2, 1), (0, 2, 1)], "different numbers"),
        ([np.inf, np.inf, 0], [(0, 1, 1), (1, 1, 1), (1, 2, 1)], "cycle"),
    ],
)
def test_lattices_that_are_not_of_the_frames(
    final: list[float], arcs: list[tuple[int, int, int]], message: str
) -> None:
    src, dst, ids = (np.array(column) for column in zip(*arcs, strict=True))
    costs = np.zeros(len(arcs))
    with pytest.raises(TrainingError, match=message):
        LatticeLevels.of(acceptor(final, src, dst, ids, costs, costs), 2)
