"""Normalization graphs: Kaldi's own from Kaldi's denominator graphs, and the worked example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.chain.graphs.normalization import make_normalization_fst, scaled
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, load_fst
from tests.chain.graphs.path_costs import WORKED_GRAPH as GRAPH
from tests.chain.graphs.path_costs import slow_initial
from tests.shared_data import golden_cases


def _sorted_arcs(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Sources, labels and destinations (arcs, 3), and costs, in one order."""
    order = np.lexsort((fst.cost, fst.dst, fst.ilabel, fst.src))
    return np.column_stack([fst.src, fst.ilabel, fst.dst])[order], fst.cost[order]


@pytest.mark.parametrize("case", golden_cases("chain", "normalization.fst"), ids=lambda case: case.name)
def test_golden(case: Path) -> None:
    denominator, expected = load_fst(str(case / "den.fst")), load_fst(str(case / "normalization.fst"))
    made = make_normalization_fst(denominator, slow_initial(denominator))
    assert made.start == expected.start
    np.testing.assert_allclose(made.final, expected.final, atol=1e-5)
    arcs, costs = _sorted_arcs(made)
    their_arcs, their_costs = _sorted_arcs(expected)
    np.testing.assert_array_equal(arcs, their_arcs)
    np.testing.assert_allclose(costs, their_costs, atol=1e-5)


def test_worked_example() -> None:
    initial = slow_initial(GRAPH)
    np.testing.assert_allclose(initial, [0.01, 0.5753337, 0.4146663], atol=1e-7)
    fst = make_normalization_fst(GRAPH, initial)
    assert fst.start == 2
    arcs, costs = _sorted_arcs(fst)
    assert arcs.tolist() == [[0, 1, 0], [0, 3, 1], [1, 1, 0], [1, 2, 1], [2, 1, 0], [2, 2, 1], [2, 3, 1]]
    expected = [0.693147, 0.916291, 0.693147, 1.20397, 1.24595, 2.08425, 1.4691]
    np.testing.assert_allclose(costs, expected, atol=1e-5)
    np.testing.assert_allclose(fst.final, [0, 0, 0.552805], atol=1e-5)


def test_scaled() -> None:
    half = scaled(GRAPH, 0.5)
    np.testing.assert_allclose(half.cost, GRAPH.cost / 2)
    np.testing.assert_allclose(half.final[2], GRAPH.final[2] / 2)
    assert np.isinf(scaled(GRAPH, 0).final[:2]).all()
    assert scaled(GRAPH, 1) is GRAPH


def test_states_without_initial_probability() -> None:
    with pytest.raises(TrainingError, match="must have an initial probability above 0"):
        make_normalization_fst(GRAPH, [0.5, 0, 0.5])
