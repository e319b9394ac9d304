"""RnnlmTrainer: it learns, goes on from its state, and skips what is not finite; embeddings in all forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nnet3 import Nnet
from nnet3.base.options.rnnlm import EmbeddingOptions, RnnlmStepOptions
from nnet3.errors import TrainingError
from nnet3.kaldi_io import SparseMatrix
from nnet3.training.rnnlm.trainer import RnnlmTrainer
from nnet3.training.rnnlm.word_features import word_embedding
from tests.rnnlm.small_minibatches import WORDS, minibatch

DIM = 6
XCONFIG = """input dim=6 name=input
relu-renorm-layer name=tdnn1 dim=6 input=Append(0, IfDefined(-1))
output-layer name=output include-log-softmax=false dim=6 param-stddev=0.3
"""


def _network() -> Nnet:
    nnet = Nnet.from_xconfig(XCONFIG)
    nnet.set_learning_rate(0.02)
    return nnet


def _matrix(rows: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).normal(size=(rows, DIM)).astype(np.float32))


def _features() -> SparseMatrix:
    """Two features a word, one of its own and one of every third word; none of word 0."""
    ids = [each for word in range(1, WORDS) for each in (word % 3, 3 + word)]
    indptr = np.append(0, np.arange(WORDS) * 2)
    return SparseMatrix(WORDS, 3 + WORDS, indptr, np.array(ids, np.int32), np.full(len(ids), 0.7, np.float32))


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("with_features", [True, False])
def test_it_learns(sampled: bool, with_features: bool) -> None:
    features = _features() if with_features else None
    embedding = _matrix(3 + WORDS if with_features else WORDS)
    example = minibatch(np.random.default_rng(1), sampled=sampled)
    trainer = RnnlmTrainer(_network(), embedding, features, embedding_options=EmbeddingOptions(learning_rate=0.02))
    totals = []
    for _ in range(30):
        stats = trainer.train_minibatch(example).stats["output"]
        totals.append(stats.objective + stats.auxiliary)
    assert totals[-1] > totals[0] + 1
    if features is not None:
        assert word_embedding(features, embedding).shape == (WORDS, DIM)
        assert not word_embedding(features, embedding)[0].any()


def test_without_options_the_embedding_stays() -> None:
    embedding = _matrix(WORDS)
    trainer = RnnlmTrainer(_network(), embedding)
    trainer.train_minibatch(minibatch(np.random.default_rng(1), sampled=False))
    assert torch.equal(embedding, _matrix(WORDS))


@pytest.mark.parametrize("momentum", [0.0, 0.4])
def test_words_without_part_in_a_minibatch_stay_but_for_momentum(momentum: float) -> None:
    embedding = _matrix(WORDS)
    example = minibatch(np.random.default_rng(1), sampled=True)
    trainer = RnnlmTrainer(_network(), embedding, embedding_options=EmbeddingOptions(momentum=momentum))
    trainer.train_minibatch(example)
    others = np.setdiff1d(np.arange(WORDS), np.append(example.input_words, example.sampled_words))
    assert len(others)
    assert torch.equal(embedding[others], _matrix(WORDS)[others])
    assert not torch.equal(embedding, _matrix(WORDS))


def test_training_goes_on_from_its_state() -> None:
    examples = [minibatch(np.random.default_rng(seed), sampled=True) for seed in range(6)]
    options = RnnlmStepOptions(momentum=0.3), EmbeddingOptions(momentum=0.4, l2_regularize=0.01)
    nnets, embeddings = [_network() for _ in range(2)], [_matrix(WORDS) for _ in range(2)]
    one, other = (RnnlmTrainer(*pair, None, *options) for pair in zip(nnets, embeddings, strict=True))
    for example in examples[:3]:
        one.train_minibatch(example)
    state, contents = one.state(), one.contents()
    other.load_contents(contents)
    other.load_state(state)
    for example in examples[3:]:
        one.train_minibatch(example)
        other.train_minibatch(example)
    assert torch.equal(*embeddings)
    assert all(map(torch.equal, *(nnet.flat_parameters() for nnet in nnets)))


def test_what_is_not_finite_is_skipped_and_leaves_nothing() -> None:
    embedding, nnet = _matrix(WORDS), _network()
    trainer = RnnlmTrainer(nnet, embedding, None, None, EmbeddingOptions())
    example = minibatch(np.random.default_rng(1), sampled=False)
    trainer.train_minibatch(example)
    before = embedding.clone(), nnet.copy()
    weights = np.where(np.arange(len(example.output_weights)) == 1, np.inf, example.output_weights)
    result = trainer.train_minibatch(replace(example, output_weights=weights.astype(np.float32)))
    assert result.skipped is not None
    assert torch.equal(embedding, before[0])
    assert all(map(torch.equal, nnet.flat_parameters(), before[1].flat_parameters()))


def test_sizes_must_agree() -> None:
    with pytest.raises(TrainingError, match="the embedding has dimension 5"):
        RnnlmTrainer(_network(), _matrix(WORDS)[:, :5])
    with pytest.raises(TrainingError, match="have 14 columns, the embedding 11 rows"):
        RnnlmTrainer(_network(), _matrix(WORDS), _features())
    trainer = RnnlmTrainer(_network(), _matrix(WORDS + 1))
    with pytest.raises(TrainingError, match="the minibatch is of 11 words, the embedding of 12"):
        trainer.train_minibatch(minibatch(np.random.default_rng(1), sampled=False))
    with pytest.raises(TrainingError, match="backstitch needs momentum = 0"):
        EmbeddingOptions(momentum=0.5, backstitch_training_scale=0.2)
