"""FSTs that would never end, or be too large: refused, before OpenFst sees them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.options import Tolerances
from nnet3.training.chain.graphs.chunks import shortest_path, supervision_of_graph
from nnet3.training.chain.graphs.denominator_fst import pushed
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.openfst import OpenFst, without_epsilons
from nnet3.training.chain.graphs.supervising import allowed_phones
from nnet3.training.chain.graphs.timed_phones import phones_of_durations

pytest.importorskip("kaldifst")
LOOP = Fst.from_arcs(0, [0.0], [0], [0], [1], [0.5])


def test_cycles_of_epsilons_with_negative_costs() -> None:
    endless = Fst.from_arcs(0, [np.inf, 0.0], [0, 1, 0], [1, 0, 1], [0, 0, 3], [0.5, -1, 0])
    for use in (without_epsilons, OpenFst.of, NormalizationWeights(LOOP).weighted_end_to_end):
        with pytest.raises(TrainingError, match="a cycle of epsilons with a negative cost"):
            use(endless)


def test_other_cycles_of_epsilons() -> None:
    """Negative costs beside the cycle, and cycles that cost something, have an end."""
    fst = Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 1, 0, 1], [1, 0, 2, 2], [0, 0, 0, 3], [0.5, 0.25, -1, -1])
    clean = without_epsilons(fst)
    assert not clean.has_epsilons
    assert clean.final[clean.start] == -1


def test_supervision_with_cycles_that_is_not_end_to_end() -> None:
    with pytest.raises(TrainingError, match="must have no cycles"):
        NormalizationWeights(LOOP).weighted(LOOP)


@pytest.mark.parametrize(
    "fst", [Fst.from_arcs(0, [0.0], [0], [0], [0], [0.5]), Fst.from_arcs(0, [0.0], [0], [0], [1], [0.5], [2])]
)
def test_normalization_graphs_that_cannot_be(fst: Fst) -> None:
    with pytest.raises(TrainingError, match="must be an acceptor without epsilons"):
        NormalizationWeights(fst)


def test_costs_out_of_all_proportion() -> None:
    with pytest.raises(TrainingError, match="out of all proportion, or no path leads from state 0"):
        pushed(Fst.from_arcs(0, [np.inf, 0.0], [0, 0], [0, 1], [1, 2], [-1e38, 1]))


def test_utterances_that_are_too_long() -> None:
    with pytest.raises(TrainingError, match="it is too long: 2147483646 frames, phones up to 7"):
        allowed_phones(phones_of_durations([[7, 2**31 - 2]]), Tolerances())


def test_training_graphs_without_an_end() -> None:
    with pytest.raises(TrainingError, match="no path through the training graph ends"):
        supervision_of_graph(Fst.from_arcs(0, [np.inf], [0], [0], [1]), np.array([-1, 0]))
    with pytest.raises(TrainingError, match="no path of the supervision ends"):
        shortest_path(Fst.from_arcs(0, [np.inf], [0], [0], [1]))


def test_unsorted_arcs_are_sorted_before_they_are_composed() -> None:
    """kaldifst looks labels up in a table as long as a state's last label, 1 here, without asking how long it is."""
    labels = np.array([7, 5, 10**9, 10**9 + 1, 6, 0])
    said = Fst.from_arcs(0, [0.0], 0 * labels[:5], 0 * labels[:5], labels[:5])
    grammar = Fst.from_arcs(0, [np.inf, 0.5], 0 * labels, labels == 0, labels, np.arange(6.0))
    found = OpenFst.of(said).composed(OpenFst.of(grammar)).fst()
    cost_of = dict(zip(found.ilabel.tolist(), found.cost.tolist(), strict=True))
    assert cost_of == dict(zip(labels.tolist(), range(6), strict=True))
