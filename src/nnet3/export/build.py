"""model_of: an ONNX model of a graph, with nodes of constants alone made constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass

from nnet3.export.graph import GraphBuilder
from nnet3.export.metadata import FileMetadata

_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}  # the first for each opset, so that old engines read it
_MOST_BYTES = 2**16  # of a result: larger ones would make files larger


def fold_constants(graph: ir.Graph) -> None:
    """Replaces nodes with initializers as their only inputs by the results, as initializers.

    Nodes of a body that need none of the body's inputs stand in the graph itself: `GraphBuilder` puts them there.
    """
    outputs = set(graph.outputs)
    for node in graph:
        given = {
            str(value.name): value.const_value.numpy()
            for value in node.inputs
            if value is not None and value.const_value is not None
        }
        if (
            len(node.outputs) != 1
            or not given
            or any(value is None or value.name not in given for value in node.inputs)
        ):
            continue
        old = node.outputs[0]
        if old in outputs:
            continue
        evaluator = ReferenceEvaluator(ir.serde.serialize_node(node), opsets=graph.opset_imports)
        found: Any = evaluator.run(None, given)
        array = np.asarray(found[0])
        if array.nbytes > _MOST_BYTES:
            continue
        tensor = ir.tensor(array, name=old.name)
        new = ir.Value(name=old.name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        ir.convenience.replace_all_uses_with(old, new)
        graph.remove(node, safe=True)
        graph.register_initializer(new)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in outputs:
            del graph.initializers[name]


def model_of(
    graph: GraphBuilder, inputs: Sequence[ir.Value], made_of: Mapping[ir.Value, ir.Value], about: FileMetadata
) -> ir.Model:
    """Returns the model of a graph; `made_of` has the tensor behind each output."""
    for output, tensor in made_of.items():
        graph.tape.op("Identity", [tensor], output=output)
    made = ir.Graph(
        inputs, list(made_of), nodes=graph.tape.nodes, initializers=graph.tape.initializers,
        opset_imports={"": about.opset}, name="nnet3",
    )  # fmt: skip
    model = ir.Model(
        made,
        ir_version=_IR_VERSIONS[about.opset],
        producer_name="nnet3",
        producer_version=about.version,
        doc_string=about.note or None,
        metadata_props=about.to_properties(),
    )
    fold_constants(made)
    RemoveUnusedNodesPass()(model)
    return model
