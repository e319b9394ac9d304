"""Transition probabilities and priors of counted transition-ids."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import NetworkError
from nnet3.hmm.estimating import estimate_transitions, pdf_priors
from nnet3.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.hmm.transition_model import TransitionModel
from nnet3.options import TransitionOptions

_ENTRY = TopologyEntry((TopologyState(0, 0, ((0, 0.5), (1, 0.5))), TopologyState()))
#: Three phones of one state with two transitions each; the last two have one pdf.
MODEL = TransitionModel(
    HmmTopology((_ENTRY,), np.array([-1, 0, 0, 0], np.int32)),
    [(1, 0, 0, 0), (2, 0, 1, 1), (3, 0, 1, 1)],
    [0.0, *np.log([0.5] * 6)],
)


def _counts(*values: float) -> np.ndarray:
    return np.array([0.0, *values])


def test_probabilities_are_shares() -> None:
    found = estimate_transitions(MODEL, _counts(3, 1, 10, 30, 1, 2), TransitionOptions(transition_min_count=4))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.75, 0.25, 0.25, 0.75, 0.5, 0.5], rtol=1e-6)
    gain = sum(n * np.log(p / 0.5) for n, p in ((3, 0.75), (1, 0.25), (10, 0.25), (30, 0.75)))
    assert found.gain == pytest.approx(gain / 47)
    assert (found.frames, found.skipped, found.floored) == (47, 1, 0)


def test_small_probabilities_are_raised() -> None:
    found = estimate_transitions(MODEL, _counts(99, 1, 1, 1, 1, 1), TransitionOptions(transition_floor=0.1))
    kept = np.exp(found.model.log_probs[1:3])
    assert kept[1] == pytest.approx(0.1)
    assert 0.89 < kept[0] < 0.91
    assert found.floored > 0


def test_states_of_one_pdf_share_their_counts() -> None:
    found = estimate_transitions(MODEL, _counts(3, 3, 10, 30, 30, 10), TransitionOptions(share_for_pdfs=True))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.5] * 6, rtol=1e-6)


def test_priors_are_shares_of_pdfs() -> None:
    np.testing.assert_allclose(pdf_priors(MODEL, _counts(1, 1, 2, 2, 1, 1), 0.0), [0.25, 0.75])
    np.testing.assert_allclose(pdf_priors(MODEL, _counts(0, 0, 2, 2, 1, 1), 0.25), [0.2, 0.8])
    with pytest.raises(NetworkError, match="no alignments"):
        pdf_priors(MODEL, _counts(0, 0, 0, 0, 0, 0), 0.0)


def test_states_with_other_numbers_of_transitions_share_nothing() -> None:
    once = TopologyEntry((TopologyState(0, 0, ((1, 1.0),)), TopologyState()))
    topology = HmmTopology((_ENTRY, once), np.array([-1, 0, 1], np.int32))
    model = TransitionModel(topology, [(1, 0, 0, 0), (2, 0, 0, 0)], [0.0, *np.log([0.5, 0.5, 1.0])])
    with pytest.raises(NetworkError, match="different numbers of transitions"):
        estimate_transitions(model, _counts(3, 1, 5), TransitionOptions(share_for_pdfs=True))
    found = estimate_transitions(model, _counts(3, 1, 5), TransitionOptions(transition_min_count=4))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.75, 0.25, 1.0], rtol=1e-6)
    assert (found.frames, found.skipped) == (9, 0)
