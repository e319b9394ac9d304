"""build_model: an ONNX model of a program, with nodes of constants alone made constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass

from nnet3.decode import Scoring
from nnet3.export.emitters import EmittedKernels
from nnet3.export.forms import Utterances
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.metadata import FileMetadata, OnnxMetadata
from nnet3.export.program import ExportProgram, FixedProgram
from nnet3.export.sources import Form, Source
from nnet3.export.streams import Streams
from nnet3.export.translate import translate
from nnet3.nnet import Nnet

_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}  # the first for each opset, so that old engines read it


_MOST_BYTES = 2**16  # of a result: larger ones would make files larger


def fold_constants(graph: ir.Graph) -> None:
    """Replace nodes with initializers as their only inputs by the results, as initializers.

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


def build_model(nnet: Nnet, form: Form, source: Source, about: OnnxMetadata, scoring: Scoring) -> ir.Model:
    """Returns the model: inputs of a source and (batch, ivector dim), outputs (batch, rows, dim).

    Raises ExportError for what ONNX has no operators for.
    """
    graph = GraphBuilder()
    features, graph_inputs, state = source.feed(graph, form)
    graph.batch = graph.op("Shape", graph_inputs[0], start=0, end=1)
    rows_or_none = [] if about.form == "vector" else [about.output_rows or "rows"]
    outputs = {name: graph.tensor(name, ["batch", *rows_or_none, dim]) for name, dim in about.output_dims.items()}
    inputs: dict[str, OnnxValue] = {}
    rows = None
    if about.ivector_dim:
        ivector = graph.tensor("ivector", ["batch", about.ivector_dim])
        graph_inputs.append(ivector)
        inputs["ivector"] = graph.value(graph.op("Unsqueeze", ivector, graph.integers(1)), 1, about.ivector_dim)
    if isinstance(form, Streams):
        rows_made, state_inputs, after = form.build(graph, features, inputs.get("ivector"))
        graph_inputs += state_inputs
        state |= after
        values = {"output": rows_made}
    else:
        if isinstance(form, Utterances):
            program: ExportProgram = form.program
            inputs["input"], rows = form.padded(graph, features, about.input_dim)
        else:
            program = FixedProgram(form.computer(nnet, tuple(about.output_dims)).computation)
            inputs["input"] = graph.value(features, form.frames, about.input_dim)
        values = translate(graph, program, EmittedKernels(nnet.components), inputs)
    made_of = {}
    for name, output in outputs.items():
        value = _scored(graph, values[name], about, scoring) if name == "output" else values[name]
        whole = graph.whole(value)
        if rows is not None:
            whole = graph.op("Slice", whole, graph.integers(0), rows, graph.integers(1))
        if about.form == "vector":
            whole = graph.op("Squeeze", whole, graph.integers(1))
        made_of[output] = whole
    made_of |= state
    return finished(graph, graph_inputs, made_of, about)


def finished(
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


def _scored(graph: GraphBuilder, value: OnnxValue, about: OnnxMetadata, scoring: Scoring) -> OnnxValue:
    """Returns acoustic_scale * (y - log priors) of outputs y, or of their log-softmax."""
    value = graph.compact(value)
    if about.log_softmax:
        value = replace(value, parts=(graph.op("LogSoftmax", value.parts[0], axis=-1),))
    if scoring.log_priors is not None:
        priors = graph.row("log_priors", scoring.log_priors.numpy, value.rows, value.columns)
        value = graph.combine("Sub", value, priors)
    return graph.scaled(value, scoring.scale)
