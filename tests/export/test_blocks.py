"""Blocks: reads after any writes are what a matrix that is written to holds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.engine.families.continued import NotAffineError
from nnet3.errors import ExportError
from nnet3.export.blocks import Blocks, Rectangle
from nnet3.export.extent import extent
from nnet3.export.graph import GraphBuilder
from tests.effort import draws
from tests.export.onnx_run import feature_input, run_graph

ROWS, COLUMNS = 7, 5
_ranges = [
    st.tuples(st.integers(0, n - 1), st.integers(1, n)).map(lambda p, n=n: (p[0], min(p[0] + p[1], n)))
    for n in (ROWS, COLUMNS)
]
places = st.builds(lambda rows, columns: Rectangle(*rows, *columns), *_ranges)


@settings(max_examples=draws(40))
@given(st.lists(st.tuples(places, st.booleans()), max_size=6), places)
def test_a_read_gives_what_was_written_last(writes: list[tuple[Rectangle, bool]], wanted: Rectangle) -> None:
    graph = GraphBuilder()
    x = feature_input(graph, 1, 1)
    blocks, matrix, random = Blocks(graph), np.zeros((ROWS, COLUMNS), np.float32), np.random.default_rng(0)
    blocks.write(1, Rectangle(0, ROWS, 0, COLUMNS), graph.filled(0.0, ROWS, COLUMNS))
    for place, is_constant in writes:
        shape = 1 if is_constant else place.bottom - place.top, place.right - place.left
        values = random.standard_normal(shape).astype(np.float32)
        matrix[place.top : place.bottom, place.left : place.right] = values
        value = graph.value(graph.constant(values[np.newaxis]), place.rows, shape[1], repeats=is_constant)
        blocks.write(1, place, value)
    found = run_graph(graph, blocks.read(1, wanted), x, np.zeros((1, 1, 1)))
    np.testing.assert_array_equal(found[0], matrix[wanted.top : wanted.bottom, wanted.left : wanted.right])


def test_what_was_not_written_cannot_be_read() -> None:
    graph = GraphBuilder()
    blocks = Blocks(graph)
    blocks.write(1, Rectangle(0, 3, 0, 2), graph.filled(0.0, 3, 2))
    with pytest.raises(ExportError, match=r"^rows 3 to 4 of matrix m1 are read before they are written$"):
        blocks.read(1, Rectangle(2, 4, 0, 2))


def test_rows_that_grow() -> None:
    graph = GraphBuilder()
    blocks, end = Blocks(graph), extent(5, 2)
    whole = graph.value(ir.Value(name="whole"), end, 3)
    blocks.write(1, Rectangle(0, end, 0, 3), whole)
    assert blocks.read(1, Rectangle(0, end, 0, 3)) == whole
    assert blocks.read(1, Rectangle(2, end - 1, 0, 3)).rows == extent(2, 2)
    with pytest.raises(NotAffineError, match="depends on how large"):
        blocks.read(1, Rectangle(0, 7, 0, 3))
