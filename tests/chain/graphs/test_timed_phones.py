"""When each phone was there: alignments and lattices."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, read_lattice
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Reader
from nnet3.training.chain.graphs.timed_phones import phones_of_durations, phones_of_lattice
from tests.chain.graphs.path_costs import language


def _lattice(text: str) -> Lattice:
    return read_lattice(Reader(f"\n{text}\n\n".encode(), binary=False))


TWO_WAYS = _lattice("0 1 7 1,9,3_3\n0 2 8 2,9,5\n1 3 9 0.5,9,4\n2 3 9 0.25,9,4_4\n3 1,9,")


def test_phones_of_durations_follow_each_other() -> None:
    phones = phones_of_durations([[1, 2], [2, 7], [3, 3]])
    assert phones.begin.tolist() == [0, 2, 9]
    assert phones.end.tolist() == [2, 9, 12]
    assert phones.num_frames == 12
    assert language(phones.fst, 4) == {(1, 2, 3): 0.0}


@pytest.mark.parametrize("pairs", [[[0, 3]], [[1, 0]], []])
def test_bad_durations_are_refused(pairs: list) -> None:
    with pytest.raises(TrainingError, match=r"must be above 0|no phones"):
        phones_of_durations(pairs)


def test_phones_of_a_lattice_know_their_frames() -> None:
    phones = phones_of_lattice(TWO_WAYS)
    assert phones.phone.tolist() == [7, 8, 9, 9]
    assert phones.begin.tolist() == [0, 0, 2, 1]
    assert phones.end.tolist() == [2, 1, 3, 3]
    assert phones.num_frames == 3
    assert language(phones.fst, 3) == {(7, 9): 0.0, (8, 9): 0.0}


def test_lattice_with_costs() -> None:
    """Half of the graph's costs, less those of the best path, all on the first arcs: 0.5 * (1.75 - 1.5)."""
    phones = phones_of_lattice(TWO_WAYS, 0.5)
    costs = language(phones.fst, 3)
    assert costs[7, 9] == pytest.approx(0)
    assert costs[8, 9] == pytest.approx(0.5 * (2 + 0.25 - 1 - 0.5))
    assert phones.fst.cost.tolist() == pytest.approx([0, 0.375, 0, 0])
    assert phones.fst.final[3] == 0


def test_states_on_no_path_do_not_matter() -> None:
    lattice = _lattice("0 1 7 0,0,3_3\n0 2 8 0,0,5\n4 1 8 0,0,5_5_5\n1 0,0,")
    phones = phones_of_lattice(lattice)
    assert phones.phone.tolist() == [7]
    assert phones.num_frames == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the lattice is empty"),
        ("0 1 7 0,0,3\n1 Infinity,Infinity,", "the lattice is empty"),
        ("0 1 0 0,0,3\n1 0,0,", "arcs without a phone"),
        ("0 1 7 0,0,\n1 0,0,", "arcs without a phone or without frames"),
        ("0 1 7 0,0,3\n1 2 7 0,0,3\n1 0,0,\n2 0,0,", "has 2 frames, and an end behind the phones of 1"),
        ("0 1 7 0,0,3\n1 0,0,4_4", "has 3 frames, and an end behind the phones of 1"),
        ("0 1 7 0,0,3\n0 1 7 0,0,3_3\n1 0,0,", "reach after different numbers of frames"),
        ("0 1 7 0,0,3\n1 0 7 0,0,3\n1 0,0,", "reach after different numbers of frames"),
    ],
)
def test_bad_lattices_are_refused(text: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        phones_of_lattice(_lattice(text))


@pytest.mark.parametrize("seed", range(20))
def test_best_paths_cost_nothing_anywhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    states = 6
    arcs = [(s, d) for s in range(states) for d in range(s + 1, states) if random.random() < 0.5 or d == s + 1]
    lines = [f"{s} {d} {1 + random.integers(3)} {random.normal()},0,{'_'.join(['1'] * (d - s))}" for s, d in arcs]
    lattice = _lattice("\n".join([*lines, f"{states - 1} {random.normal()},0,"]))
    phones = phones_of_lattice(lattice, 0.7)
    plain = language(lattice.fst, states)
    pushed = language(phones.fst, states)
    assert plain.keys() == pushed.keys()
    least = min(plain.values())
    for labels, cost in plain.items():
        assert pushed[labels] == pytest.approx(0.7 * (cost - least), abs=1e-5)
    fst = phones.fst
    assert fst.final[-1] == 0
    for state in range(states - 1):
        leaving = fst.cost[fst.offsets[state] : fst.offsets[state + 1]]
        assert len(leaving) == 0 or state == fst.start or leaving.min() == pytest.approx(0, abs=1e-6)
