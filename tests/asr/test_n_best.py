"""The best paths of a lattice, against all of a small one."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.speech.asr.decoding import n_best
from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_word_lattice


def test_the_best_paths_in_order() -> None:
    for _ in range(4):
        lattice = random_word_lattice()
        paths = paths_of(lattice)
        expected = sorted(cost for costs in paths.values() for cost, _ in costs)
        found = n_best(lattice, 7)
        assert [each.cost for each in found] == pytest.approx(expected[:7], abs=1e-4)
        for each in found:
            words = tuple(word for word, _, _ in each.words)
            assert any(cost == pytest.approx(each.cost, abs=1e-4) for cost, _ in paths[words])
            assert np.all(np.diff([begin for _, begin, _ in each.words]) >= 0)
