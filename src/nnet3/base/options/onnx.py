"""Options of ONNX files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text.values import Boolean, Integer, Number, Text, Texts, choice, within
from nnet3.errors import ExportError

_FRAMES = Integer(within(0, 100_000))  # the program of a chunk is written out


@dataclass(frozen=True)
class OnnxOptions(Options, error=ExportError):
    """The form of an ONNX file, and what goes into it besides the network. Raises ExportError for wrong values.

    Scores are as in `nnet3 compute`: acoustic_scale * (y - log priors) of outputs y, or of their log-softmax.
    """

    frames_per_chunk: int = again(UtteranceOptions, "frames_per_chunk", 0, kind=_FRAMES)
    frame_subsampling_factor: int = again(UtteranceOptions, "frame_subsampling_factor", 1)
    extra_left_context: int = again(UtteranceOptions, "extra_left_context", 0, kind=_FRAMES)
    extra_right_context: int = again(UtteranceOptions, "extra_right_context", 0, kind=_FRAMES)
    outputs: tuple[str, ...] = option(("output",), Texts(), "The outputs of the network, separated by commas.")
    use_priors: bool = option(False, Boolean(), "Subtract the log-priors of an acoustic model from 'output'.")
    log_softmax: bool = option(False, Boolean(), "Take the log-softmax of 'output'.")
    acoustic_scale: float = option(1.0, Number(), "Multiplies 'output' at the end.")
    streaming: bool = option(False, Boolean(), "A chunk of a stream, whose state goes in and comes out.")
    vector: bool = option(False, Boolean(), "One output for all frames, at t = 0, as x-vectors are computed.")
    features: str = option("", Text(), "Take samples: mfcc:FILE or fbank:FILE, Kaldi's config of their features.")
    quantize: str = option("none", choice("none", "int8", "fp16"), "Make weights smaller: none, int8 or fp16.")
    opset: int = option(18, Integer(within(18, 23)), "The version of ONNX's operators.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.vector and (self.frame_subsampling_factor, self.extra_left_context, self.extra_right_context) != (
            1,
            0,
            0,
        ):
            yield "vector", "vector is of all frames as they are: leave out subsampling and extra context"
        if self.streaming and self.frames_per_chunk == 0:
            yield (
                "streaming",
                "streaming takes chunks of a fixed number of frames: say frames_per_chunk, such as 21",
            )
        if self.streaming and (self.vector, self.extra_right_context, self.outputs) != (False, 0, ("output",)):
            yield "streaming", "streaming is of 'output' alone: leave out vector, extra_right_context and outputs"


@dataclass(frozen=True)
class NetworkOnnxOptions(Options, error=ExportError):
    """The form of the ONNX file of a computational network. Raises ExportError for wrong values."""

    frames: int = option(0, _FRAMES, "The frames of each sequence; 0: any number.")
    opset: int = again(OnnxOptions, "opset", 18)
