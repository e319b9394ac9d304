"""Determinization with NumPy, without native code: all paths written out."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.speech.lattices import determinizing
from nnet3.speech.lattices.array_sets import array_leaps
from nnet3.speech.lattices.determinizing import determinized
from nnet3.speech.lattices.label_sets import Memory
from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_lattice


def test_each_sequence_of_labels_once_with_its_best_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(determinizing, "library", lambda: None)
    for _ in range(5):
        raw = random_lattice(rows=4)
        best = {words: min(paths) for words, paths in paths_of(raw).items()}
        paths = paths_of(determinized(raw.labelled(), 100.0, Memory(np.inf)).lattice())
        assert set(paths) == set(best)
        for words, [(cost, ids)] in paths.items():
            assert cost == pytest.approx(best[words][0], abs=1e-4)
            assert len(ids) == 4


def test_the_best_ways_without_labels() -> None:
    """Where nothing has a label, the one way to each end is the best of all paths to it."""
    raw = random_lattice(rows=3)
    whole = raw.labelled(np.zeros(len(raw.src), np.int64))
    leaps = array_leaps(whole, Memory(np.inf))
    assert leaps.offsets.tolist() == [0, *np.full(whole.num_states, len(leaps.state)).tolist()]
    assert leaps.state.tolist() == np.flatnonzero(whole.final_cost < np.inf).tolist()
    assert leaps.graph + leaps.acoustic == pytest.approx(whole.forward[leaps.state])
    assert set(leaps.ids.lengths.tolist()) == {3}
