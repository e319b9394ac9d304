"""Normalization graphs: Kaldi's own from Kaldi's denominator graphs, and the worked example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, load_fst
from nnet3.training.chain.graphs.chunks import FrameCutter
from nnet3.training.chain.graphs.fst_changes import sorted_by_label, trimmed
from nnet3.training.chain.graphs.normalization import NormalizationWeights, make_normalization_fst, scaled
from tests.chain.graphs.path_costs import WORKED_GRAPH, WORKED_GRAPH as GRAPH, language, slow_initial
from tests.shared_data import golden_cases


def _sorted_arcs(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Sources, labels and destinations (arcs, 3), and costs, in one order."""
    order = np.lexsort((fst.cost, fst.dst, fst.ilabel, fst.src))
    return np.column_stack([fst.src, fst.ilabel, fst.dst])[order], fst.cost[order]


@pytest.mark.parametrize("case", golden_cases("chain", "normalization.fst"), ids=lambda case: case.name)
def test_golden_graphs_are_made_again(case: Path) -> None:
    denominator, expected = load_fst(str(case / "den.fst")), load_fst(str(case / "normalization.fst"))
    made = make_normalization_fst(denominator, slow_initial(denominator))
    assert made.start == expected.start
    np.testing.assert_allclose(made.final, expected.final, atol=1e-5)
    arcs, costs = _sorted_arcs(made)
    their_arcs, their_costs = _sorted_arcs(expected)
    np.testing.assert_array_equal(arcs, their_arcs)
    np.testing.assert_allclose(costs, their_costs, atol=1e-5)


def test_a_worked_example_has_its_states_arcs_and_costs() -> None:
    initial = slow_initial(GRAPH)
    np.testing.assert_allclose(initial, [0.01, 0.5753337, 0.4146663], atol=1e-7)
    fst = make_normalization_fst(GRAPH, initial)
    assert fst.start == 2
    arcs, costs = _sorted_arcs(fst)
    assert arcs.tolist() == [[0, 1, 0], [0, 3, 1], [1, 1, 0], [1, 2, 1], [2, 1, 0], [2, 2, 1], [2, 3, 1]]
    expected = [0.693147, 0.916291, 0.693147, 1.20397, 1.24595, 2.08425, 1.4691]
    np.testing.assert_allclose(costs, expected, atol=1e-5)
    np.testing.assert_allclose(fst.final, [0, 0, 0.552805], atol=1e-5)


def test_scaling_multiplies_costs_and_keeps_what_is_no_path() -> None:
    half = scaled(GRAPH, 0.5)
    np.testing.assert_allclose(half.cost, GRAPH.cost / 2)
    np.testing.assert_allclose(half.final[2], GRAPH.final[2] / 2)
    assert np.isinf(scaled(GRAPH, 0).final[:2]).all()
    assert scaled(GRAPH, 1) is GRAPH


def test_states_without_initial_probability() -> None:
    with pytest.raises(TrainingError, match="must have an initial probability above 0"):
        make_normalization_fst(GRAPH, [0.5, 0, 0.5])


pytest.importorskip("kaldifst")
NORMALIZATION = make_normalization_fst(WORKED_GRAPH, slow_initial(WORKED_GRAPH))


def _sausage(sets: list[list[int]]) -> Fst:
    """Any of the labels of each set, one after the other."""
    src = [t for t, labels in enumerate(sets) for _ in labels]
    count = len(sets)
    return Fst.from_arcs(0, [np.inf] * count + [0], src, np.array(src) + 1, [k for labels in sets for k in labels])


def test_worked_example_of_one_sequence() -> None:
    fst = NormalizationWeights(NORMALIZATION).weighted(_sausage([[1], [1], [3], [2]]))
    assert fst is not None
    assert fst.num_states == 5
    assert fst.cost.tolist() == pytest.approx([4.05936, 0, 0, 0], abs=1e-4)


def test_worked_example_of_many_sequences() -> None:
    fst = NormalizationWeights(NORMALIZATION).weighted(_sausage([[1, 2], [1, 2, 3], [1, 3], [1, 2]]))
    assert fst is not None
    assert (fst.num_states, fst.num_arcs) == (8, 12)
    assert sorted(fst.cost.tolist()) == pytest.approx(
        [0, 0, 0, 0, 0, 0, 0.223144, 0.223144, 0.510826, 0.510826, 3.325394, 4.163695], abs=1e-4
    )


def _random_sausage(random: np.random.Generator, frames: int) -> Fst:
    """With up to three states at each time, and costs."""
    counts = [1, *random.integers(1, 4, frames - 1).tolist(), 1]
    bases = np.cumsum([0, *counts])
    arcs = [
        (bases[t] + s, bases[t + 1] + d, int(random.integers(1, 4)), random.random())
        for t in range(frames)
        for s in range(counts[t])
        for d in range(counts[t + 1])
        if random.random() < 0.8
    ]
    final = np.full(bases[-1], np.inf)
    final[-1] = 0
    src, dst, label, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, final, src, dst, label, cost)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0])
def test_weighted_paths_cost_the_sum_of_both_graphs(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    supervision = _random_sausage(random, 5)
    weighted = NormalizationWeights(NORMALIZATION, scale).weighted(supervision)
    theirs = language(NORMALIZATION, 5)
    expected = {k: cost + scale * theirs[k] for k, cost in language(supervision, 5).items() if k in theirs}
    if weighted is None:
        assert not expected
        return
    found = language(weighted, 5)
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=3e-3)
    assert weighted.start == 0
    assert (weighted.dst > weighted.src).all()


@pytest.mark.parametrize("seed", range(20))
def test_end_to_end(seed: int) -> None:
    random = np.random.default_rng(seed)
    src, dst = random.integers(0, 4, (2, 9))
    costs = random.random(9)
    cyclic = Fst.from_arcs(1, [np.inf, np.inf, 0.5, 0], src, dst, random.integers(1, 4, 9), costs)
    weighted = NormalizationWeights(NORMALIZATION).weighted_end_to_end(cyclic)
    theirs, mine = language(NORMALIZATION, 4), language(cyclic, 4)
    expected = {labels: cost + theirs[labels] for labels, cost in mine.items() if labels in theirs}
    found = language(weighted, 4) if weighted is not None else {}
    assert found.keys() == expected.keys()
    assert all(found[labels] == pytest.approx(cost, abs=1e-4) for labels, cost in expected.items())
    assert weighted is None or weighted.start == 0


def test_sequences_that_the_graph_does_not_have() -> None:
    weights = NormalizationWeights(NORMALIZATION)
    assert weights.weighted(_sausage([[7], [7]])) is None
    assert weights.weighted_end_to_end(_sausage([[7]])) is None


@pytest.mark.parametrize("seed", range(20))
def test_cutting_keeps_the_paths_between(seed: int) -> None:
    random = np.random.default_rng(seed)
    fst = _random_sausage(random, 6)
    cutter = FrameCutter(fst) if (np.bincount(fst.dst, minlength=fst.num_states)[1:] > 0).all() else None
    if cutter is None:
        return
    assert cutter.num_frames == 6
    part = cutter.cut(2, 3)
    starts, ends = np.flatnonzero(cutter.time == 2), np.flatnonzero(cutter.time == 5)
    expected: dict[tuple[int, ...], float] = {}
    for start in starts.tolist():
        final = np.full(fst.num_states, np.inf)
        final[ends] = 0
        between = Fst.from_arcs(start, final, fst.src, fst.dst, fst.ilabel, fst.cost)
        for labels, cost in language(between, 3).items():
            expected[labels] = min(cost, expected.get(labels, np.inf))
    found = language(part, 3)
    assert found.keys() == expected.keys()
    assert all(found[labels] == pytest.approx(cost, abs=1e-5) for labels, cost in expected.items())


def test_cutting_what_is_not_there() -> None:
    cutter = FrameCutter(_sausage([[1], [2]]))
    for first, count in ((0, 3), (-1, 1), (0, 0)):
        with pytest.raises(TrainingError, match="there are no frames"):
            cutter.cut(first, count)


@pytest.mark.parametrize(
    "fst",
    [
        Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 1, 0], [1, 2, 2], [1, 1, 1]),
        Fst.from_arcs(1, [0.0, np.inf], [1], [0], [1]),
        Fst.from_arcs(0, [np.inf, 0.0], [0, 1], [1, 1], [1, 1]),
        Fst.from_arcs(0, [np.inf, 0.0, 0.0], [0], [1], [1]),
    ],
)
def test_cutting_needs_states_in_order_of_time(fst: Fst) -> None:
    with pytest.raises(TrainingError, match="must be numbered by time"):
        FrameCutter(fst)


def test_trimming_drops_what_is_on_no_path() -> None:
    """What is on no path goes, states keep their order; nothing may be left, or nothing have to go."""
    fst = Fst.from_arcs(1, [np.inf, np.inf, np.inf, 0.5], [1, 1, 2, 0], [3, 2, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4])
    small = trimmed(fst)
    assert (small.start, small.final.tolist(), small.ilabel.tolist(), small.cost.tolist()) == (
        0,
        [np.inf, 0.5],
        [1],
        [1],
    )
    assert trimmed(small) is small
    nothing = trimmed(Fst.from_arcs(0, [np.inf, 0.0], [0], [0], [1], [1]))
    assert (nothing.num_states, nothing.num_arcs, nothing.start) == (0, 0, Fst.empty().start)
    assert trimmed(nothing).num_states == 0


def test_sorted_by_label() -> None:
    fst = sorted_by_label(Fst.from_arcs(0, [0, 0.0], [0, 0, 0], [1, 0, 0], [3, 1, 3], [1, 2, 3], [4, 5, 6]))
    assert fst.ilabel.tolist() == [1, 3, 3]
    assert fst.olabel.tolist() == [5, 4, 6]
    assert fst.cost.tolist() == [2, 1, 3]
