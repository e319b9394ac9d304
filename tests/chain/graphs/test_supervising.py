"""Supervision of utterances: all sequences of transition-ids that keep to the times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnet3.chain.graphs.supervising import supervise
from nnet3.chain.graphs.time_limits import allowed_phones
from nnet3.chain.graphs.timed_phones import phones_of_durations
from nnet3.errors import TrainingError
from nnet3.options import SupervisingOptions, Tolerances
from tests.chain.graphs.path_costs import language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize("pairs", [[(1, 4), (2, 8)], [(4, 5), (3, 4), (1, 3)], [(3, 2), (3, 6), (4, 3)]], ids=str)
def test_all_ways_to_say_the_phones(pairs: Sequence[tuple[int, int]], convert: bool) -> None:
    hmms, phones = small_hmms(), phones_of_durations(pairs)
    tolerances = Tolerances(2, 3, 3)
    made = supervise(phones, hmms, SupervisingOptions(tolerances, convert_to_pdfs=convert))
    allowed, model = allowed_phones(phones, tolerances), hmms.model
    frames = len(allowed)
    expected = {
        ids
        for ids in id_sequences(hmms, linear([phone for phone, _ in pairs]), 0.0, frames)
        if len(ids) == frames and all(allowed[t, model.phone(np.array([k]))[0]] for t, k in enumerate(ids))
    }
    assert expected
    if convert:
        expected = {tuple((model.pdf(np.array(ids)) + 1).tolist()) for ids in expected}
    found = language(made.fsts[0], frames)
    assert found.keys() == expected
    assert set(found.values()) == {0.0}
    assert (made.weight, made.num_sequences, made.frames_per_sequence, made.end_to_end) == (1.0, 1, frames, False)
    assert made.label_dim == (model.num_pdfs if convert else model.num_transition_ids)


def test_by_default_labels_are_pdfs() -> None:
    assert supervise(phones_of_durations([(1, 3)]), small_hmms(), SupervisingOptions()).label_dim == 12


def test_what_cannot_be_supervised() -> None:
    with pytest.raises(TrainingError, match="the transition model has no phone 9"):
        supervise(phones_of_durations([(9, 3)]), small_hmms(), SupervisingOptions())
    with pytest.raises(TrainingError, match="its phones do not fit into 1 output frames"):
        supervise(phones_of_durations([(1, 1), (2, 1)]), small_hmms(), SupervisingOptions(Tolerances(5, 5, 3)))
    for scale in (-0.1, 1.0, float("nan")):
        with pytest.raises(TrainingError, match=r"lm_scale must be (a finite number|>= 0 and < 1)"):
            SupervisingOptions(lm_scale=scale)
