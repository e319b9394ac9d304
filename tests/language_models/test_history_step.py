"""HistoryStep: one history at a time has what programs for many histories compute."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch

from nnet3.speech.language_models import word_histories
from nnet3.speech.language_models.history_step import HistoryStep
from tests.asr.small_rnnlm import WORDS, small_rnnlm
from tests.native.native_code import needs_native_code
from tests.seeds import shifted

pytestmark = needs_native_code


@pytest.mark.parametrize("kind", ["lstm", "tdnn"])
def test_as_many_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories of all lengths, those at the beginning of sentences too, whose states have fewer rows."""
    rng, rnnlm = np.random.default_rng(shifted(8)), small_rnnlm(kind)
    program = rnnlm._programs.program
    assert all(HistoryStep(program, index).is_native for index in range(len(program.chunks)))
    one_by_one, together = rnnlm.histories(), rnnlm.histories()
    for number in range(30):
        parent, word = int(rng.integers(max(number - 3, 0), number + 1)), int(rng.integers(1, WORDS))
        for table in (one_by_one, together):
            table.extend([parent], [word])
        one_by_one.log_prob(number + 1, 4)
    numbers = np.arange(31)
    with monkeypatch.context() as patch:
        patch.setattr(word_histories, "_MOST_STEPS", 0)
        expected = together.outputs(numbers)
    torch.testing.assert_close(one_by_one.outputs(numbers), expected, rtol=0, atol=2e-5)
    more = [table.log_probs(table.extend(numbers, np.full(31, 5))) for table in (one_by_one, together)]
    torch.testing.assert_close(*more, rtol=0, atol=1e-4)


def test_a_copy_has_steps_of_its_own() -> None:
    rnnlm = small_rnnlm("lstm")
    rnnlm.histories().log_prob(0, 4)
    for copy in (pickle.loads(pickle.dumps(rnnlm)), deepcopy(rnnlm)):
        assert copy.histories().log_prob(0, 4) == rnnlm.histories().log_prob(0, 4)
        assert copy._programs.step(0) is not rnnlm._programs.step(0)


def test_a_network_whose_rows_influence_each_other_is_not_stepped() -> None:
    rnnlm = small_rnnlm("batchnorm")
    assert rnnlm._programs.step(0) is None
    table = rnnlm.histories()
    table.extend([0, 0], [4, 5])
    assert np.isfinite([table.log_prob(number, 4) for number in (1, 2)]).all()
