"""Phones in context against the windows of each sequence of phones."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.chain.graphs.context import windows_of_phones
from nnet3.kaldi_io import Fst
from tests.chain.graphs.path_costs import language


def _phones(random: np.random.Generator) -> Fst:
    """An acceptor of up to five states whose arcs lead upwards."""
    states = int(random.integers(2, 6))
    src, dst = np.sort(random.integers(0, states, (2, int(random.integers(1, 9)))), axis=0)
    up = src < dst
    final = np.where(random.random(states) < 0.5, random.random(states), np.inf)
    return Fst.from_arcs(0, final, src[up], dst[up], random.integers(1, 4, up.sum()), random.random(up.sum()))


@pytest.mark.parametrize("shape", [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("seed", range(8))
def test_windows_of_all_sequences(shape: tuple[int, int], seed: int) -> None:
    width, central = shape
    phones = _phones(np.random.default_rng(seed))
    fst, windows = windows_of_phones(phones, width, central)
    made = {
        tuple(tuple(windows[label - 1].tolist()) for label in labels): cost
        for labels, cost in language(fst, phones.num_states).items()
    }
    expected = {}
    for sequence, cost in language(phones, phones.num_states).items():
        padded = (0,) * central + sequence + (0,) * (width - 1 - central)
        expected[tuple(padded[k : k + width] for k in range(len(sequence)))] = cost
    assert made.keys() == expected.keys()
    for key, cost in expected.items():
        assert made[key] == pytest.approx(cost, abs=1e-6)


def test_loops() -> None:
    """A phone that may be repeated for ever has itself on its left."""
    fst, windows = windows_of_phones(Fst.from_arcs(0, [0.0], [0], [0], [7]), 2, 1)
    assert windows.tolist() == [[0, 7], [7, 7]]
    assert language(fst, 3).keys() == {(), (1,), (1, 2), (1, 2, 2)}
