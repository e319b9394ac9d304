"""Metadata in ONNX files, for clients that feed the files."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field, fields
from typing import TypeVar, get_origin, get_type_hints

import onnx
from google.protobuf.message import DecodeError

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.text import read_json
from nnet3.errors import ExportError, check_kind

_PREFIX = "nnet3."
Kind = TypeVar("Kind", bound="FileMetadata")


@dataclass(frozen=True)
class FileMetadata:
    """The metadata of a file, each value under its name after "nnet3.", as JSON."""

    version: str  # of this package
    digest: str  # SHA-256 of the model
    opset: int

    @property
    def note(self) -> str:
        """A sentence for whoever looks at the file, if there is something to know; the model's description."""
        return ""

    def to_properties(self) -> dict[str, str]:
        """Returns the metadata properties of a file."""
        return {f"{_PREFIX}{name}": json.dumps(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class OnnxMetadata(FileMetadata):
    """The metadata of a file, each value under its name after "nnet3.", as JSON.

    Output row r is of frame r * frame_subsampling_factor. Of a chunk, input frames begin `left_context` before frame 0
    and end `right_context` after the frame of the last row; before the first and after the last frame of an utterance
    the first and the last frame are repeated. A file for utterances repeats frames itself: its contexts are 0, and
    `input_frames` and `output_rows`, 0, stand for any number. Such a file computes `least_rows`, `rows_step` more, ...;
    if `any_length` is false, outputs for other lengths are the outputs of the utterance with its last frame repeated.
    In files for vectors, `least_rows` and `rows_step` count frames of input; frames beyond are left out at the end, and
    the last frame is repeated in utterances of fewer than `least_rows`.

    A call of a file for streams takes `input_frames` frames, the first one `first_frames`, and gives `output_rows`
    rows. At the end of a stream the last frame is repeated until the last row has come. The inputs of `state`, and
    `place`, a number, are zeros at first, and in later calls the output "next_" + name of the call before.

    With `features`, inputs are samples instead of frames: `input_samples` for each chunk or call of a stream,
    `first_samples` for the first call.
    """

    form: str  # "chunk", "utterance", "vector" or "stream"
    left_context: int
    right_context: int
    frame_subsampling_factor: int
    input_frames: int  # of a stream: of each call but the first
    output_rows: int
    least_rows: int
    rows_step: int
    any_length: bool
    input_dim: int
    ivector_dim: int  # 0: there is no input "ivector"
    output_dims: dict[str, int]
    use_priors: bool
    log_softmax: bool
    acoustic_scale: float
    quantize: str  # "none", "int8" or "fp16"
    error: float  # of outputs by smaller weights, for random input: part of the largest output, or of 1
    first_frames: int = 0  # of a stream: of the first call, which has the right context of the first chunk as well
    state: dict[str, list[int]] = field(default_factory=dict)  # of a stream: shapes of its inputs, without the batch
    features: str = ""  # "mfcc" or "fbank": the input is "wave", samples of which the file computes these
    sample_frequency: float = 0.0  # samples per second; the further ones count samples
    frame_samples: int = 0
    shift_samples: int = 0  # from frame to frame
    start_sample: int = 0  # where frame 0 begins; samples before 0 are mirrored ones
    snip_edges: bool = True
    input_samples: int = 0  # of a chunk, or of each call but the first of a stream
    first_samples: int = 0  # of the first call of a stream

    @property
    def note(self) -> str:
        """The lengths with outputs other than `nnet.compute` gives, in words; "" for no such length."""
        if self.form not in ("utterance", "vector") or self.any_length or not self.rows_step:
            return ""
        lengths = ", ".join(str(self.least_rows + number * self.rows_step) for number in range(3))
        if self.form == "utterance":
            of_others = "rows; for other lengths they are those of a longer utterance, the last frame repeated"
        else:
            of_others = "frames; of other lengths frames at the end are left out, or the last frame is repeated"
        return f"Own lengths: outputs are those of nnet3 for {lengths}, ... {of_others}."

    def num_frames(self, samples: int) -> int:
        """Returns the number of frames of `samples` samples. Raises ExportError for a file that takes no audio."""
        if self.shift_samples < 1:
            raise ExportError("this file takes features, not samples: how many frames samples have is not in it")
        check_kind(samples, int, "a number of samples", "an integer")
        if not self.snip_edges:
            return (samples + self.shift_samples // 2) // self.shift_samples
        return max(0, samples - self.frame_samples + self.shift_samples) // self.shift_samples


@dataclass(frozen=True)
class NetworkMetadata(FileMetadata):
    """The metadata of a computational network's file, each value under its name after "nnet3.", as JSON.

    `frames`: the frames of a sequence, 0 for any number. `may_be_padded`: frames after the end of a sequence change
    nothing before the end, so that sequences of several lengths can be given together. `states`: the inputs that are
    frames before the first, or for negative numbers after the last, and their numbers of frames.
    """

    frames: int
    may_be_padded: bool
    states: dict[str, int]


def load_onnx_metadata(path: str | os.PathLike[str]) -> OnnxMetadata:
    """Returns the metadata of a file that `export_onnx` has written. Raises ExportError for any other file."""
    return _read(path, OnnxMetadata)


def load_network_metadata(path: str | os.PathLike[str]) -> NetworkMetadata:
    """Returns the metadata of a file written by `Network.export_onnx`. Raises ExportError for any other file."""
    return _read(path, NetworkMetadata)


def _read(path: str | os.PathLike[str], kind: type[Kind]) -> Kind:
    check_is_path(path, "an ONNX file")
    try:
        properties = {item.key: item.value for item in onnx.load(path, load_external_data=False).metadata_props}
        given = {each.name: properties.get(_PREFIX + each.name) for each in fields(kind)}
        about = kind(**{name: read_json(value) for name, value in given.items() if value is not None})
        _check_types(about)
        return about
    except OSError as error:
        raise ExportError(f"{os.fspath(path)}: cannot read this file: {error.strerror}") from None
    except (DecodeError, RecursionError, TypeError, ValueError):
        raise ExportError(f"{os.fspath(path)}: this is no ONNX file that nnet3 has written") from None


def _check_types(about: FileMetadata) -> None:
    """Raises TypeError unless every value has the type of its field, and is finite."""
    for name, hint in get_type_hints(type(about)).items():
        value, kind = getattr(about, name), get_origin(hint) or hint
        kinds = (int, float) if kind is float else (kind,)
        if type(value) not in kinds or (kind is float and not math.isfinite(value)):
            raise TypeError(f"{name} is of another type")
