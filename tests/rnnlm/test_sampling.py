"""WordSampler: probabilities of the samples that Kaldi drew, and drawing by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.options.rnnlm import RnnlmEgsOptions
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Reader
from nnet3.training.rnnlm.example import RNNLM_EXAMPLES
from nnet3.training.rnnlm.sampling import WordSampler, at_most_one
from nnet3.training.rnnlm.sampling_lm import NgramStates, SamplingLm
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_texts import SAMPLED

OPTIONS = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=8, num_samples=40)


@needs_rescoring
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_sampled_words_have_kaldis_probabilities(case: Path) -> None:
    sampler = WordSampler(Reader.open(case / "sampling.lm").whole(SamplingLm.read), OPTIONS)
    with RNNLM_EXAMPLES.open(f"ark:{case / 'egs.ark'}") as table:
        for _, example in table:
            shape = example.chunk_length, example.num_chunks
            inputs, outputs = example.input_words.reshape(shape), example.output_words.reshape(shape)
            weights, words = example.output_weights.reshape(shape), example.sampled_words.reshape(-1, 40)
            for number, drawn in enumerate(words):
                group = slice(2 * number, 2 * number + 2)
                histories = sampler.histories(inputs, weights, group)
                probs = sampler.expectations(histories, drawn[outputs[group].ravel()])
                expected = 1 / example.sample_inv_probs.reshape(-1, 40)[number]
                np.testing.assert_allclose(probs[drawn], expected, atol=1e-6)
                assert probs.sum() == pytest.approx(40)


def _by_hand(weights: list[float], total: float) -> list[float]:
    """Fixes the largest weight at 1 for as long as the factor makes it that large."""
    probs, fixed = list(weights), list[int]()
    while True:
        rest = [index for index in range(len(weights)) if index not in fixed]
        factor = (total - len(fixed)) / sum(weights[index] for index in rest)
        top = max(rest, key=lambda index: weights[index])
        if factor * weights[top] < 1:
            return [1.0 if index in fixed else factor * probs[index] for index in range(len(weights))]
        fixed.append(top)


def test_probabilities_are_cut_at_one() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        weights = rng.exponential(size=12) ** 3
        found = at_most_one(weights, 5)
        assert found.tolist() == pytest.approx(_by_hand(weights.tolist(), 5))
        assert found.sum() == pytest.approx(5)
    assert at_most_one(np.array([0, 2.0, 1.0]), 2).tolist() == [0, 1, 1]


def _sampler(num_samples: int = 4) -> WordSampler:
    options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=1, num_samples=num_samples)
    return WordSampler(SamplingLm(np.array([0, 0, 1, 1, 1, 5, 9, 1], np.float32) / 18, []), options)


def test_words_are_drawn_as_often_as_they_should() -> None:
    sampler, rng = _sampler(), np.random.default_rng(6)
    probs = sampler.expectations({(): 1.0}, [4])
    assert probs[4] == 1
    counts = np.zeros(8)
    for _ in range(2000):
        drawn = sampler.draw(probs, rng)
        assert len(np.unique(drawn)) == 4
        assert (np.diff(drawn) > 0).all()
        counts[drawn] += 1
    np.testing.assert_allclose(counts / 2000, probs, atol=0.05)


def test_histories_end_at_the_beginnings_of_pieces() -> None:
    lm = SamplingLm(np.full(9, 0.1, np.float32), [])
    lm = SamplingLm(lm.unigrams, [_no_states(1), _no_states(2), _no_states(3)])
    sampler = WordSampler(lm, RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=1, num_samples=4))
    inputs = np.array([[1], [5], [6], [3], [7]])
    weights = np.array([[1], [0], [0.5], [1], [1]], np.float32)
    found = sampler.histories(inputs, weights, slice(0, 5))
    assert found == {(1,): 1, (1, 5, 6): 0.5, (3,): 1, (3, 7): 1}
    assert sampler.histories(inputs, np.zeros_like(weights), slice(0, 5)) == {(): 1.0}


def _no_states(length: int) -> NgramStates:
    nothing = np.zeros(0, np.int64)
    return NgramStates(np.zeros((0, length), np.int64), nothing, np.zeros(1, np.int64), nothing, nothing)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(TrainingError, match="4 words must be in a sample of 4"):
        _sampler().expectations({(): 1.0}, [2, 4, 5, 6, 6])
    assert _sampler().has_enough_words
    assert not _sampler(8).has_enough_words
