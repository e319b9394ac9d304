"""RnnlmObjective: finite differences, the definition in a loop, kappa, and blocks of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nnet3.base.options.rnnlm import RnnlmObjectiveOptions
from nnet3.errors import TrainingError
from nnet3.model.components.random_source import RandomSource
from nnet3.train import MatrixTarget, OutputResult
from nnet3.training.rnnlm.embedding_in_training import EmbeddingInTraining
from nnet3.training.rnnlm.objective import RnnlmObjective, RnnlmTarget
from tests.rnnlm.small_minibatches import CHUNKS, GROUP, LENGTH, SAMPLES, WORDS, minibatch
from tests.seeds import shifted

DIM, UNLIMITED = 5, RnnlmObjectiveOptions(den_term_limit=0.0)


def _case(seed: int, *, sampled: bool, scale: float = 1.0) -> tuple[RnnlmTarget, torch.Tensor]:
    rng = np.random.default_rng(shifted(seed))
    embedding = torch.from_numpy(scale * rng.normal(size=(WORDS, DIM)))
    target = EmbeddingInTraining(embedding, None).target(minibatch(rng, sampled=sampled))
    target.embedding_deriv = torch.zeros_like(target.embedding)
    return target, torch.from_numpy(scale * rng.normal(size=(CHUNKS * LENGTH, DIM)))


def _evaluate(target: RnnlmTarget, y: torch.Tensor, options: RnnlmObjectiveOptions = UNLIMITED) -> OutputResult:
    (result,) = RnnlmObjective(options).evaluate(target, [y], rng=RandomSource(0), with_derivs=True)
    return result


def _by_definition(target: RnnlmTarget, y: torch.Tensor) -> tuple[float, float]:
    example, numerator, denominator = target.example, 0.0, 0.0
    for place, weight in enumerate(example.output_weights.tolist()):
        if example.is_sampled:
            group = place // (CHUNKS * GROUP)
            words = target.sampled_words[group].tolist()
            inverse = example.sample_inv_probs.reshape(-1, SAMPLES)[group].tolist()
        else:
            words, inverse = list(range(WORDS)), [0.0, *[1.0] * (WORDS - 1)]
        scores = [float(y[place] @ target.embedding[word]) for word in words]
        numerator += weight * scores[example.output_words[place]]
        q = [math.exp(score) if score < 0 else score + 1 for score in scores]
        denominator += weight * (1 - sum(map(math.prod, zip(q, inverse, strict=True))))
    return numerator, denominator


@pytest.mark.parametrize("sampled", [False, True])
def test_parts_are_those_of_the_definition(sampled: bool) -> None:
    target, y = _case(1, sampled=sampled)
    stats = _evaluate(target, y).stats
    assert (stats.objective, stats.auxiliary) == pytest.approx(_by_definition(target, y))
    assert stats.weight == target.example.output_weights.sum()
    assert (target.exact == 0) == sampled


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_exact_denominators_are_of_scores_cut_at_80(scale: float) -> None:
    target, y = _case(3, sampled=False, scale=scale)
    _evaluate(target, y)
    scores = (y @ target.embedding.t())[:, 1:].numpy()
    sums = np.exp(scores.clip(-80, 80)).sum(axis=1)
    assert target.exact == pytest.approx(-target.example.output_weights @ np.log(sums))
    assert (np.abs(scores).max() > 81) == (scale > 1)


@pytest.mark.parametrize("sampled", [False, True])
def test_derivatives_are_differences(sampled: bool) -> None:
    target, y = _case(2, sampled=sampled)
    result = _evaluate(target, y)
    assert result.deriv is not None
    assert target.embedding_deriv is not None
    for matrix, deriv in ((y, result.deriv), (target.embedding, target.embedding_deriv.clone())):
        for place in np.ndindex(*matrix.shape):
            kept, step = float(matrix[place]), 1e-6
            values = []
            for moved in (kept + step, kept - step):
                matrix[place] = moved
                values.append(sum(_by_definition(target, y)))
            matrix[place] = kept
            assert float(deriv[place]) == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-5)


@pytest.mark.parametrize("sampled", [False, True])
def test_rows_in_blocks_give_the_same(sampled: bool) -> None:
    results = []
    for most in (10**9, 25):
        target, y = _case(3, sampled=sampled)
        options = RnnlmObjectiveOptions(den_term_limit=0.0, max_logprob_elements=most)
        results.append((_evaluate(target, y, options), target))
    (one, first), (other, second) = results
    assert one.stats.numbers() == pytest.approx(other.stats.numbers())
    assert first.exact == pytest.approx(second.exact)
    torch.testing.assert_close(one.deriv, other.deriv)
    torch.testing.assert_close(first.embedding_deriv, second.embedding_deriv)


def test_the_limit_makes_the_denominators_derivative_smaller() -> None:
    target, y = _case(4, sampled=False, scale=3.0)
    free = _evaluate(target, y)
    average = free.stats.auxiliary / free.stats.weight
    assert average < -2
    limited = _evaluate(target, y, RnnlmObjectiveOptions(den_term_limit=-2.0))
    assert limited.stats == free.stats
    assert free.deriv is not None
    assert limited.deriv is not None
    weights = torch.from_numpy(target.example.output_weights).double()
    right = target.embedding[torch.from_numpy(target.example.output_words).long()] * weights[:, None]
    torch.testing.assert_close(limited.deriv - right, (free.deriv - right) * (-2.0 / average))


def test_with_sampling_the_limit_takes_groups_one_by_one() -> None:
    """The first group's sum alone is compared with all weights, so its factor is larger (facts: rescoring 7)."""
    target, y = _case(5, sampled=True, scale=3.0)
    free, limited = _evaluate(target, y), _evaluate(target, y, RnnlmObjectiveOptions(den_term_limit=-0.6))
    rows = CHUNKS * GROUP
    total = free.stats.weight
    weights = torch.from_numpy(target.example.output_weights).double()
    inverse = torch.from_numpy(target.example.sample_inv_probs).double().view(-1, SAMPLES)
    running = 0.0
    for group in range(2):
        part = slice(group * rows, (group + 1) * rows)
        scores = y[part] @ target.embedding[target.sampled_words[group]].t()
        q = torch.where(scores < 0, scores.exp(), scores + 1) * inverse[group]
        running -= float((weights[part] @ q).sum())
        kappa = -0.6 / (running / total) if running / total < -0.6 else 1.0
        assert free.deriv is not None
        assert limited.deriv is not None
        words = target.sampled_words[group][torch.from_numpy(target.example.output_words[part]).long()]
        right = target.embedding[words] * weights[part, None]
        torch.testing.assert_close(limited.deriv[part] - right, (free.deriv[part] - right) * kappa)


def test_other_targets_and_options_are_refused() -> None:
    matrix = MatrixTarget("output", np.zeros((1, 3), np.int32), torch.zeros(1, 2))
    with pytest.raises(TrainingError, match="for words of RNNLMs, got a MatrixTarget"):
        RnnlmObjective().evaluate(matrix, [torch.zeros(1, 2)], rng=RandomSource(0), with_derivs=False)
    with pytest.raises(TrainingError, match="must be 0 or below"):
        RnnlmObjectiveOptions(den_term_limit=-0.5)
