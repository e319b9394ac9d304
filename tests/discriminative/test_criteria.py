"""What criteria are made of: rows of frames, silence, frames that are dropped."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.errors import TrainingError
from nnet3.training.discriminative.criteria import LEAST_LOG_PROB, LatticeCriterion, Material, rows_of_frames
from nnet3.training.discriminative.supervision import concatenated
from tests.discriminative.small_supervision import random_output, random_supervision, toy_transitions, worked


def test_rows_of_frames_are_those_of_sequences_side_by_side() -> None:
    assert rows_of_frames(np.array([2, 2])).tolist() == [0, 2, 1, 3]
    assert rows_of_frames(np.array([3, 1, 2])).tolist() == [0, 3, 6, 1, 2, 5]


@pytest.mark.parametrize("criterion", ["mmi", "smbr", "mpfe"])
def test_sequences_of_different_lengths_give_the_sum_of_single_ones(criterion: str) -> None:
    rng = np.random.default_rng(0)
    parts = [random_supervision(rng, 1, frames) for frames in (4, 2, 3)]
    outputs = [random_output(rng, part) for part in parts]
    made = LatticeCriterion(DiscriminativeOptions(criterion=criterion), toy_transitions())
    single = [
        made.value(output, Material(part.levels, part.alignment, np.arange(len(part.alignment))))
        for part, output in zip(parts, outputs, strict=True)
    ]
    padded = torch.zeros(4, 3, 3, dtype=torch.float64)
    for number, output in enumerate(outputs):
        padded[: len(output), number] = output
    whole = concatenated([part.lattice for part in parts])
    levels = type(parts[0].levels).of(whole, 9)
    rows = rows_of_frames(np.array([4, 2, 3]))
    value = made.value(
        padded.reshape(12, 3), Material(levels, np.concatenate([part.alignment for part in parts]), rows)
    )
    assert value.objective == pytest.approx(sum(each.objective for each in single))
    deriv = value.deriv.reshape(4, 3, 3)
    for number, each in enumerate(single):
        torch.testing.assert_close(deriv[: len(each.deriv), number], each.deriv)
        assert not deriv[len(each.deriv) :, number].any()


@pytest.mark.parametrize(
    ("given", "found"), [((), []), ((2,), [2]), ((1, 3), [1, 3]), ((3, 1), []), ((1, 3, 2), [1, 3]), ((9,), [])]
)
def test_silence_is_found_by_bisection(given: tuple[int, ...], found: list[int]) -> None:
    marked = LatticeCriterion(DiscriminativeOptions(silence_phones=given), toy_transitions()).is_silence
    assert len(marked) == 4
    assert np.flatnonzero(marked).tolist() == found


def test_frames_whose_right_pdf_is_not_in_the_lattice_are_dropped() -> None:
    output, supervision, transitions, priors = worked()
    supervision.alignment[:] = [3, 2, 1]  # pdf 2 is not there at the first frame
    values = [
        LatticeCriterion(DiscriminativeOptions(criterion="mmi", drop_frames=drop), transitions, priors).value(
            output, Material(supervision.levels, supervision.alignment, np.arange(3))
        )
        for drop in (False, True)
    ]
    assert values[0].objective == values[1].objective
    assert values[0].deriv[0].any()
    assert not values[1].deriv[0].any()
    torch.testing.assert_close(values[0].deriv[1:], values[1].deriv[1:])


def test_small_outputs_count_as_the_least_and_keep_their_derivatives() -> None:
    output, supervision, transitions, _ = worked()
    low = output.clone()
    low[1, 2] = -1000
    made = LatticeCriterion(DiscriminativeOptions(criterion="mmi"), transitions)
    material = Material(supervision.levels, supervision.alignment, np.arange(3))
    value = made.value(low, material)
    assert value.num_floored == 1
    low[1, 2] = LEAST_LOG_PROB
    assert made.value(low, material).objective == pytest.approx(value.objective)
    assert value.deriv[1, 2] != 0


@pytest.mark.parametrize(("criterion", "count"), [("mmi", 2), ("smbr", 1), ("mpfe", 1)])
def test_small_outputs_are_counted_as_often_as_they_are_looked_up(criterion: str, count: int) -> None:
    """Of an arc and, for mmi, of the right alignment."""
    output, supervision, transitions, _ = worked()
    output[2, 2] = -1000
    made = LatticeCriterion(DiscriminativeOptions(criterion=criterion), transitions)
    assert made.value(output, Material(supervision.levels, supervision.alignment, np.arange(3))).num_floored == count


def test_priors_are_probabilities_where_the_lattice_has_their_pdfs() -> None:
    output, supervision, transitions, priors = worked()
    material = Material(supervision.levels, supervision.alignment, np.arange(3))
    priors[2] = 0.5
    with pytest.raises(TrainingError, match=r"at most 1, that of pdf 2 is 1\.64872"):
        LatticeCriterion(DiscriminativeOptions(), transitions, priors).value(output, material)
    more = torch.cat([output, torch.full((3, 1), 9.0)], 1), torch.cat([priors.clamp(max=0), torch.ones(1)])
    LatticeCriterion(DiscriminativeOptions(), transitions, more[1]).value(more[0], material)
