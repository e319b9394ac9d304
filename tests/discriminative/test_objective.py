"""The criteria against Kaldi's numbers, a sum over all paths, and finite differences."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.errors import TrainingError
from nnet3.inference.scores import log_priors
from nnet3.model.components.random_source import RandomSource
from nnet3.training.discriminative.criteria import LatticeCriterion
from nnet3.training.discriminative.objective import (
    DiscriminativeObjective,
    DiscriminativeValue,
    discriminative_value,
)
from tests.discriminative.golden_discriminative import CASES, DiscriminativeCase, criterion_of, needs_golden
from tests.discriminative.slow_criteria import slow_value
from tests.discriminative.small_supervision import (
    PDFS,
    TOY,
    random_output,
    random_supervision,
    small_example,
    toy_transitions,
    worked,
)

CRITERIA: list[dict[str, Any]] = [
    {"criterion": "mmi"},
    {"criterion": "mmi", "boost": 0.5, "silence_phones": (1,)},
    {"criterion": "smbr", "silence_phones": (1,)},
    {"criterion": "smbr", "silence_phones": (1,), "one_silence_class": True},
    {"criterion": "mpfe", "silence_phones": (1,)},
    {"criterion": "mpfe", "silence_phones": (1, 3), "one_silence_class": True},
]
#: Of each criterion: the total and the first row of the derivative of the worked example of the facts.
WORKED = [
    (-0.532020, (0.662786, -0.662786, 0)),
    (-1.066934, (0.774646, -0.774646, 0)),
    (1.049084, (0.247392, -0.247392, 0)),
    (1.386298, (0.470892, -0.470892, 0)),
    (1.711870, (0.023891, -0.023891, 0)),
    (2.049084, (0.247392, -0.247392, 0)),
]


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_golden_values_and_derivatives(name: str) -> None:
    case = DiscriminativeCase(name)
    meta, wanted = (json.loads(case.golden(file).read_text()) for file in ("meta.json", "objf.json"))
    arrays, model = np.load(case.golden("arrays.npz")), case.model
    supervisions = [example.outputs[0].supervision for example in case.examples("merged.ark").values()]
    compared = set()
    for key, numbers in wanted.items():
        label, number = key.rsplit("_", 1)
        supervision = supervisions[int(number)]
        options = criterion_of(meta["arrays"][label.removeprefix("floor_")], acoustic_scale=meta["acoustic_scale"])
        is_floor = label.startswith("floor")
        output = torch.from_numpy(arrays["floor_output_0" if is_floor else f"output_{number}"].copy())
        if label == "nan":
            output[0, model.transition_model.pdf(int(supervision.alignment[0]))] = math.nan
        value = discriminative_value(output, supervision, model.transition_model, options, log_priors(model))
        assert (value.num_frames, value.weight) == (numbers["t"], numbers["t_weighted"])
        assert (value.num_floored > 0) == is_floor
        _compare(value, numbers)
        xent = arrays.get(f"output-xent_{number}")
        if xent is not None and "xent_objf" in numbers:
            found = float((torch.from_numpy(xent).double() * value.posteriors).sum())
            assert found == pytest.approx(numbers["xent_objf"], abs=1e-6 * value.weight)
        golden = arrays[f"deriv_{key}"]
        assert np.linalg.norm(value.deriv.numpy() - golden) <= 1e-5 * np.linalg.norm(golden)
        compared.add(f"deriv_{key}")
    assert compared == {each for each in arrays if each.startswith("deriv")}


def _compare(value: DiscriminativeValue, numbers: dict[str, float | None]) -> None:
    found = {
        "objf": value.lattice,
        "num_objf": value.numerator,
        "l2_term": value.l2_term,
        "total": value.objective,
        "num_count": value.num_count,
        "den_count": value.den_count,
    }
    for name, own in found.items():
        expected = numbers[name]
        tolerance = (1e-5 if "count" in name else 1e-6) * value.weight
        assert math.isnan(own) if expected is None else own == pytest.approx(expected, abs=tolerance), name


@pytest.mark.parametrize(("options", "expected"), list(zip(CRITERIA, WORKED, strict=True)))
def test_worked_example_of_the_facts(options: dict[str, Any], expected: tuple[float, tuple[float, ...]]) -> None:
    output, supervision, transitions, priors = worked()
    given = DiscriminativeOptions(acoustic_scale=0.5, **options)
    value = discriminative_value(output, supervision, transitions, given, priors)
    assert value.objective == pytest.approx(expected[0], abs=2e-6)
    assert value.deriv[0].tolist() == pytest.approx(expected[1], abs=2e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", CRITERIA)
def test_values_are_those_of_all_paths(options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    supervision = random_supervision(rng, sequences=1 + seed % 3, frames=3, with_epsilons=seed % 2 == 0)
    given = DiscriminativeOptions(acoustic_scale=0.7, **options)
    output = random_output(rng, supervision)
    value = discriminative_value(output, supervision, toy_transitions(), given)
    assert value.objective == pytest.approx(slow_value(output.numpy(), supervision, toy_transitions(), given), abs=1e-9)


@pytest.mark.parametrize("options", CRITERIA)
def test_derivatives_are_those_of_finite_differences(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    supervision = random_supervision(rng, sequences=2, frames=3, with_epsilons=True)
    given = DiscriminativeOptions(acoustic_scale=0.7, **options)
    output, step = random_output(rng, supervision), 1e-5
    value = discriminative_value(output, supervision, toy_transitions(), given)
    for row in range(len(output)):
        for column in range(output.shape[1]):
            sides = []
            for sign in (1, -1):
                moved = output.clone()
                moved[row, column] += sign * step
                sides.append(discriminative_value(moved, supervision, toy_transitions(), given).objective)
            slope = (sides[0] - sides[1]) / (2 * step)
            assert 0.7 * float(value.deriv[row, column]) == pytest.approx(slope, abs=1e-8)


def test_weight_scales_all_but_counts() -> None:
    rng = np.random.default_rng(3)
    supervision = random_supervision(rng, sequences=2, frames=3)
    output = random_output(rng, supervision)
    options = DiscriminativeOptions(criterion="mmi", l2_regularize=0.1)
    one = discriminative_value(output, supervision, toy_transitions(), options)
    two = discriminative_value(output, replace(supervision, weight=2.0), toy_transitions(), options)
    for name in ("numerator", "lattice", "l2_term", "weight", "objective"):
        assert getattr(two, name) == pytest.approx(2 * getattr(one, name))
    assert (two.num_count, two.den_count) == (one.num_count, one.den_count)
    torch.testing.assert_close(two.deriv, 2 * one.deriv)
    assert one.posteriors.sum() == 6


def test_silence_phones_that_do_not_ascend_are_missed_by_bisection() -> None:
    _, supervision, transitions, _ = worked()
    output = torch.log_softmax(torch.zeros(3, 3, dtype=torch.float64), 1)
    values = [
        discriminative_value(output, supervision, transitions, DiscriminativeOptions(silence_phones=phones)).objective
        for phones in ((), (3, 2), (2, 3))
    ]
    assert values[2] < values[1] <= values[0]
    with pytest.raises(TrainingError, match="ascending"):
        DiscriminativeOptions(criterion="mmi", boost=0.1, silence_phones=(3, 2))
    DiscriminativeOptions(criterion="smbr", boost=0.1, silence_phones=(3, 2))  # boost is for mmi


@pytest.mark.parametrize("criterion", ["mmi", "smbr", "mpfe"])
def test_outputs_that_are_not_numbers(criterion: str) -> None:
    rng = np.random.default_rng(5)
    supervision = random_supervision(rng, sequences=1, frames=3)
    output = random_output(rng, supervision)
    output[0] = math.nan
    options = DiscriminativeOptions(criterion=criterion, l2_regularize=0.0)
    if criterion == "mmi":
        value = discriminative_value(output, supervision, toy_transitions(), options)
        assert value.failed
        assert (value.lattice, float(value.deriv.abs().sum())) == (-30.0, 0.0)
        return
    with pytest.raises(TrainingError, match="not a number"):
        discriminative_value(output, supervision, toy_transitions(), options)


def test_what_does_not_fit_together_is_refused() -> None:
    output, supervision, transitions, priors = worked()
    with pytest.raises(TrainingError, match="must be log-probabilities, got 1"):
        discriminative_value(output + 2, supervision, transitions, None, priors)
    with pytest.raises(TrainingError, match="priors of 2 pdfs"):
        discriminative_value(output, supervision, transitions, None, priors[:2])
    with pytest.raises(TrainingError, match="output has 2 columns"):
        discriminative_value(output[:, :2], supervision, transitions)
    with pytest.raises(TrainingError, match="has 2 rows"):
        discriminative_value(output[:2], supervision, transitions)
    other = replace(supervision, alignment=np.array([1, 2, TOY + 9], np.int32))
    with pytest.raises(TrainingError, match="transition-id"):
        discriminative_value(output, other, transitions)


def test_a_minibatch_that_is_not_a_number_has_its_weight() -> None:
    """4 frames of weight 0.5; so averages over all minibatches are NaN, not those of the others."""
    target = small_example(np.random.default_rng(6)).outputs[0]
    target = replace(target, supervision=replace(target.supervision, weight=0.5))
    objective = DiscriminativeObjective(LatticeCriterion(DiscriminativeOptions(), toy_transitions()))
    (result,) = objective.evaluate(target, [torch.full((4, PDFS), math.nan)], rng=RandomSource(0), with_derivs=True)
    assert math.isnan(result.stats.objective)
    assert result.stats.weight == 2
