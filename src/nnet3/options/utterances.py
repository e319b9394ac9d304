"""Options of running a network over utterances: those of Kaldi's nnet3-compute that concern the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnet3.errors import ExecutionError, Nnet3Error
from nnet3.options.declaring import Options, option
from nnet3.text.values import Integer, at_least

_FRAMES, _PERIOD = Integer(at_least(0)), Integer(at_least(1))


@dataclass(frozen=True)
class UtteranceOptions(Options):
    """Cutting an utterance into chunks; all numbers are of input frames. `frames_per_chunk` 0: whole utterances.

    Initial and final extra context apply at the ends of an utterance; negative: as elsewhere. Frames before the first
    and after the last are repetitions of these. `online_ivector_period` is the number of frames for each online
    ivector. Raises ExecutionError for numbers that cannot be meant.
    """

    error: ClassVar[type[Nnet3Error]] = ExecutionError

    frame_subsampling_factor: int = option(1, _PERIOD, "Input frames per output.", unit="frames")
    frames_per_chunk: int = option(
        0, _FRAMES, "Input frames per chunk (0: all at once).", unit="frames", program_default=50
    )
    extra_left_context: int = option(0, _FRAMES, "Frames more at the left of a chunk.", unit="frames")
    extra_right_context: int = option(0, _FRAMES, "Frames more at the right of a chunk.", unit="frames")
    extra_left_context_initial: int = option(-1, Integer(), "The same for the first chunk (-1: same).", unit="frames")
    extra_right_context_final: int = option(-1, Integer(), "The same for the last chunk (-1: same).", unit="frames")
    online_ivector_period: int = option(10, _PERIOD, "Frames per online ivector; needed with them.", unit="frames")
