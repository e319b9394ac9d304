"""Smaller files: weights of eight or sixteen bits; weights of features stay unchanged."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from nnet3.export.metadata import FileMetadata

#: Weights of features have names that begin so, which names of components cannot.
UNCHANGED = "wave:"
_FEWEST = 64  # elements of a weight that is worth it


def write_int8(path: Path, target: Path) -> None:
    """Writes a file where constant factors of products have eight bits, with a scale for each output.

    The other factor is quantized when the file runs, every time with a scale of its own. Both factors are unsigned:
    with signed weights, processors without VNNI add pairs of products in 16 bits, and the sums overflow.
    """
    graph = ir.load(path).graph
    sizes = {name: len(value.shape or ()) for name, value in graph.initializers.items()}
    products = [node for node in ir.traversal.RecursiveGraphIterator(graph) if node.op_type == "MatMul"]
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # it recommends a preprocessing that does nothing here
    try:
        quantize_dynamic(
            path,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QUInt8,
            nodes_to_exclude=[
                node.name
                for node in products
                if _factor(node).startswith(UNCHANGED) or sizes.get(_factor(node)) == 3  # its limit
            ],
            extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True, "WeightSymmetric": True},
        )
    finally:
        logging.root.setLevel(level)
    model = ir.load(target)
    model.graph.sort()  # the tool does not see what bodies of loops take from outside
    ir.save(model, target)


def _factor(product: ir.Node) -> str:
    """Returns the name of the second factor."""
    value = product.inputs[1]
    return "" if value is None else str(value.name)


def write_fp16(path: Path, target: Path) -> None:
    """Writes a file with float16 weights, each made float32 by a Cast: engines run the Cast once, at loading."""
    model = onnx.load(path)
    graph, casts = model.graph, []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < _FEWEST or tensor.name.startswith(UNCHANGED):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}_fp16"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], to=onnx.TensorProto.FLOAT))
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([*casts, *nodes])
    onnx.save(model, target)


WRITERS = {"int8": write_int8, "fp16": write_fp16}


def set_metadata(path: Path, about: FileMetadata) -> None:
    """Replaces the metadata of a file."""
    model = ir.load(path)
    model.metadata_props.clear()
    model.metadata_props.update(about.to_properties())
    ir.save(model, path)
