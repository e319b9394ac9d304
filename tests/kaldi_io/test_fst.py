"""FSTs as arrays; what can be reached in them; the property bits that OpenFst would find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst_properties import known_properties
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst, save_fst
from tests.effort import draws
from tests.kaldi_io.random_fsts import random_fst, same


def test_arcs_are_grouped_by_source_in_order() -> None:
    fst = Fst.from_arcs(1, [np.inf, 0, 0.5], [2, 1, 2, 0], [0, 1, 2, 2], [5, 6, 7, 8], [1, 2, 3, 4])
    assert fst.offsets.tolist() == [0, 1, 2, 4]
    assert fst.src.tolist() == [0, 1, 2, 2]
    assert fst.ilabel.tolist() == [8, 6, 5, 7]
    assert fst.cost.tolist() == [4, 2, 1, 3]
    assert fst.is_acceptor
    assert not fst.has_epsilons
    assert fst.largest_label == 8
    assert repr(fst) == "<Fst: acceptor of 3 states and 4 arcs>"


def test_the_empty_fst_has_no_states() -> None:
    fst = Fst.empty()
    assert (fst.start, fst.num_states, fst.num_arcs, fst.largest_label) == (-1, 0, 0, 0)
    assert fst.is_acceptor


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, [0.0], [0], [0], [1]), "the start state is 1, but there are 1 states"),
        ((-1, [0.0], [], [], []), "the start state is -1, but there are 1 states"),
        ((0, [], [], [], []), "the start state is 0, but there are 0 states"),
        ((0, [0.0], [0], [1], [1]), "arc 0 leads to state 1, but there are 1 states"),
        ((0, [0.0], [0], [-1], [1]), "arc 0 leads to state -1"),
        ((0, [0.0], [1], [0], [1]), "an arc leaves a state that is not one of the 1 states"),
        ((0, [0.0], [0], [0], [-1]), "arc 0 has the label -1"),
        ((0, [0.0], [0], [0], [1], [np.nan]), "arc 0 has the cost nan"),
        ((0, [0.0], [0], [0], [1], [np.inf]), "arc 0 has the cost inf"),
        ((0, [np.nan], [], [], []), "state 0 has the final cost nan"),
        ((0, [-np.inf], [], [], []), "state 0 has the final cost -inf"),
        ((0, [0.0], [0], [0], [1], [1], [-5]), "arc 0 has the label -5"),
    ],
)
def test_impossible_fsts_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Fst.from_arcs(*arguments)


@pytest.mark.parametrize("seed", range(draws(300)))
def test_properties_are_those_that_openfst_finds(seed: int, tmp_path: Path) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    fst = random_fst(np.random.default_rng(1000 + seed))
    save_fst(fst, str(tmp_path / "x.fst"))
    peer = kaldifst.StdVectorFst.read(str(tmp_path / "x.fst"))
    trinary = 0x0000FFFFFFFF0000
    assert f"{known_properties(fst):x}" == f"{peer.properties(trinary, True) & trinary:x}"


def test_same_notices_differences() -> None:
    random = np.random.default_rng(0)
    fsts = [random_fst(random) for _ in range(20)]
    assert all(same(a, b) == (a is b) for a in fsts for b in fsts)
