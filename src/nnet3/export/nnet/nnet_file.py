"""NnetFile: an nnet3 network as the contents of an ONNX file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch

from nnet3.export.agreement import Pair
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.metadata import OnnxMetadata
from nnet3.export.nnet.emitters import kernels_of
from nnet3.export.nnet.file_forms import FrameRange, Utterances, random_ivectors
from nnet3.export.nnet.sources import Form, Source
from nnet3.export.nnet.streams import PLACE, Streams
from nnet3.export.translate import translate
from nnet3.inference.scores import Scoring
from nnet3.inference.stream import StreamComputer
from nnet3.model.nnet import Nnet

_STREAMS = 2


@dataclass(frozen=True)
class NnetFile:
    """A network in a form, fed by a source, with scores.

    `network` is in test mode, and gives the outputs to compare with. `merged`, the network with batch-norm folded into
    neighbours, is written.
    """

    network: Nnet
    merged: Nnet
    form: Form
    source: Source
    scoring: Scoring
    about: OnnxMetadata

    def build(self, graph: GraphBuilder) -> tuple[list[ir.Value], dict[ir.Value, ir.Value]]:
        """Inputs are those of the source and (batch, ivector dim), outputs (batch, rows, dim).

        Raises ExportError for what ONNX has no operators for.
        """
        about, form = self.about, self.form
        features, graph_inputs, state = self.source.feed(graph, form)
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
            program = form.program_of(self.merged, tuple(outputs))
            inputs["input"], rows = form.padded(graph, features, about.input_dim)
            values = translate(graph, program, kernels_of(self.merged.components), inputs)
        made_of = {}
        for name, output in outputs.items():
            whole = graph.whole(self._scored(graph, values[name]) if name == "output" else values[name])
            if rows is not None:
                whole = graph.op("Slice", whole, graph.integers(0), rows, graph.integers(1))
            if about.form == "vector":
                whole = graph.op("Squeeze", whole, graph.integers(1))
            made_of[output] = whole
        return graph_inputs, made_of | state

    def _scored(self, graph: GraphBuilder, value: OnnxValue) -> OnnxValue:
        """Returns acoustic_scale * (y - log priors) of outputs y, or of their log-softmax."""
        value, log_priors = graph.compact(value), self.scoring.log_priors
        if self.about.log_softmax:
            value = replace(value, parts=(graph.op("LogSoftmax", value.parts[0], axis=-1),))
        if log_priors is not None:
            value = graph.combine("Sub", value, graph.row("log_priors", log_priors.numpy, value.rows, value.columns))
        return graph.scaled(value, self.scoring.scale)

    def compare(self, session: onnxruntime.InferenceSession) -> Iterator[Pair]:
        pairs = (
            self._streams(session, self.form) if isinstance(self.form, Streams) else self._ranges(session, self.form)
        )
        for name, found, rows in pairs:
            if name == "output":
                rows = self.scoring.apply(rows.log_softmax(1) if self.about.log_softmax else rows)
            yield name, found, rows.numpy()

    def _ranges(
        self, session: onnxruntime.InferenceSession, form: FrameRange | Utterances
    ) -> Iterator[tuple[str, np.ndarray, torch.Tensor]]:
        """Yields outputs for several batches and lengths; those of nnet3 before scoring."""
        random, dims = np.random.default_rng(0), self.about.output_dims
        for batch, frames, used in form.cases():
            given, features = self.source.random_input(random, form, batch, frames)
            ivectors = random_ivectors(self.network, random, batch)
            found = dict(zip(dims, session.run(list(dims), given | ivectors), strict=True))
            for sequence, own in enumerate(features):
                own = own if isinstance(form, FrameRange) else used.with_context(own)
                rows = used.compute(self.network, tuple(dims), own, *(each[sequence] for each in ivectors.values()))
                for name, expected in rows.items():
                    yield name, found[name][sequence].reshape(-1, dims[name]), expected

    def _streams(
        self, session: onnxruntime.InferenceSession, form: Streams
    ) -> Iterator[tuple[str, np.ndarray, torch.Tensor]]:
        """Yields outputs as `_ranges`, for enough chunks of streams that each program runs with every state."""
        random, program, nnet, state = np.random.default_rng(0), form.program, self.network, self.about.state
        streams = StreamComputer(
            nnet, program.frames_per_chunk, _STREAMS, program.frame_subsampling_factor,
            program.left_context - nnet.left_context,
        )  # fmt: skip
        opened = [streams.open() for _ in range(_STREAMS)]
        after = [*(np.zeros((_STREAMS, *shape), np.float32) for shape in state.values()), np.array(0)]
        calls = len(program.chunks) + len(program.cycle)
        for given, features in self.source.random_streams(random, form, _STREAMS, calls):
            ivectors = random_ivectors(nnet, random, _STREAMS)
            found, *after = session.run(None, {**given, **ivectors, **dict(zip([*state, PLACE], after, strict=True))})
            for row, stream in enumerate(opened):
                yield "output", found[row], stream.accept(features[row], *(each[row] for each in ivectors.values()))
