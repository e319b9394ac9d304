"""States of lattices chosen and ordered: the paths stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import accessible, coaccessible, goes_up
from nnet3.base.kaldi_io.lattice import Lattice, no_strings
from nnet3.base.kaldi_io.lattice_states import connected, with_states
from nnet3.errors import ModelFormatError
from nnet3.speech.lattices.lattice_states import (
    check_acyclic,
    is_deterministic,
    label_lattice,
    sorted_by_label,
    sorted_upwards,
)
from nnet3.speech.lattices.rescoring import best_of_words
from tests.asr.golden_rescoring import paths
from tests.asr.random_lattices import random_lattice


@given(st.integers(0, 2**32))
def test_paths_stay(seed: int) -> None:
    lattice = random_lattice(np.random.default_rng(seed))
    wanted = paths(lattice)
    whole = connected(lattice)
    assert paths(whole) == wanted
    assert (accessible(whole.fst) & coaccessible(whole.fst)).all()
    assert connected(whole) is whole
    upwards = sorted_upwards(whole)
    assert goes_up(upwards.fst)
    assert paths(upwards) == wanted
    assert sorted_upwards(upwards) is upwards
    by_label = sorted_by_label(whole)
    assert paths(by_label) == wanted
    assert (np.diff(by_label.fst.ilabel)[np.diff(by_label.fst.src) == 0] >= 0).all()
    assert not is_deterministic(whole) or all(len(each) == 1 for each in wanted.values())
    if whole.fst.num_states:
        assert is_deterministic(best_of_words(whole))
        assert paths(label_lattice(whole).lattice()) == wanted


def test_a_cycle_is_refused() -> None:
    fst = Fst.from_arcs(0, [np.inf, 0], [0, 1], [1, 0], [1, 1])
    zeros = np.zeros(2, np.float32)
    lattice = Lattice(fst, zeros, zeros, no_strings(2), no_strings(2))
    for function in (check_acyclic, sorted_upwards, label_lattice):
        with pytest.raises(ModelFormatError, match="the lattice has a cycle"):
            function(lattice)
    assert with_states(lattice, np.zeros(0, np.int64)).fst.num_states == 0
