"""Sampling LMs are those of Kaldi: states, words, probabilities, and the counts that Kaldi loses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.options.rnnlm import SamplingLmOptions
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Reader
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from nnet3.training.rnnlm.sampling_lm_arpa import probability
from nnet3.training.rnnlm.sampling_lm_estimate import estimate_sampling_lm
from nnet3.training.rnnlm.sentences import Sentences, parse_sentences
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_texts import SAMPLED, sentences

MOST = 1e-6
OPTIONS = SamplingLmOptions(unigram_factor=20, bos_factor=2)  # those of both cases


def _rows(lm: SamplingLm) -> dict[tuple[int, ...], tuple[float, list[int], list[float]]]:
    """Returns back-off, words and probabilities of each history."""
    found = {}
    for states in lm.states:
        for history, number in states.numbers.items():
            part = slice(int(states.offsets[number]), int(states.offsets[number + 1]))
            found[history] = float(states.backoff[number]), states.words[part].tolist(), states.values[part].tolist()
    return found


@needs_rescoring
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["sampling.lm", "sampling.txt.lm"])
def test_models_are_kaldis(case: Path, name: str) -> None:
    wanted = Reader.open(case / name).whole(SamplingLm.read)
    found = estimate_sampling_lm(sentences(case), len(wanted.unigrams), 1, 2, OPTIONS)
    np.testing.assert_allclose(found.unigrams, wanted.unigrams, atol=MOST)
    ours, theirs = _rows(found), _rows(wanted)
    assert ours.keys() == theirs.keys()
    for history, (backoff, words, values) in ours.items():
        assert words == theirs[history][1]
        assert [backoff, *values] == pytest.approx([theirs[history][0], *theirs[history][2]], abs=MOST)


def _sentences(text: str) -> Sentences:
    return parse_sentences(text.encode(), "text")


def test_behind_each_history_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(4)
    lines = [f"1 {' '.join(map(str, rng.integers(3, 9, rng.integers(0, 9))))}" for _ in range(200)]
    for order in (1, 2, 3, 4):
        options = SamplingLmOptions(ngram_order=order, unigram_factor=1.5, backoff_factor=1.1, bos_factor=1.0)
        lm = estimate_sampling_lm(_sentences("\n".join(lines)), 9, 1, 2, options)
        assert lm.order == order
        assert lm.unigrams.sum() == pytest.approx(1)
        for states in lm.states:
            for history in states.numbers:
                assert sum(probability(lm, history, word) for word in range(9)) == pytest.approx(1)


def test_some_counts_at_beginnings_are_lost() -> None:
    """Words behind <s> are 3, 4, 5, 6: 3 and 4 are counted one at a time, 5 and 6 together; a fifth would wait."""
    options = SamplingLmOptions(
        ngram_order=3, discounting_constant=0.001, unigram_factor=3, backoff_factor=1, bos_factor=1e-3
    )
    four, five = "1 3\n1 4\n1 5\n1 6\n", "1 3\n1 4\n1 5\n1 6\n1 7\n"
    for text, seen in ((four, [3, 4, 5, 6]), (five, [3, 4, 5, 6])):
        states = estimate_sampling_lm(_sentences(text), 8, 1, 2, options).states[0]
        number = states.numbers[1,]
        assert states.words[states.offsets[number] : states.offsets[number + 1]].tolist() == seen


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TrainingError, match="no sentences"):
        estimate_sampling_lm(Sentences(*(np.zeros(n, np.int64) for n in (0, 0, 1))), 8, 1, 2, SamplingLmOptions())
    with pytest.raises(TrainingError, match="unigram_factor must be above backoff_factor"):
        SamplingLmOptions(unigram_factor=2)
    with pytest.raises(TrainingError, match="bos_factor must not be above"):
        SamplingLmOptions(bos_factor=200)
