"""Goodness of pronunciation against its formula, one phone and one frame at a time."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import nnet3
from nnet3 import TransitionModel
from nnet3.errors import ArgumentError, ExecutionError
from nnet3.inference import pronunciation
from tests.effort import draws
from tests.hmm.topologies import one_state_phones, transition_models


def _posterior(row: Tensor, phone: int, model: TransitionModel) -> float:
    total = sum(math.exp(value) for value in row.tolist())
    pdfs = {pdf for own, _, *both in model.tuples.tolist() if own == phone for pdf in both}
    return sum(math.exp(row[pdf]) for pdf in pdfs) / total


@settings(max_examples=draws(25))
@given(transition_models(), st.integers(0, 10**6))
def test_scores_are_those_of_the_formula(model: TransitionModel, seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    frames = rng.randint(1, 8)
    scores = 3 * torch.randn(frames, model.num_pdfs, dtype=torch.float64) + rng.choice([0, 50])
    with_pdfs = sorted({row[0] for row in model.tuples.tolist()})
    alignment = sorted(rng.choices(with_pdfs, k=frames))
    found = nnet3.gop(scores, alignment, model, kind="phones")
    assert [each.phone for each in found] == list(dict.fromkeys(alignment))
    for each in found:
        own = range(each.first_frame, each.first_frame + each.num_frames)
        assert {alignment[t] for t in own} == {each.phone}
        means = {q: sum(math.log(_posterior(scores[t], q, model)) for t in own) / len(own) for q in with_pdfs}
        assert each.log_posterior == pytest.approx(means[each.phone], abs=1e-9)
        assert each.score == pytest.approx(means[each.phone] - max(means.values()), abs=1e-9)
        assert means[each.best] == pytest.approx(max(means.values()))
    assert sum(each.num_frames for each in found) == frames


@pytest.fixture
def model() -> TransitionModel:
    return one_state_phones()


def test_a_phone_that_follows_itself_is_told_apart_by_transition_ids(model: TransitionModel) -> None:
    scores = torch.log(torch.tensor([[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]))
    first, second, third = nnet3.gop(scores, [1, 2, 2, 6], model)
    assert (first.phone, first.first_frame, first.num_frames, first.best, first.score) == (1, 0, 2, 1, 0.0)
    assert first.log_posterior == pytest.approx((math.log(0.8) + math.log(0.6)) / 2)
    assert (second.phone, second.first_frame, second.num_frames, second.best) == (1, 2, 1, 2)
    assert second.score == pytest.approx(math.log(0.1) - math.log(0.8))
    assert (third.phone, third.score) == (3, 0.0)
    together, _ = nnet3.gop(scores, [1, 1, 1, 3], model, kind="phones")
    assert together.num_frames == 3


def test_long_utterances_are_computed_in_pieces(model: TransitionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = 400 * torch.randn(10, 3)  # probabilities that are too small for float32
    whole = nnet3.phone_log_posteriors(scores, model)
    torch.testing.assert_close(whole, scores.log_softmax(dim=1))
    monkeypatch.setattr(pronunciation, "_ROWS_AT_ONCE", 3)
    torch.testing.assert_close(nnet3.phone_log_posteriors(scores.numpy(), model), whole)


def test_what_does_not_fit_is_refused(model: TransitionModel) -> None:
    scores = torch.zeros(5, 3)
    with pytest.raises(ExecutionError, match=r"must be \(frames, 3\), a column for each pdf, got \(5, 4\)"):
        nnet3.gop(torch.zeros(5, 4), [2] * 5, model)
    with pytest.raises(ExecutionError, match="the alignment has 4 frames, but there are 5 log-likelihoods"):
        nnet3.gop(scores, [2] * 4, model)
    scores[3, 1] = -torch.inf
    with pytest.raises(ExecutionError, match="the log-likelihoods are not finite, first in row 3"):
        nnet3.gop(scores, [2] * 5, model)
    with pytest.raises(ArgumentError, match="the transition model"):
        nnet3.gop(scores, [2] * 5, "final.mdl")  # type: ignore[arg-type]
