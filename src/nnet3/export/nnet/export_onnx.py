"""export_onnx: a network as an ONNX file."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from typing import Any

import torch

from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.onnx import OnnxOptions
from nnet3.errors import ExportError, check_kind
from nnet3.export.metadata import OnnxMetadata
from nnet3.export.nnet.file_forms import FrameRange, Utterances, chunk_of, utterances_of, vector_of, vectors_of
from nnet3.export.nnet.nnet_file import NnetFile
from nnet3.export.nnet.sources import Form, Source
from nnet3.export.nnet.streams import STATE, Streams, streams_of
from nnet3.export.nnet.wave import FRAMES, WAVE, read_wave
from nnet3.export.write_onnx import checked_target, write_onnx
from nnet3.inference.scores import Scoring, priors_of
from nnet3.model.edits import collapse_model
from nnet3.model.nnet import AcousticModel, Nnet, network_of
from nnet3.model.nnet.simple import what_is_simple


def export_onnx(
    model: Nnet | AcousticModel,
    path: str | os.PathLike[str],
    frames_per_chunk: int | None = None,
    streaming: bool = False,
    quantize: str | None = None,
    **options: Any,
) -> OnnxMetadata:
    """Writes a network as an ONNX file of standard operators; returns its metadata.

        nnet3.export_onnx(model, "model.onnx", frame_subsampling_factor=3)
        nnet3.export_onnx(model, "chunks.onnx", frames_per_chunk=150, frame_subsampling_factor=3)
        nnet3.export_onnx(model, "stream.onnx", frames_per_chunk=21, streaming=True, frame_subsampling_factor=3)

    The file takes utterances of any length; with `frames_per_chunk` chunks with the frames of context on either side;
    with `streaming` chunks of streams, with the state going in and coming out. `input` is (batch, frames, dim),
    `ivector` (batch, dim) if the network has one, `output` (batch, rows, dim). With `features`, such as
    "mfcc:conf/mfcc.conf", the file takes samples of audio, `wave` (batch, samples), and computes the features itself.
    Options are the fields of `OnnxOptions`; docs/onnx.md says how a client feeds the file.

    Before the file is kept, onnxruntime runs the file on random input, and results must agree with nnet3 to 1e-4; with
    `quantize`, "int8" or "fp16", results must agree before weights are made smaller, and the error is measured after.
    Weights of more than 2 GB lie in a second file, with ".data" after the name. Raises ExportError, and leaves nothing
    behind, for networks without a form in ONNX.
    """
    check_kind(model, (Nnet, AcousticModel), "what is exported", "a network or an acoustic model")
    given = {"frames_per_chunk": frames_per_chunk, "streaming": streaming, "quantize": quantize}
    settings = OnnxOptions.named(**options, **{name: value for name, value in given.items() if value is not None})
    nnet = network_of(model)
    outputs = _outputs(nnet, settings)
    dim = nnet.node_dim("input")
    source = read_wave(settings.features, dim) if settings.features else Source(dim)
    target = checked_target(path)
    network = _as_float32(nnet).in_test_mode()
    merged = network.in_test_mode()
    collapse_model(merged)
    form = streams_of(network, settings) if settings.streaming else _form(merged, settings, outputs)
    about = _metadata(model, nnet, form, source, outputs, settings)
    scoring = Scoring(priors_of(model).cpu() if settings.use_priors else None, settings.acoustic_scale)
    return write_onnx(NnetFile(network, merged, form, source, scoring, about), target, settings.quantize)


def _form(nnet: Nnet, options: OnnxOptions, outputs: tuple[str, ...]) -> FrameRange | Utterances:
    if options.vector:
        return vector_of(nnet, options.frames_per_chunk) if options.frames_per_chunk else vectors_of(nnet, outputs)
    return chunk_of(nnet, options) if options.frames_per_chunk else utterances_of(nnet, options, outputs)


def _outputs(nnet: Nnet, options: OnnxOptions) -> tuple[str, ...]:
    if not nnet.is_simple:
        raise ExportError(f"only a simple network can be exported: {what_is_simple(nnet.parts)}")
    for name, component in nnet.components.items():
        if component.inference_only:
            raise ExportError(f"component '{name}' cannot be exported: {component.inference_only}")
    names = tuple(name.strip() for item in options.outputs for name in item.split(","))
    wrong = [name for name in names if name not in nnet.output_names]
    if wrong or len(set(names)) < len(names):
        raise ExportError(f"outputs must be some of {', '.join(nnet.output_names)}, each once, got {', '.join(names)}")
    if options.features and {WAVE, FRAMES} & set(names):
        raise ExportError(f"an output cannot have the name of an input of samples, got {', '.join(names)}")
    return names


def _as_float32(nnet: Nnet) -> Nnet:
    """Returns the network itself, or a copy if its parameters are of another type or elsewhere."""
    tensors = [tensor for component in nnet.components.values() for tensor in component.parameters().values()]
    fits = all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
    return nnet if fits else nnet.copy().to(dtype=torch.float32, device="cpu")


def _metadata(
    model: Nnet | AcousticModel,
    nnet: Nnet,
    form: Form,
    source: Source,
    outputs: tuple[str, ...],
    options: OnnxOptions,
) -> OnnxMetadata:
    return OnnxMetadata(
        version=version("nnet3"),
        digest=_digest(model),
        **form.sizes(),
        **source.sizes(form),
        state=_state(form, source),
        frame_subsampling_factor=options.frame_subsampling_factor,
        input_dim=nnet.node_dim("input"),
        ivector_dim=nnet.node_dim("ivector") if "ivector" in nnet.input_names else 0,
        output_dims={name: nnet.node_dim(name) for name in outputs},
        opset=options.opset,
        use_priors=options.use_priors,
        log_softmax=options.log_softmax,
        acoustic_scale=options.acoustic_scale,
        quantize="none",
        error=0.0,
    )


def _digest(model: Nnet | AcousticModel) -> str:
    """Returns the SHA-256 of a model as it would be written, binary."""
    writer = Writer.of_file(True)
    model.write_to(writer)
    return hashlib.sha256(writer.getvalue()).hexdigest()


def _state(form: Form, source: Source) -> dict[str, list[int]]:
    """Returns the shapes of the state of a stream, in the order of the inputs."""
    shapes: dict[str, tuple[int, ...]] = source.state(form)
    if isinstance(form, Streams):
        shapes |= {f"{STATE}{name}": shape for name, shape in form.state_shapes.items()}
    return {name: list(shape) for name, shape in shapes.items()}
