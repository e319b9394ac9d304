"""Ranks follow arcs; delays, and arcs that close a circle, lead upwards."""

from __future__ import annotations

import pytest

from nnet3.base.drawing import Arc, Box, Graph
from nnet3.base.drawing.dot import rank_boxes
from nnet3.errors import DrawingError
from tests.drawing.pictures import small_graph


def test_ranks_follow_arcs_and_not_delays() -> None:
    ranks, upwards = rank_boxes(small_graph())
    assert ranks == {"input": 0, "ivector": 0, "affine": 1, "cell": 2, "self": 2, "range": 3, "output": 4}
    assert {(arc.a, arc.b) for arc in upwards} == {("range", "cell"), ("self", "cell")}


def test_an_input_stands_just_above_its_first_user() -> None:
    arcs = [Arc("a", "b"), Arc("b", "c"), Arc("late", "c")]
    ranks, _ = rank_boxes(Graph([Box(name, (name,)) for name in ("a", "b", "c", "late")], arcs))
    assert ranks["late"] == 1


def test_a_circle_without_delay_is_broken_somewhere() -> None:
    graph = Graph([Box(name, (name,)) for name in "abc"], [Arc("a", "b"), Arc("b", "c"), Arc("c", "a")])
    ranks, upwards = rank_boxes(graph)
    assert sorted(ranks.values()) == [0, 1, 2]
    assert len(upwards) == 1


def test_what_is_no_graph() -> None:
    with pytest.raises(DrawingError, match="there is no box 'b'"):
        Graph([Box("a", ())], [Arc("a", "b")])
    with pytest.raises(DrawingError, match="same id"):
        Graph([Box("a", ()), Box("a", ())], [])
