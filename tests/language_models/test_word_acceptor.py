"""Acceptors that scale and join others: a list of pairs gives what one pair after the other gives."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ArgumentError
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.word_acceptor import (
    NO_ARC,
    JointAcceptor,
    ScaledAcceptor,
    StateNumbers,
    WordAcceptor,
    WordArcs,
)


class _Circle(WordAcceptor):
    """`size` states in a circle; a word leads so many states on, word 5 is unknown in odd states."""

    def __init__(self, size: int):
        self._size = size

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        dst, cost = (states + words) % self._size, (states + 0.1 * words).astype(np.float32)
        known = (words < 5) | (states % 2 == 0)
        return WordArcs(np.where(known, dst, NO_ARC), np.where(known, cost, np.float32(np.inf)))

    def final_costs(self, states: Integers) -> Singles:
        return np.where(states == 1, np.inf, 0.25 * states).astype(np.float32)


def _joint() -> WordAcceptor:
    return JointAcceptor(ScaledAcceptor(_Circle(3), -0.5), _Circle(4))


def test_pairs_give_what_a_pair_gives_at_a_time() -> None:
    rng = np.random.default_rng(1)
    at_once, by_pair = _joint(), _joint()
    states = np.zeros(1, np.int64)
    for _ in range(6):
        states = rng.choice(states, 9)
        words = rng.integers(1, 6, 9)
        dst, cost = at_once.arcs(states, words)
        singly = [by_pair.arc(*pair) or (NO_ARC, np.inf) for pair in zip(states.tolist(), words.tolist(), strict=True)]
        assert list(zip(dst.tolist(), cost.tolist(), strict=True)) == singly
        states = np.append(0, dst[dst != NO_ARC])
        assert at_once.final_costs(states).tolist() == [by_pair.final_cost(state) for state in states.tolist()]


def test_joint_costs_are_sums() -> None:
    joint = _joint()
    found = joint.arc(0, 2)
    assert found is not None
    assert found[1] == pytest.approx(0.5 * 0.2)
    further = joint.arc(found[0], 5)
    assert further is not None
    assert further[1] == pytest.approx(-0.5 * 2.5 + 2.5)
    odd = joint.arc(0, 1)
    assert odd is not None
    assert joint.arc(odd[0], 5) is None
    assert joint.final_cost(odd[0]) == np.inf
    assert joint.final_cost(0) == 0


def test_numbers_are_given_in_the_order_of_coming() -> None:
    numbers = StateNumbers()
    assert numbers.of_all(np.array([7, 3, 7, 9])).tolist() == [0, 1, 0, 2]
    assert numbers.of(3) == 1
    assert numbers.of(4) == 3
    assert len(numbers) == 4


def test_scales_are_finite() -> None:
    with pytest.raises(ArgumentError, match=r"must be at most 1e\+20, got nan"):
        ScaledAcceptor(_Circle(2), np.nan)
    with pytest.raises(ArgumentError, match=r"must be at most 1e\+20, got -3e\+38"):
        ScaledAcceptor(_Circle(2), -3e38)
