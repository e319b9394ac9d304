"""Options of RNNLMs: flags, defaults of Kaldi, what cannot be meant."""

from __future__ import annotations

import pytest

from nnet3.base.options.rnnlm import EmbeddingOptions, RnnlmObjectiveOptions, RnnlmOptions, RnnlmStepOptions
from nnet3.errors import ArgumentError, TrainingError


def test_defaults_are_kaldis() -> None:
    assert RnnlmStepOptions().trainer_options().max_param_change == 2.0
    assert RnnlmStepOptions().trainer_options().batchnorm_stats_scale == 1.0
    assert EmbeddingOptions().max_param_change == 1.0
    assert EmbeddingOptions().natural_gradient_rank == 80
    assert (RnnlmOptions().bos_symbol, RnnlmOptions().eos_symbol) == (-1, -1)


@pytest.mark.parametrize("limit", [-0.5, -0.1, 1.0])
def test_limits_near_zero_are_refused(limit: float) -> None:
    with pytest.raises(TrainingError, match="den_term_limit must be 0 or below"):
        RnnlmObjectiveOptions(den_term_limit=limit)


def test_symbols_are_numbers_of_words() -> None:
    with pytest.raises(ArgumentError, match="bos_symbol"):
        RnnlmOptions(bos_symbol=-2)
