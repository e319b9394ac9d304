"""States that paths reach, arcs on cycles, and breadth-first order, against all paths."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io import fst_reach
from nnet3.base.kaldi_io.fst_reach import accessible, arcs_on_cycles, breadth_first, coaccessible, longest_paths
from nnet3.kaldi_io import Fst
from tests.kaldi_io.random_fsts import random_fst


def _reach_of(fst: Fst) -> np.ndarray:
    """reach[i, j]: whether a path of at least one arc leads from i to j."""
    reach = np.zeros((fst.num_states, fst.num_states), bool)
    reach[fst.src, fst.dst] = True
    for middle in range(fst.num_states):
        reach |= reach[:, middle, None] & reach[None, middle]
    return reach


@pytest.mark.parametrize("seed", range(300))
def test_reach_against_all_paths(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fst_reach, "_FEW", 10**6 * (seed % 2))  # by lists, or by arrays
    fst = random_fst(np.random.default_rng(seed))
    reach = _reach_of(fst)
    at_all = reach | np.eye(fst.num_states, dtype=bool)
    assert np.array_equal(accessible(fst), at_all[fst.start])
    assert np.array_equal(coaccessible(fst), at_all[:, fst.final < np.inf].any(axis=1))
    assert np.array_equal(arcs_on_cycles(fst), at_all[fst.dst, fst.src])
    longest = np.zeros(fst.num_states, np.int64)
    for src, dst in [*zip(fst.src.tolist(), fst.dst.tolist(), strict=True)] * fst.num_states:
        longest[dst] = max(longest[dst], longest[src] + 1)
    longest[at_all[reach.diagonal()].any(axis=0)] = -1
    assert np.array_equal(longest_paths(fst.num_states, fst.src, fst.dst), longest)
    assert sorted(breadth_first(fst, np.array([fst.start])).tolist()) == np.flatnonzero(at_all[fst.start]).tolist()


@pytest.mark.parametrize("seed", range(50))
def test_breadth_first_takes_arcs_in_order(seed: int) -> None:
    fst = random_fst(np.random.default_rng(seed), 12)
    queue = [fst.start]
    for state in queue:
        queue += [int(d) for d in dict.fromkeys(fst.dst[fst.src == state].tolist()) if d not in queue]
    assert breadth_first(fst, np.array([fst.start])).tolist() == queue
