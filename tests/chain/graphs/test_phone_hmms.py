"""HMMs of phones in context: their pdfs, and alignments that Kaldi made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import Fst, Reader, open_int_vector_table
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.training.chain.graphs.expansion import transition_ids_of_phones
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms, TransitionTables
from tests.chain.graphs.path_costs import cost_of
from tests.chain.graphs.small_hmms import small_hmms
from tests.shared_data import golden_cases


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


def test_a_state_that_is_never_left() -> None:
    """The probability of its self-loop is 1, or by rounding a little more: all that follows is impossible."""
    model = small_hmms().model
    for log_prob in (0.0, 5e-5):
        log_probs = model.log_probs.copy()
        log_probs[1] = log_prob
        tables = TransitionTables(TransitionModel(model.topology, model.tuples, log_probs))
        assert tables.leaving_cost[1] == np.inf
        assert np.isfinite(tables.leaving_cost[2:]).all()
