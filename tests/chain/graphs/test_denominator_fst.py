"""Denominator graphs against Kaldi's own, by what counts: costs of label sequences and the denominator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, Reader, load_fst
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.options import PhoneLmOptions
from nnet3.training.chain.graphs import openfst
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.expansion import transition_ids_of_phones
from nnet3.training.chain.graphs.fst_changes import with_labels
from nnet3.training.chain.graphs.openfst import without_epsilons
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm
from tests.chain.graphs.path_costs import cost_of, log_add, random_sequence, slow_denominator
from tests.chain.graphs.small_hmms import small_hmms
from tests.shared_data import GOLDEN, golden_cases, needs_shared

CASES = golden_cases("chain", "tree", "0.trans_mdl", "phone_lm.fst", "den.fst")
LEAK = 0.1


def _tree_and_model(case: Path) -> tuple[ContextDependency, TransitionModel]:
    return ContextDependency.read(Reader.open(case / "tree")), TransitionModel.read(Reader.open(case / "0.trans_mdl"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_graphs_are_made_again(case: Path) -> None:
    """The same states and arcs in the same order, and so all costs and the denominator."""
    pytest.importorskip("kaldifst")
    made = make_denominator_fst(*_tree_and_model(case), load_fst(str(case / "phone_lm.fst")))
    expected = load_fst(str(case / "den.fst"))
    assert made.start == expected.start
    for name in ("offsets", "dst", "ilabel"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    for name in ("cost", "final"):
        np.testing.assert_allclose(getattr(made, name), getattr(expected, name), rtol=0, atol=1e-6)
    outputs = np.random.default_rng(7).normal(size=(30, expected.largest_label))
    ours, theirs = (slow_denominator(graph, outputs, LEAK) for graph in (made, expected))
    assert abs(ours[0] - theirs[0]) < 1e-5 * len(outputs)
    assert np.linalg.norm(ours[1] - theirs[1]) < 1e-5 * np.linalg.norm(theirs[1])


def test_a_graph_of_loops_and_states_without_emissions() -> None:
    """State for state what chain-make-den-fst made of HMMs with transitions back, and with a silent first state."""
    pytest.importorskip("kaldifst")
    hmms = small_hmms()
    phone_lm = estimate_phone_lm([[1, 2], [3, 4, 1], [2, 2], [4, 3]], PhoneLmOptions(2, 1, 0))
    made = make_denominator_fst(hmms.tree, hmms.model, phone_lm)
    assert made.start == 12
    assert made.offsets.tolist() == [0, 8, 16, 23, 31, 39, 47, 49, 57, 67, 75, 77, 79, 86]
    assert made.dst[:49].tolist() == [
        *(3, 0, 1, 5, 2, 6, 11, 0, 1, 4, 2, 3, 6, 10, 0, 1, 3, 1, 4, 2, 6, 10, 0, 1, 4, 2, 6, 10, 0, 3, 7),
        *(4, 3, 1, 5, 2, 6, 11, 0, 2, 0, 5, 3, 1, 5, 6, 11, 2, 6),
    ]
    assert made.ilabel[49:].tolist() == [
        *(10, 6, 12, 10, 6, 4, 3, 1, 9, 6, 12, 6, 4, 10, 6, 2, 10, 6, 8, 10, 6, 12, 2, 10, 6, 4, 9, 7, 8, 7),
        *(10, 6, 12, 10, 6, 4, 1),
    ]
    leaving = [2.3757, 0.918, 2.9535, 2.9226, 3.5802, 4.3381, 3.3718, 1.9727]
    np.testing.assert_allclose(made.cost[:8], leaving, rtol=0, atol=1e-4)
    ends = [1.6856, 1.8767, 1.1816, 1.6927, 1.6856, 1.6829, np.inf, 1.6927, 1.8693, 1.7557, np.inf, np.inf, 1.1816]
    np.testing.assert_allclose(made.final, ends, rtol=0, atol=1e-4)


def test_phones_that_are_not_in_the_model() -> None:
    pytest.importorskip("kaldifst")
    unknown = Fst.from_arcs(0, [0.0], [0], [0], [999], [0.5])
    with pytest.raises(TrainingError, match="the transition model has no phone 999"):
        make_denominator_fst(*_tree_and_model(CASES[0]), unknown)


@needs_shared
def test_tree_of_another_model() -> None:
    pytest.importorskip("kaldifst")
    tree, _ = _tree_and_model(GOLDEN / "chain/biphone")
    _, model = _tree_and_model(GOLDEN / "chain/mono")
    with pytest.raises(TrainingError, match="do the tree and the transition model belong together"):
        make_denominator_fst(tree, model, load_fst(str(GOLDEN / "chain/biphone/phone_lm.fst")))


def test_language_models_that_end_nowhere() -> None:
    pytest.importorskip("kaldifst")
    for model, message in (
        (Fst.empty(), "the phone language model is empty"),
        (Fst.from_arcs(0, [np.inf], [0], [0], [1], [0.5]), "no path through the phone language model ends"),
    ):
        with pytest.raises(TrainingError, match=message):
            make_denominator_fst(*_tree_and_model(CASES[0]), model)


def test_a_graph_of_small_hmms() -> None:
    """The costs of label sequences are those before the graph was made small, and every state is left for sure."""
    pytest.importorskip("kaldifst")
    hmms, random = small_hmms(), np.random.default_rng(0)
    sentences = [random.integers(1, 5, random.integers(2, 9)) for _ in range(30)]
    phone_lm = estimate_phone_lm(sentences, PhoneLmOptions(3, 2, 5))
    made = make_denominator_fst(hmms.tree, hmms.model, phone_lm)
    ids = transition_ids_of_phones(phone_lm, hmms, 1.0)
    large = without_epsilons(with_labels(ids, hmms.transitions.pdf_of_id[ids.ilabel] + 1))
    assert not made.has_epsilons
    assert made.num_states < large.num_states
    for _ in range(20):
        labels = random_sequence(large, random, 12)
        costs = [cost_of(graph, labels, log_add, ending=False) for graph in (made, large)]
        assert abs(costs[0] - costs[1]) < 0.05 * len(labels)
    leaving = np.bincount(made.src, np.exp(-made.cost), made.num_states) + np.exp(-made.final)
    np.testing.assert_allclose(leaving, leaving[0], rtol=1e-3)
    assert leaving[0] == pytest.approx(1, abs=0.02)
    degree = np.bincount(made.src, minlength=made.num_states) + np.bincount(made.dst, minlength=made.num_states)
    assert (np.diff(degree) <= 0).all()


def test_without_kaldifst_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openfst, "kaldifst", None)
    with pytest.raises(TrainingError, match=r"pip install 'nnet3\[chain\]'"):
        make_denominator_fst(*_tree_and_model(CASES[0]), Fst.empty())
