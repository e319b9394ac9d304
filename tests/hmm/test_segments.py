"""Alignments cut into phones: Kaldi's lengths, and walks through random HMMs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from nnet3.errors import NetworkError
from nnet3.kaldi_io import open_int_vector_table, open_pair_table
from nnet3.model.hmm.segments import hmm_state_visits, phone_segments
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import load_transition_model
from tests.effort import draws
from tests.hmm.topologies import one_state_phones, transition_models, walk
from tests.shared_data import golden_cases, needs_shared


@needs_shared
def test_phones_and_their_lengths_are_those_of_kaldi() -> None:
    folders = [path for path in golden_cases("chain", "ali.ark") if (path / "lengths.ark").exists()]
    assert folders
    for folder in folders:
        model = load_transition_model(folder / "0.trans_mdl")
        with (
            open_int_vector_table(f"ark:{folder}/ali.ark") as alignments,
            open_pair_table(f"ark:{folder}/lengths.ark") as lengths,
        ):
            for (key, ids), (other, pairs) in zip(alignments, lengths, strict=True):
                assert key == other
                first, phones = phone_segments(ids, model, "transition-ids")
                found = np.stack([phones, np.diff(first, append=len(ids))], axis=1)
                np.testing.assert_array_equal(found, pairs)


@settings(max_examples=draws(25))
@given(transition_models(), st.integers(0, 10**6), st.booleans())
def test_walks_are_cut_where_a_phone_ends(model: TransitionModel, seed: int, loops_follow: bool) -> None:
    ids, lengths, visits = walk(model, random.Random(seed), loops_follow)
    loops, states = model.is_self_loop(np.array(ids)), model.transition_state(np.array(ids))
    telling = (states[1:] != states[:-1]) & (loops[1:] | loops[:-1])
    assume(telling.any() or not loops.any())
    first, phones = phone_segments(ids, model, "transition-ids")
    assert np.diff(first, append=len(ids)).tolist() == lengths
    assert phones.tolist() == model.phone(np.array(ids))[first].tolist()
    assert np.diff(hmm_state_visits(np.array(ids), model), append=len(ids)).tolist() == visits


def test_self_loops_that_tell_nothing_are_cut_off_as_by_kaldi() -> None:
    """Frames and phones that ali-to-phones wrote."""
    model = one_state_phones()
    ids = model.transition_ids
    loop, forward = (
        {int(model.phone(each)): int(each) for each in ids[model.is_self_loop(ids) == kind]} for kind in (True, False)
    )
    alignment = [forward[1]] + [loop[2] if each == "L" else forward[2] for each in "FLLLLFFLFFFLFF"]
    first, phones = phone_segments(alignment, model, "transition-ids")
    assert phones.tolist() == [1] + [2] * 8
    assert np.diff(first, append=len(alignment)).tolist() == [1, 1, 5, 1, 2, 1, 1, 2, 1]


def test_phones_and_pdfs_are_cut_into_runs() -> None:
    for alignment, kind in (([1, 1, 2, 1, 1, 3], "phones"), ([0, 0, 2, 0, 0, 1], "pdfs")):
        first, phones = phone_segments(alignment, one_state_phones((0, 2, 1)), kind)
        assert (first.tolist(), phones.tolist()) == ([0, 2, 3, 5], [1, 2, 1, 3])


@pytest.mark.parametrize(
    ("alignment", "kind", "message"),
    [
        ([], "phones", "one at least"),
        ([[1]], "phones", "integers"),
        ([1.5], "phones", "integers"),
        ([1, 999], "phones", "frame 1 of the alignment: there is no phone 999"),
        ([0], "transition-ids", "a transition-id must be in 1"),
        ([-1], "pdfs", "a pdf must be in 0"),
        ([1], "states", "must be one of transition-ids, pdfs, phones, got 'states'"),
    ],
)
def test_what_is_no_alignment_is_refused(alignment: list[int], kind: str, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        phone_segments(alignment, one_state_phones(), kind)


def test_a_pdf_of_several_phones_does_not_tell_the_phone() -> None:
    with pytest.raises(NetworkError, match="frame 1 of the alignment: pdf 5 is of 2 phones: give an alignment of tr"):
        phone_segments([0, 5], one_state_phones((0, 5, 5)), "pdfs")
