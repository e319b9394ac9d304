"""Denominator graphs: where sequences begin, and what cannot be one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.kaldi_io.fst import Fst
from nnet3.train.chain import DenominatorGraph
from shared_data import golden_cases, needs_shared
from train.chain.chain_data import distance, fst_of, golden_graph, golden_minibatches, small_graph


def test_initial_probabilities_of_the_small_graph() -> None:
    np.testing.assert_allclose(small_graph().initial, [0.01, 0.5753337, 0.4146663], atol=5e-8)


@needs_shared
@pytest.mark.parametrize("path", golden_cases("chain"), ids=lambda path: path.name)
def test_golden_initial_probabilities(path: Path) -> None:
    first = next(golden_minibatches(path))
    wanted = torch.from_numpy(np.load(path / "arrays.npz")["initial_probs"])
    graph = golden_graph(path)
    assert distance(torch.from_numpy(graph.initial), wanted) < 1e-6
    assert graph.num_pdfs == first.target.supervision.label_dim


@pytest.mark.parametrize(
    ("fst", "message"),
    [
        (Fst.empty(), "is empty"),
        (fst_of([(0, 0, 0, 0.5)], [0.0]), "without epsilons"),
        (fst_of([(0, 0, 4, 0.5)], [0.0]), r"a pdf 3, it must be in 0..2"),
        (fst_of([(0, 1, 1, 0.5)], [np.inf, 0.0]), "no sequences of a hundred frames"),
        (fst_of([(0, 1, 1, 0.5)], [np.inf, np.inf]), "state 1 .* left with probability 0"),
        (fst_of([(0, 0, 1, -10.0)], [0.0]), "left with probability 2"),
        (fst_of([(0, 0, 1, -200.0)], [0.0]), "infinite"),
        (Fst.from_arcs(0, [0.0], [0], [0], [1], [0.5], [2]), "acceptor"),
    ],
)
def test_what_cannot_be_a_denominator_graph(fst: Fst, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        DenominatorGraph.from_fst(fst, 3)


def test_an_infinite_final_probability() -> None:
    with pytest.raises(TrainingError, match="left with probability inf"):
        DenominatorGraph.from_fst(fst_of([(0, 0, 1, 0.5)], [-1e30]), 3)
