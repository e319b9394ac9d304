"""fold_constants: nodes of constants alone become constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

_MOST_BYTES = 2**16  # of a result: larger ones would make files larger


def fold_constants(graph: ir.Graph) -> None:
    """Replace nodes whose inputs are all initializers by what they give, as initializers.

    Those in bodies that need nothing of these stand in the graph itself: `GraphBuilder` puts them there.
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
