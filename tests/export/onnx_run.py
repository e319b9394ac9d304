"""Runs the nodes that a builder has collected in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime

from nnet3.export.graph import GraphBuilder, OnnxValue


def feature_input(graph: GraphBuilder, rows: int, columns: int) -> OnnxValue:
    """Returns an input `x` (batch, rows, columns), which says what the batch is."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["batch", rows, columns]))
    graph.batch = graph.op("Shape", x, start=0, end=1)
    return graph.value(x, rows, columns)


def run_graph(graph: GraphBuilder, value: OnnxValue, x: OnnxValue, features: np.ndarray) -> np.ndarray:
    """Returns a value for features (batch, rows, columns) in the place of x."""
    output = ir.Value(name="found", type=ir.TensorType(ir.DataType.FLOAT))
    graph.tape.op("Identity", [graph.whole(value)], output=output)
    nodes, initializers = graph.tape.nodes, graph.tape.initializers
    made = ir.Graph([x.parts[0]], [output], nodes=nodes, initializers=initializers, opset_imports={"": 18})
    model = ir.serde.serialize_model(ir.Model(made, ir_version=8)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": features.astype(np.float32)})[0]
