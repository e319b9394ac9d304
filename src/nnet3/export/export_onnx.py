"""export_onnx: a network as an ONNX file."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from nnet3.decode.scores import Scoring, priors_of
from nnet3.edits import collapse_model
from nnet3.errors import ExportError, check_kind
from nnet3.export.agreement import check_file, errors_of
from nnet3.export.build import build_model
from nnet3.export.forms import FrameRange, Utterances, chunk_of, utterances_of, vector_of, vectors_of
from nnet3.export.metadata import OnnxMetadata, model_digest
from nnet3.export.saving import checked_target, save_checked
from nnet3.export.smaller import WRITERS, set_metadata
from nnet3.export.sources import FeatureRows, Form, Source
from nnet3.export.streams import STATE, Streams, streams_of
from nnet3.export.wave import FRAMES, WAVE, read_wave
from nnet3.nnet import AcousticModel, Nnet, network_of
from nnet3.nnet.simple import what_is_simple
from nnet3.options import OnnxOptions


def export_onnx(
    model: Nnet | AcousticModel,
    path: str | os.PathLike[str],
    frames_per_chunk: int | None = None,
    streaming: bool = False,
    quantize: str | None = None,
    **options: Any,
) -> OnnxMetadata:
    """Write a network as an ONNX file of standard operators; returns its metadata.

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
    source: Source = read_wave(settings.features, dim) if settings.features else FeatureRows(dim)
    target = checked_target(path)
    network = _as_float32(nnet).in_test_mode()
    merged = network.in_test_mode()
    collapse_model(merged)
    form = streams_of(network, settings) if settings.streaming else _form(merged, settings, outputs)
    about = _metadata(model, nnet, form, source, outputs, settings)
    scoring = Scoring(priors_of(model).cpu() if settings.use_priors else None, settings.acoustic_scale)
    made = build_model(merged, form, source, about, scoring)

    def finished(file: Path) -> Path:
        nonlocal about
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same as of the merged network
            check_file(file, about, network, form, source, scoring)
            if settings.quantize == "none":
                return file
            smaller = file.with_suffix(".smaller")
            WRITERS[settings.quantize](file, smaller)
            error = max(errors_of(smaller, about, network, form, source, scoring).values())
        about = replace(about, quantize=settings.quantize, error=error)
        set_metadata(smaller, about)
        return smaller

    save_checked(made, target, finished)
    return about


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
        digest=model_digest(model),
        **_sizes(form, options),
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


def _state(form: Form, source: Source) -> dict[str, list[int]]:
    """Returns the shapes of the state of a stream, in the order of the inputs."""
    shapes: dict[str, tuple[int, ...]] = source.state(form)
    if isinstance(form, Streams):
        shapes |= {f"{STATE}{name}": shape for name, shape in form.state_shapes.items()}
    return {name: list(shape) for name, shape in shapes.items()}


def _sizes(form: Form, options: OnnxOptions) -> dict[str, Any]:
    """Returns the sizes of a call's inputs and outputs, a part of the metadata."""
    if isinstance(form, Streams):
        return {
            "form": "stream",
            "left_context": 0,
            "right_context": form.program.right_context,
            "first_frames": form.first_frames,
            "input_frames": form.program.frames_per_chunk,
            "output_rows": form.rows,
            "least_rows": form.rows,
            "rows_step": 0,
            "any_length": True,
        }
    is_chunk = isinstance(form, FrameRange)
    shortest = form if isinstance(form, FrameRange) else form.shortest
    return {
        "form": "vector" if options.vector else "chunk" if is_chunk else "utterance",
        "left_context": shortest.left if is_chunk else 0,
        "right_context": shortest.right if is_chunk else 0,
        "input_frames": shortest.frames if is_chunk else 0,
        "output_rows": shortest.rows if is_chunk or options.vector else 0,
        "least_rows": shortest.frames if options.vector else shortest.rows,
        "rows_step": 0 if isinstance(form, FrameRange) else form.step,
        "any_length": isinstance(form, Utterances) and form.pads,
    }
