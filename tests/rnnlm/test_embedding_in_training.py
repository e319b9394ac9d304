"""The embedding's step by the formulas: l2, max-change, momentum, backstitch, features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.base.options.rnnlm import EmbeddingOptions
from nnet3.kaldi_io import SparseMatrix
from nnet3.training.rnnlm.embedding_in_training import EmbeddingInTraining
from tests.rnnlm.small_minibatches import WORDS, minibatch

DIM, RATE = 4, 0.1
PLAIN = EmbeddingOptions(learning_rate=RATE, use_natural_gradient=False, max_param_change=0.0)


def _matrix(rows: int = WORDS) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).normal(size=(rows, DIM)))


def _step(
    options: EmbeddingOptions, features: SparseMatrix | None = None, *, sampled: bool = False, **way: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the change of the embedding by a derivative of ones, (rows, DIM), and the active rows."""
    before = _matrix(WORDS if features is None else features.cols)
    embedding = EmbeddingInTraining(before.clone(), options, features)
    target = embedding.target(minibatch(np.random.default_rng(1), sampled=sampled))
    assert target.embedding_deriv is not None
    target.embedding_deriv += 1
    embedding.step(target, **way)
    return embedding.matrix - before, torch.arange(WORDS) if embedding.active is None else embedding.active


def test_plain_steps_are_the_rate_times_the_derivative() -> None:
    change, _ = _step(PLAIN)
    torch.testing.assert_close(change, torch.full_like(change, RATE))
    change, active = _step(PLAIN, sampled=True)
    assert 0 < len(active) < WORDS
    torch.testing.assert_close(change[active], torch.full_like(change[active], RATE))
    assert float(change.abs().sum()) == pytest.approx(RATE * len(active) * DIM)


def test_l2_draws_to_zero() -> None:
    change, _ = _step(EmbeddingOptions(**PLAIN.values() | {"l2_regularize": 0.3}))
    torch.testing.assert_close(change, RATE * (1 - 2 * 0.3 * _matrix()))


def test_steps_are_no_longer_than_max_change() -> None:
    change, _ = _step(EmbeddingOptions(**PLAIN.values() | {"max_param_change": 0.25}))
    assert float(change.norm()) == pytest.approx(0.25)


def test_backstitch_goes_back_and_further_forward() -> None:
    options = EmbeddingOptions(**PLAIN.values() | {"backstitch_training_scale": 0.4, "l2_regularize": 0.3})
    torch.testing.assert_close(_step(options, back=True)[0], -0.4 * RATE * (1 - 2 * 0.3 * _matrix()))
    torch.testing.assert_close(_step(options, forward=True)[0], 1.4 * RATE * (1 - 2 * 0.3 / 1.4 * _matrix()))


def test_momentum_goes_on() -> None:
    options = EmbeddingOptions(**PLAIN.values() | {"momentum": 0.5})
    embedding = EmbeddingInTraining(_matrix(), options)
    for number in range(2):
        target = embedding.target(minibatch(np.random.default_rng(1), sampled=False))
        assert target.embedding_deriv is not None
        target.embedding_deriv += 1 - number  # nothing the second time
        embedding.step(target)
    torch.testing.assert_close(embedding.matrix - _matrix(), torch.full((WORDS, DIM), RATE * (0.5 + 0.25)).double())


@pytest.mark.parametrize("sampled", [True, False])
def test_features_share_the_derivative_of_their_words(sampled: bool) -> None:
    ids = np.arange(WORDS, dtype=np.int32) % 3
    features = SparseMatrix(WORDS, 3, np.arange(WORDS + 1), ids, np.full(WORDS, 0.5, np.float32))
    change, active = _step(PLAIN, features, sampled=sampled)
    counts = torch.bincount(active % 3, minlength=3)
    torch.testing.assert_close(change, (RATE * 0.5 * counts)[:, None].expand(-1, DIM).double())


def test_words_are_called_by_their_places_among_active_ones() -> None:
    embedding = EmbeddingInTraining(_matrix(), None)
    example = minibatch(np.random.default_rng(1), sampled=True)
    target = embedding.target(example)
    assert embedding.active is not None
    assert embedding.active[target.input_words].tolist() == example.input_words.tolist()
    assert embedding.active[target.sampled_words].flatten().tolist() == example.sampled_words.tolist()
    torch.testing.assert_close(target.embedding, _matrix()[embedding.active])


def test_the_log_says_how_much_has_changed() -> None:
    embedding = EmbeddingInTraining(_matrix(), PLAIN)
    embedding.matrix *= 1.5
    lines = embedding.lines()
    assert lines[0] == "Processed a total of 0 minibatches.max-change was enforced 0 % of the time."
    assert lines[2] == "Relative change in embedding matrix is 0.5"


def test_the_log_says_how_often_steps_were_shortened() -> None:
    embedding = EmbeddingInTraining(_matrix(), EmbeddingOptions(**PLAIN.values() | {"max_param_change": 0.25}))
    for deriv in (1, 1e-3):
        target = embedding.target(minibatch(np.random.default_rng(1), sampled=False))
        assert target.embedding_deriv is not None
        target.embedding_deriv += deriv
        embedding.step(target)
    assert embedding.lines()[0] == "Processed a total of 2 minibatches.max-change was enforced 50 % of the time."
