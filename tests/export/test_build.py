"""Files hold what nodes of constants alone would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from nnet3.export.build import fold_constants
from nnet3.export.graph import GraphBuilder
from tests.export.exported import Exported
from tests.inference.stream_networks import network


@pytest.mark.parametrize("options", [{"frames_per_chunk": 14}, {}, {"frames_per_chunk": 7, "streaming": True}])
def test_no_node_of_a_file_has_constant_inputs_alone(options: dict[str, int], tmp_path: Path) -> None:
    graph = ir.load(Exported(network("lstm"), tmp_path, **options).path).graph
    for node in ir.traversal.RecursiveGraphIterator(graph):
        assert not node.inputs or any(v is None or v.name not in graph.initializers for v in node.inputs), node


def test_what_uses_a_folded_node_gets_its_value_but_large_ones_stay() -> None:
    builder = GraphBuilder()
    x = builder.tensor("x", [3])
    pair = builder.op("Add", builder.constant(np.ones(3, np.float32)), builder.constant(np.full(3, 2, np.float32)))
    twice = builder.op("Mul", pair, builder.constant(np.array(2, np.float32)))
    large = builder.op("Expand", builder.constant(np.array(1, np.float32)), builder.integers(10**6))
    results = [builder.op("Sub", x, twice), builder.op("Mul", large, x)]
    graph = ir.Graph(
        [x], results, nodes=builder.tape.nodes, initializers=builder.tape.initializers, opset_imports={"": 18}
    )
    fold_constants(graph)
    assert [node.op_type for node in graph] == ["Expand", "Sub", "Mul"]
    folded = graph[1].inputs[1]
    assert folded is not None
    assert folded.const_value is not None
    np.testing.assert_array_equal(folded.const_value.numpy(), [6, 6, 6])
