"""Making minibatches: every word once with its weight, pieces of long sentences, rows, samples."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from nnet3.base.options.rnnlm import RnnlmEgsOptions
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Reader
from nnet3.training.rnnlm.example import RnnlmExample, fault_of
from nnet3.training.rnnlm.making import RnnlmExampleMaker
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from nnet3.training.rnnlm.sentences import Sentences, parse_sentences
from tests.rescoring_data import RNNLM_CASES, needs_rescoring
from tests.rnnlm.golden_texts import SAMPLED, names, sentences

OPTIONS = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=8)


def _pieces(example: RnnlmExample) -> list[tuple[float, tuple[int, ...], int]]:
    """Returns pieces as weight, words with <s> or <brk> before them, and how many words are context."""
    shape = example.chunk_length, example.num_chunks
    inputs, outputs, weights = (
        each.reshape(shape).T for each in (example.input_words, example.output_words, example.output_weights)
    )
    found = []
    for row in range(shape[1]):
        firsts = [*np.flatnonzero(np.isin(inputs[row], [1, 3])).tolist(), shape[0]]
        for first, end in pairwise(firsts):
            own = weights[row, first:end]
            if own.any():
                words = (inputs[row, first], *outputs[row, first:end].tolist())
                assert inputs[row, first + 1 : end].tolist() == list(words[1:-1])
                found.append((float(own.max()), tuple(map(int, words)), int((own == 0).sum())))
    return found


@needs_rescoring
@pytest.mark.parametrize("case", RNNLM_CASES, ids=lambda case: case.name)
def test_minibatches_have_each_sentence_as_kaldis_have(case: Path) -> None:
    given = sentences(case)
    examples = list(RnnlmExampleMaker(max(names(case)) + 1, OPTIONS).minibatches(given))
    total = sum(float(example.output_weights.sum()) for example in examples)
    assert total == float((given.weights * (np.diff(given.starts) + 1)).sum())
    pieces = [piece for example in examples for piece in _pieces(example)]
    whole = Counter(
        (float(given.weights[k]), (1, *given.words[given.starts[k] : given.starts[k + 1]].tolist(), 2), 0)
        for k in range(len(given))
        if given.starts[k + 1] - given.starts[k] < 16
    )
    assert not whole - Counter(pieces)
    cut = [piece for piece in pieces if piece[1][0] == 3]
    assert all(context >= 3 for _, _, context in cut)
    assert all(fault_of(example) == "" for example in examples)
    assert {example.num_samples for example in examples} == {512}


def _sentences(*lengths: int) -> Sentences:
    return parse_sentences("\n".join(f"1 {'5 ' * length}" for length in lengths).encode(), "text")


def test_long_sentences_are_cut_into_pieces_with_context() -> None:
    """40 words and </s> in rows of 16 with 3 of context: 41 - 3 = 2 * 13 + 12; one piece gets 12, the first 3 more."""
    for seed in range(5):
        options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=8, seed=seed)
        (example,) = RnnlmExampleMaker(9, options).minibatches(_sentences(40))
        sizes = [len(words) - 1 - context for _, words, context in _pieces(example)]
        assert sorted(sizes) in ([12, 13, 16], [13, 13, 15])
        assert sum(sizes) == 41
        assert len(_pieces(example)) == 3


def test_space_left_over_becomes_context() -> None:
    options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=8, seed=1)
    (example,) = RnnlmExampleMaker(9, options).minibatches(_sentences(17))
    first, second = sorted(_pieces(example), key=lambda piece: piece[1][0])
    assert first[1][0] == 1
    assert second[1][0] in (1, 3)
    assert len(second[1]) - 1 == 16 or second[1][0] == 1


def test_a_minibatch_is_done_when_five_pieces_in_a_row_found_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pieces of 10 words one fits into a row of 16."""
    rng = mock.Mock(integers=mock.Mock(return_value=0))
    maker = RnnlmExampleMaker(9, RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=1))
    monkeypatch.setattr(maker, "_rng", rng)
    example = next(maker.minibatches(_sentences(*[9] * 20)))
    assert len(_pieces(example)) == 1
    assert rng.integers.call_count == 1 + 5


def test_small_buffers_and_full_rows() -> None:
    options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=2, chunk_buffer_size=3)
    examples = list(RnnlmExampleMaker(9, options).minibatches(_sentences(*[15] * 9)))
    assert [len(_pieces(example)) for example in examples] == [2, 2, 2, 2, 1]


@needs_rescoring
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_samples_have_all_outputs(case: Path) -> None:
    lm = Reader.open(case / "sampling.lm").whole(SamplingLm.read)
    options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=8, num_samples=40)
    plain = list(RnnlmExampleMaker(len(lm.unigrams), options).minibatches(sentences(case)))
    for example in list(RnnlmExampleMaker(len(lm.unigrams), options, lm).minibatches(sentences(case)))[:4]:
        assert fault_of(example) == ""
        words = example.sampled_words.reshape(8, 40)
        assert (np.diff(words) > 0).all()
        assert (example.sample_inv_probs >= 0.999999).all()
        outputs = np.take_along_axis(words, example.output_words.reshape(8, 16), axis=1)
        assert set(outputs.ravel().tolist()) <= set(range(1, len(lm.unigrams)))
    assert plain[0].sample_group_size == 1


def test_without_enough_words_nothing_is_sampled(caplog: pytest.LogCaptureFixture) -> None:
    lm = SamplingLm(np.full(9, 0.1, np.float32), [])
    options = RnnlmEgsOptions(chunk_length=16, num_chunks_per_minibatch=2, num_samples=20)
    (example,) = RnnlmExampleMaker(9, options, lm).minibatches(_sentences(3))
    assert not example.is_sampled
    assert "fewer words than --num-samples=20" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_length": 12}, "more than four times min_split_context, got 12 and 3"),
        ({"chunk_length": 33}, "a multiple of sample_group_size, got 33 and 2"),
        ({"num_samples": 200}, "num_samples must be 0 or at least 256"),
        ({"chunk_length": 2000000}, "must be at most 4194304, got 256000000 and 512000000"),
        ({"num_samples": 1 << 30}, "must be at most 4194304, got 4096 and 17179869184"),
        ({"brk_symbol": 2}, "the three symbols must differ, got 1, 2, 2"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        RnnlmEgsOptions(**options)
    with pytest.raises(TrainingError, match="must be words below --vocab-size=3"):
        RnnlmExampleMaker(3, RnnlmEgsOptions())
