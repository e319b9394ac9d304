"""HMMs in the place of phones: what sequences of transition-ids cost, from the transition model alone."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.training.chain.graphs.expansion import transition_ids_of_phones, windows_of_phones
from tests.chain.graphs.path_costs import language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms


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


def test_a_phone_in_a_loop_has_itself_on_its_left() -> None:
    """A phone that may be repeated for ever has itself on its left."""
    fst, windows = windows_of_phones(Fst.from_arcs(0, [0.0], [0], [0], [7]), 2, 1)
    assert windows.tolist() == [[0, 7], [7, 7]]
    assert language(fst, 3).keys() == {(), (1,), (1, 2), (1, 2, 2)}


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("phones", [[1], [3], [4], [1, 1, 2], [4, 3], [3, 4], [2, 1, 4]], ids=str)
def test_all_sequences_of_small_hmms(phones: list[int], scale: float) -> None:
    hmms = small_hmms()
    found = language(transition_ids_of_phones(linear(phones), hmms, scale), 5)
    expected = id_sequences(hmms, linear(phones), scale, 5)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_sequences_of_graphs_of_phones(seed: int) -> None:
    """With epsilons, costs and several ways to say the same."""
    hmms, random = small_hmms(), np.random.default_rng(seed)
    src, dst = np.sort(random.integers(0, 4, (2, 7)), axis=0)
    up = src < dst
    final = [np.inf, random.random(), np.inf, random.random()]
    phones = Fst.from_arcs(0, final, src[up], dst[up], random.integers(0, 5, up.sum()), random.random(up.sum()))
    found = language(transition_ids_of_phones(phones, hmms, 1.0), 4)
    expected = id_sequences(hmms, phones, 1.0, 4)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=1e-5)


def test_what_are_no_phones() -> None:
    hmms = small_hmms()
    assert transition_ids_of_phones(Fst.empty(), hmms, 1.0).num_states == 0
    for phone in (0, 5, 9):
        with pytest.raises(TrainingError, match=f"the transition model has no phone {phone}"):
            hmms.entries(np.array([1, phone]))
    with pytest.raises(TrainingError, match="must be an acceptor"):
        transition_ids_of_phones(Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], [0.0], [2]), hmms, 1.0)
