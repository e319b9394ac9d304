"""GraphBuilder: slices, what repeats, what is held once."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.export.graph import GraphBuilder
from tests.export.onnx_run import feature_input, run_graph

FEATURES = np.random.default_rng(0).standard_normal((2, 7, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("first", "count", "step"), [(0, 7, 1), (2, 3, 1), (1, 3, 2), (6, 7, -1), (5, 2, -3), (4, 1, 1)]
)
def test_rows(first: int, count: int, step: int) -> None:
    graph = GraphBuilder()
    x = feature_input(graph, 7, 3)
    found = run_graph(graph, graph.rows_of(x, first, count, step), x, FEATURES)
    np.testing.assert_array_equal(found, FEATURES[:, [first + i * step for i in range(count)]])


@pytest.mark.parametrize(("first", "count"), [(0, 8), (1, 4), (2, 2), (3, 2), (4, 4), (7, 1)])
def test_columns_of_parts_side_by_side(first: int, count: int) -> None:
    graph = GraphBuilder()
    x = feature_input(graph, 7, 3)
    value = graph.side_by_side([x, graph.filled(2.0, 7, 2), x])
    whole = np.concatenate([FEATURES, np.full((2, 7, 2), 2.0), FEATURES], axis=2)
    found = run_graph(graph, graph.columns_of(value, first, count), x, FEATURES)
    np.testing.assert_array_equal(found, whole[:, :, first : first + count])


def test_equal_rows_stay_one() -> None:
    graph = GraphBuilder()
    x = feature_input(graph, 7, 3)
    ones = graph.filled(1.0, 4, 3)
    assert graph.below_each_other([ones, ones]).is_repeated
    both = graph.combine("Add", ones, graph.filled(2.0, 4, 3))
    assert both.is_repeated
    assert both.rows == 4
    assert not graph.combine("Add", ones, graph.rows_of(x, 0, 4)).is_repeated
    np.testing.assert_array_equal(run_graph(graph, both, x, FEATURES), np.full((2, 4, 3), 3.0))


def test_equal_nodes_and_constants_are_one() -> None:
    graph = GraphBuilder()
    x = feature_input(graph, 7, 3)
    assert graph.rows_of(x, 1, 2) == graph.rows_of(x, 1, 2) != graph.rows_of(x, 1, 3)
    made: list[int] = []
    weights = [graph.weight("w", lambda: made.append(1) or np.ones(2)) for _ in range(2)]  # type: ignore[func-returns-value]
    assert weights[0] is weights[1]
    assert made == [1]
    assert graph.weight("v", lambda: np.ones(2)) is not weights[0]
