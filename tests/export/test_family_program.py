"""Tables that grow with the length, from a few of them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.families.polynomial import Polynomial
from nnet3.errors import ExportError
from nnet3.export.family_program import growing_patterns
from nnet3.export.gather import rows_by_number
from nnet3.export.graph import GraphBuilder
from tests.export.onnx_run import feature_input, run_graph


@pytest.mark.parametrize(
    "rows",
    [
        lambda k: np.arange(10 + k),
        lambda k: np.concatenate([np.full(3, -1), np.arange(10 + k), np.full(2, 9 + k)]),
        lambda k: np.repeat(np.arange(6 + k), 3),
        lambda k: 2 * np.arange(8 + k)[::-1],
        lambda k: np.stack([np.full(9 + k, -1), np.arange(9 + k), np.arange(9 + k) + 1], axis=1).ravel(),
    ],
    ids=["all", "with ends", "three times", "backwards", "with holes"],
)
def test_patterns_give_the_rows_of_every_length(rows) -> None:
    patterns = growing_patterns([rows(k) for k in range(3)])
    for k in (0, 1, 5, 12):
        graph = GraphBuilder()
        x = feature_input(graph, 40, 2)
        graph.periods = graph.op("Sub", graph.op("Shape", x.parts[0], start=1, end=2), graph.integers(40 - k))
        features = np.random.default_rng(0).standard_normal((2, 40, 2)).astype(np.float32)
        expected = np.where(rows(k)[:, np.newaxis] >= 0, features[:, rows(k)], 0.0)
        np.testing.assert_array_equal(run_graph(graph, rows_by_number(graph, x, patterns), x, features), expected)


def test_numbers_that_grow() -> None:
    pattern, *_ = growing_patterns([np.arange(k, 10 + 3 * k) for k in range(3)])
    assert isinstance(pattern.iterations, Polynomial) or isinstance(pattern.first[0], Polynomial)


def test_rows_without_rule_are_refused() -> None:
    with pytest.raises(ExportError, match="depend on the length in a way of their own"):
        growing_patterns([np.arange(10), np.arange(11), np.arange(20)])
