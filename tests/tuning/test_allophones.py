"""Allophones stand for phones and a tree: the same supervision, for every topology."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.kaldi_io import Fst, Reader, open_int_vector_table, open_pair_table
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.options import SupervisingOptions, Tolerances
from nnet3.speech.tuning.allophones import allophone_hmms, allophones_of
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations
from tests.asr.toy_phones import chain_model
from tests.effort import draws
from tests.hmm.topologies import transition_models, walk
from tests.shared_data import GOLDEN, needs_shared

pytest.importorskip("kaldifst")
BIPHONE = GOLDEN / "chain" / "biphone"


@needs_shared
def test_supervision_is_that_of_the_tree() -> None:
    """Kaldi's alignments by a tree of biphones: allophones give the sequences of pdfs that phones and tree give.

    Tolerances are narrow, since a phone that comes twice is allowed at the times of both, an allophone at its own.
    """
    tree = ContextDependency.read(Reader.open(BIPHONE / "tree"))
    model = TransitionModel.read(Reader.open(BIPHONE / "0.trans_mdl"))
    hmms, options = allophone_hmms(model), SupervisingOptions(Tolerances(1, 1, 3))
    with open_pair_table(f"ark:{BIPHONE / 'lengths.ark'}") as table:
        phones = dict(table)
    compared = 0
    with open_int_vector_table(f"ark:{BIPHONE / 'ali.ark'}") as table:
        for key, ids in table:
            expected = supervise(phones_of_durations(phones[key]), PhoneHmms(tree, model), options)
            found = supervise(phones_of_durations(allophones_of(ids, model)), hmms, options)
            assert found.label_dim == expected.label_dim
            assert found.frames_per_sequence == expected.frames_per_sequence
            for name in ("offsets", "ilabel", "dst", "final"):
                np.testing.assert_array_equal(getattr(found.fsts[0], name), getattr(expected.fsts[0], name))
            compared += 1
    assert compared > 3


def test_transition_ids_and_pdfs_stay_what_they_are() -> None:
    model = chain_model()
    hmms = allophone_hmms(model)
    ids = model.transition_ids
    np.testing.assert_array_equal(hmms.model.pdf(ids), model.pdf(ids))
    np.testing.assert_array_equal(hmms.model.is_self_loop(ids), model.is_self_loop(ids))
    np.testing.assert_array_equal(hmms.model.phone(ids), model.transition_state(ids))
    np.testing.assert_array_equal(hmms.model.log_probs, model.log_probs)


def test_the_denominator_has_what_was_said_and_no_allophone_elsewhere() -> None:
    """Of the sequences 1 2 and 3 2 the graph has the pdfs of these; allophone 2 begins no sequence."""
    model = chain_model()
    hmms = allophone_hmms(model)
    fst = make_denominator_fst(hmms.tree, hmms.model, estimate_phone_lm([[1, 2], [3, 2]]))
    forward = {state: int(model.tuples[state - 1, 2]) + 1 for state in (1, 2, 3)}
    assert set(fst.ilabel.tolist()) == {int(pdf) + 1 for state in (1, 2, 3) for pdf in model.tuples[state - 1, 2:]}
    from_start = fst.ilabel[fst.offsets[fst.start] : fst.offsets[fst.start + 1]]
    assert set(from_start.tolist()) == {forward[1], forward[3]}


@settings(max_examples=draws(8))
@given(transition_models(), st.integers(0, 10**6))
def test_allophones_say_what_was_said_whatever_the_topology(model: TransitionModel, seed: int) -> None:
    """Phones of several states, with skips, with states without self-loops, with equal and with different pdfs."""
    ids, _, visits = walk(model, random.Random(seed), loops_follow=True)
    pdfs = model.pdf(np.array(ids))
    hmms, allophones = allophone_hmms(model), allophones_of(np.array(ids), model)
    if allophones[:, 1].tolist() != visits:  # nothing tells whether self-loops stand before or behind
        return
    supervision = supervise(phones_of_durations(allophones), hmms, SupervisingOptions(Tolerances(0, 0, 1)))
    assert supervision.label_dim == hmms.model.num_pdfs == model.num_pdfs
    assert is_accepted(supervision.fsts[0], pdfs + 1)
    if (allophones[1:, 0] != allophones[:-1, 0]).all():
        np.testing.assert_array_equal(supervision.fsts[0].ilabel, pdfs + 1)  # there is no other path
    denominator = make_denominator_fst(hmms.tree, hmms.model, estimate_phone_lm([allophones[:, 0]] * 2))
    assert is_accepted(denominator, pdfs + 1)
    assert set(denominator.ilabel.tolist()) <= {1 + int(pdf) for row in allophones[:, 0] for pdf in pdfs_of(model, row)}


def is_accepted(fst: Fst, labels: np.ndarray) -> bool:
    front = np.arange(fst.num_states) == fst.start
    for label in labels.tolist():
        arcs = front[fst.src] & (fst.ilabel == label)
        front = np.isin(np.arange(fst.num_states), fst.dst[arcs])
    return bool((fst.final[front] < np.inf).any())


def pdfs_of(model: TransitionModel, state: int) -> list[int]:
    """Returns the pdfs of a transition-state."""
    pdfs: list[int] = model.tuples[state - 1, 2:].tolist()
    return pdfs
