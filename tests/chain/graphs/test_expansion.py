"""HMMs in the place of phones: what sequences of transition-ids cost, from the transition model alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.chain.graphs.expansion import transition_ids_of_phones, windows_of_phones
from nnet3.chain.graphs.phone_hmms import PhoneHmms, TransitionTables
from nnet3.errors import TrainingError
from nnet3.hmm.transition_model import TransitionModel
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import Fst, Reader, open_int_vector_table
from tests.chain.graphs.path_costs import cost_of, language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms
from tests.shared_data import golden_cases


def _phones(random: np.random.Generator) -> Fst:
    """An acceptor of up to five states whose arcs lead upwards."""
    states = int(random.integers(2, 6))
    src, dst = np.sort(random.integers(0, states, (2, int(random.integers(1, 9)))), axis=0)
    up = src < dst
    final = np.where(random.random(states) < 0.5, random.random(states), np.inf)
    return Fst.from_arcs(0, final, src[up], dst[up], random.integers(1, 4, up.sum()), random.random(up.sum()))


@pytest.mark.parametrize("shape", [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("seed", range(8))
def test_windows_of_all_sequences(shape: tuple[int, int], seed: int) -> None:
    width, central = shape
    phones = _phones(np.random.default_rng(seed))
    fst, windows = windows_of_phones(phones, width, central)
    made = {
        tuple(tuple(windows[label - 1].tolist()) for label in labels): cost
        for labels, cost in language(fst, phones.num_states).items()
    }
    expected = {}
    for sequence, cost in language(phones, phones.num_states).items():
        padded = (0,) * central + sequence + (0,) * (width - 1 - central)
        expected[tuple(padded[k : k + width] for k in range(len(sequence)))] = cost
    assert made.keys() == expected.keys()
    for key, cost in expected.items():
        assert made[key] == pytest.approx(cost, abs=1e-6)


def test_loops() -> None:
    """A phone that may be repeated for ever has itself on its left."""
    fst, windows = windows_of_phones(Fst.from_arcs(0, [0.0], [0], [0], [7]), 2, 1)
    assert windows.tolist() == [[0, 7], [7, 7]]
    assert language(fst, 3).keys() == {(), (1,), (1, 2), (1, 2, 2)}


def _phones_of(alignment: np.ndarray, model: TransitionModel) -> list[int]:
    """The phones of an alignment: a new one begins where the first HMM state is left (and on its self-loops not)."""
    enters = (model.hmm_state(alignment) == 0) & ~model.is_self_loop(alignment)
    return model.phone(alignment[enters]).tolist()


@pytest.mark.parametrize("case", golden_cases("chain", "ali.ark"), ids=lambda case: case.name)
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_alignments_cost_what_their_transitions_do(case: Path, scale: float) -> None:
    """Kaldi's alignments are accepted, at the cost of all their transitions together."""
    model = TransitionModel.read(Reader.open(case / "0.trans_mdl"))
    hmms = PhoneHmms(ContextDependency.read(Reader.open(case / "tree")), model)
    for _, alignment in list(open_int_vector_table(f"ark:{case}/ali.ark"))[:3]:
        phones = _phones_of(alignment, model)
        count = len(phones)
        linear = Fst.from_arcs(0, [np.inf] * count + [0.25], range(count), range(1, count + 1), phones)
        fst = transition_ids_of_phones(linear, hmms, scale)
        expected = 0.25 - scale * float(model.log_prob(alignment).sum())
        assert cost_of(fst, tuple(alignment.tolist())) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("case", golden_cases("chain", "tree"), ids=lambda case: case.name)
def test_pdfs_of_many_windows(case: Path) -> None:
    tree = ContextDependency.read(Reader.open(case / "tree"))
    windows = np.random.default_rng(1).integers(0, 9, (60, tree.context_width))
    for pdf_class in (0, 1, 5):
        many = tree.pdf_of_each(windows, pdf_class)
        single = [tree.pdfs(dict(enumerate(window)), pdf_class) or {-1} for window in windows.tolist()]
        assert [{pdf} for pdf in many.tolist()] == single


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("phones", [[1], [3], [4], [1, 1, 2], [4, 3], [3, 4], [2, 1, 4]], ids=str)
def test_all_sequences_of_small_hmms(phones: list[int], scale: float) -> None:
    hmms = small_hmms()
    found = language(transition_ids_of_phones(linear(phones), hmms, scale), 5)
    expected = id_sequences(hmms, linear(phones), scale, 5)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_sequences_of_graphs_of_phones(seed: int) -> None:
    """With epsilons, costs and several ways to say the same."""
    hmms, random = small_hmms(), np.random.default_rng(seed)
    src, dst = np.sort(random.integers(0, 4, (2, 7)), axis=0)
    up = src < dst
    final = [np.inf, random.random(), np.inf, random.random()]
    phones = Fst.from_arcs(0, final, src[up], dst[up], random.integers(0, 5, up.sum()), random.random(up.sum()))
    found = language(transition_ids_of_phones(phones, hmms, 1.0), 4)
    expected = id_sequences(hmms, phones, 1.0, 4)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=1e-5)


def test_what_are_no_phones() -> None:
    hmms = small_hmms()
    assert transition_ids_of_phones(Fst.empty(), hmms, 1.0).num_states == 0
    for phone in (0, 5, 9):
        with pytest.raises(TrainingError, match=f"the transition model has no phone {phone}"):
            hmms.entries(np.array([1, phone]))
    with pytest.raises(TrainingError, match="must be an acceptor"):
        transition_ids_of_phones(Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], [0.0], [2]), hmms, 1.0)


def test_a_state_that_is_never_left() -> None:
    """The probability of its self-loop is 1, or by rounding a little more: all that follows is impossible."""
    model = small_hmms().model
    for log_prob in (0.0, 5e-5):
        log_probs = model.log_probs.copy()
        log_probs[1] = log_prob
        tables = TransitionTables(TransitionModel(model.topology, model.tuples, log_probs))
        assert tables.leaving_cost[1] == np.inf
        assert np.isfinite(tables.leaving_cost[2:]).all()
