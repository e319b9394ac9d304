"""Supervision of utterances: all sequences of transition-ids that keep to the times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.options import SupervisingOptions, Tolerances
from nnet3.training.chain.graphs.supervising import allowed_phones, limited_to_times, supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations
from tests.chain.graphs.path_costs import language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms

PHONES = phones_of_durations([[1, 2], [2, 7], [3, 3]])
PHONE_OF_ID = np.array([0, 1, 1, 2, 2, 3])


def _sets(allowed: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in allowed]


@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [(1, [[1], [2], [2], [2, 3]]), (5, [[1, 2], [1, 2], [1, 2, 3], [2, 3]])],
)
def test_worked_examples_have_their_allowed_phones(tolerance: int, expected: list) -> None:
    assert _sets(allowed_phones(PHONES, Tolerances(tolerance, tolerance, 3))) == expected


@pytest.mark.parametrize("seed", range(30))
def test_against_the_rule_frame_by_frame(seed: int) -> None:
    random = np.random.default_rng(seed)
    factor = int(random.integers(1, 5))
    left, right = (int(n) for n in random.integers(factor // 2, 8, 2))
    phones = phones_of_durations(random.integers(1, 6, (int(random.integers(1, 9)), 2)))
    frames = -(-phones.num_frames // factor)
    expected = [
        sorted(
            {
                int(p)
                for p, b, e in zip(phones.phone, phones.begin, phones.end, strict=True)
                if -(-max(0, b - left) // factor) <= t < -(-min(phones.num_frames, e + right) // factor)
            }
        )
        for t in range(frames)
    ]
    if [] in expected:
        with pytest.raises(TrainingError, match="no phone is allowed at output frame"):
            allowed_phones(phones, Tolerances(left, right, factor))
    else:
        assert _sets(allowed_phones(phones, Tolerances(left, right, factor))) == expected


@pytest.mark.parametrize("seed", range(30))
def test_limits_against_all_sequences(seed: int) -> None:
    random = np.random.default_rng(seed)
    states, arcs, frames = 4, int(random.integers(4, 11)), int(random.integers(1, 6))
    src, dst = random.integers(0, states, (2, arcs))
    final = np.where(random.random(states) < 0.4, random.random(states), np.inf)
    ids = Fst.from_arcs(0, final, src, dst, random.integers(1, 6, arcs), random.random(arcs))
    allowed = random.random((frames, 4)) < 0.7
    expected = {
        labels: cost
        for labels, cost in language(ids, frames).items()
        if len(labels) == frames and all(allowed[t, PHONE_OF_ID[label]] for t, label in enumerate(labels))
    }
    limited = limited_to_times(ids, allowed, PHONE_OF_ID)
    if limited is None:
        assert not expected
        return
    found = language(limited, frames)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=1e-5)
    assert limited.start == 0
    assert (np.diff(np.flatnonzero(limited.final < np.inf)) == 1).all()
    assert (limited.dst > limited.src).all()


def test_the_least_tolerances() -> None:
    assert (Tolerances(), Tolerances(0, 2, 3)) == (Tolerances(5, 5, 1), Tolerances(0, 2, 3))


@pytest.mark.parametrize("settings", [(-1, 5, 1), (5, -1, 1), (0, 1, 3), (5, 5, 0)])
def test_bad_tolerances_are_refused(settings: tuple[int, int, int]) -> None:
    with pytest.raises(TrainingError, match=r"(left|right) must be >= 0|must together not be less|must be within"):
        Tolerances(*settings)


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize("pairs", [[(1, 4), (2, 8)], [(4, 5), (3, 4), (1, 3)], [(3, 2), (3, 6), (4, 3)]], ids=str)
def test_all_ways_to_say_the_phones(pairs: Sequence[tuple[int, int]], convert: bool) -> None:
    hmms, phones = small_hmms(), phones_of_durations(pairs)
    tolerances = Tolerances(2, 3, 3)
    made = supervise(phones, hmms, SupervisingOptions(tolerances, convert_to_pdfs=convert))
    allowed, model = allowed_phones(phones, tolerances), hmms.model
    frames = len(allowed)
    expected = {
        ids
        for ids in id_sequences(hmms, linear([phone for phone, _ in pairs]), 0.0, frames)
        if len(ids) == frames and all(allowed[t, model.phone(np.array([k]))[0]] for t, k in enumerate(ids))
    }
    assert expected
    if convert:
        expected = {tuple((model.pdf(np.array(ids)) + 1).tolist()) for ids in expected}
    found = language(made.fsts[0], frames)
    assert found.keys() == expected
    assert set(found.values()) == {0.0}
    assert (made.weight, made.num_sequences, made.frames_per_sequence, made.end_to_end) == (1.0, 1, frames, False)
    assert made.label_dim == (model.num_pdfs if convert else model.num_transition_ids)


def test_by_default_labels_are_pdfs() -> None:
    assert supervise(phones_of_durations([(1, 3)]), small_hmms(), SupervisingOptions()).label_dim == 12


def test_what_cannot_be_supervised() -> None:
    with pytest.raises(TrainingError, match="the transition model has no phone 9"):
        supervise(phones_of_durations([(9, 3)]), small_hmms(), SupervisingOptions())
    with pytest.raises(TrainingError, match="its phones do not fit into 1 output frames"):
        supervise(phones_of_durations([(1, 1), (2, 1)]), small_hmms(), SupervisingOptions(Tolerances(5, 5, 3)))
    for scale in (-0.1, 1.0, float("nan")):
        with pytest.raises(TrainingError, match=r"lm_scale must be (a finite number|>= 0 and < 1)"):
            SupervisingOptions(lm_scale=scale)
