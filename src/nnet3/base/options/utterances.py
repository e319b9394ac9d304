"""Options of running a network over utterances and streams: those of Kaldi's programs that concern the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Number, Rule, Text, at_least, bounds, choice, within
from nnet3.errors import ExecutionError

_FRAMES, _PERIOD = Integer(at_least(0)), Integer(at_least(1))
_TABLE = "RSPECIFIER"
_LENGTH = Integer(Rule("at least 1, or -1", lambda frames: frames > 0 or frames == -1, minimum=-1))


@dataclass(frozen=True)
class UtteranceOptions(Options, error=ExecutionError):
    """Cutting an utterance into chunks; all numbers are of input frames. `frames_per_chunk` 0: whole utterances.

    Initial and final extra context apply at the ends of an utterance; negative: as elsewhere. Frames before the first
    and after the last are repetitions of these. `online_ivector_period` is the number of frames for each online
    ivector. Raises ExecutionError for numbers that cannot be meant.
    """

    frame_subsampling_factor: int = option(1, Integer(within(1, 1000)), "Input frames per output.", unit="frames")
    frames_per_chunk: int = option(
        0, _FRAMES, "Input frames per chunk (0: all at once).", unit="frames", program_default=50
    )
    extra_left_context: int = option(0, _FRAMES, "Frames more at the left of a chunk.", unit="frames")
    extra_right_context: int = option(0, _FRAMES, "Frames more at the right of a chunk.", unit="frames")
    extra_left_context_initial: int = option(-1, Integer(), "The same for the first chunk (-1: same).", unit="frames")
    extra_right_context_final: int = option(-1, Integer(), "The same for the last chunk (-1: same).", unit="frames")
    online_ivector_period: int = option(10, _PERIOD, "Frames per online ivector; needed with them.", unit="frames")


@dataclass(frozen=True)
class StreamOptions(Options, error=ExecutionError):
    """Running a network over streams of frames; chunks are made longer until the network's period divides them.

    `num_streams`: how many streams may be open at a time. Raises ExecutionError for numbers that cannot be meant.
    """

    frame_subsampling_factor: int = again(UtteranceOptions, "frame_subsampling_factor", 1)
    frames_per_chunk: int = option(
        21, Integer(within(1, 100_000)), "Input frames per chunk.", unit="frames", program_default=24
    )
    extra_left_context_initial: int = option(
        0, Integer(within(0, 1_000_000)), "Frames more at the left of the first chunk.", unit="frames"
    )
    num_streams: int = option(1, Integer(within(1, 10_000)), "Streams that are open at a time.")


@dataclass(frozen=True)
class BatchOptions(UtteranceOptions):
    """Cutting utterances into chunks, and how many chunks of one shape are computed at once.

    A minibatch that is not full is made smaller by `partial_minibatch_factor`, as often as that leaves room for what
    there is; with 0 all have their full size.
    """

    minibatch_size: int = option(128, _PERIOD, "Sequences in a minibatch, at most.")
    edge_minibatch_size: int = option(32, _PERIOD, "The same for chunks at the ends, if these have other context.")
    ensure_exact_final_context: bool = option(
        False, Boolean(), "An utterance shorter than a chunk is computed as it is, not as a whole chunk."
    )
    partial_minibatch_factor: float = option(
        0.5, Number(bounds(minimum=0, below=1)), "Factor by which minibatches that are not full get smaller."
    )


@dataclass(frozen=True)
class ScoreOptions(Options):
    """The scores that are made of a network's outputs."""

    acoustic_scale: float = option(1.0, Number(), "Multiplies the scores.")
    apply_exp: bool = option(False, Boolean(), "Write exp(output), for instance posteriors.")
    use_priors: bool = option(False, Boolean(), "Subtract the log-priors of an acoustic model.")


@dataclass(frozen=True)
class IvectorTables(Options):
    """Kaldi's specifiers of tables of ivectors; none where they are empty."""

    ivectors: str = option("", Text(), "One ivector per utterance, or per speaker with --utt2spk.", metavar=_TABLE)
    utt2spk: str = option("", Text(), "The speaker of each utterance, for --ivectors.", metavar=_TABLE)
    online_ivectors: str = option("", Text(), "Matrices of ivectors, one row every so many frames.", metavar=_TABLE)


@dataclass(frozen=True)
class PrecisionOptions(Options, error=ExecutionError):
    """The numbers that affine components multiply; all else is float32."""

    dtype: str = option(
        "float32", choice("float32", "bfloat16", "int8"), "Numbers multiplied: float32, bfloat16 or int8."
    )


@dataclass(frozen=True)
class XvectorOptions(Options, error=ExecutionError):
    """Cutting an utterance into chunks whose vectors are averaged; all numbers are of frames.

    A chunk of fewer than `min_chunk_size` frames repeats its first and last one, or is left out without `pad_input`.
    Raises ExecutionError for numbers that cannot be meant.
    """

    chunk_size: int = option(-1, _LENGTH, "Frames of a chunk; the last one may be shorter (-1: all).", unit="frames")
    min_chunk_size: int = option(100, _PERIOD, "Frames that a chunk must have.", unit="frames")
    pad_input: bool = option(True, Boolean(), "Repeat the ends of shorter chunks (false: leave these out).")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if 0 < self.chunk_size < self.min_chunk_size and not self.pad_input:
            yield (
                "chunk_size",
                f"no chunk of {self.chunk_size} frames has the {self.min_chunk_size} that it must have: give larger "
                "chunks or a smaller least size, or have them padded",
            )


@dataclass(frozen=True)
class EqualXvectorOptions(Options, error=ExecutionError):
    """Cutting utterances into chunks of one size, as few as cover them nearly evenly, whose vectors are averaged."""

    chunk_size: int = option(150, _PERIOD, "Frames of each chunk; more than the context.", unit="frames")
    batch_size: int = option(32, _PERIOD, "Chunks computed at a time.", unit="chunks")
    pad_input: bool = option(True, Boolean(), "Repeat the last frame of shorter utterances (false: leave these out).")
