"""How an utterance is cut into chunks: the options of Kaldi's nnet3-compute that concern the network."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import ExecutionError


@dataclass(frozen=True)
class UtteranceOptions:
    """Frames are input frames. `frames_per_chunk` 0: the whole utterance at once.

    Initial and final extra context apply at the ends of an utterance; negative: as elsewhere. Frames before the first
    and after the last are repetitions of these. `online_ivector_period` is the number of frames for each online
    ivector. Raises ExecutionError for numbers that cannot be meant.
    """

    frame_subsampling_factor: int = 1
    frames_per_chunk: int = 0
    extra_left_context: int = 0
    extra_right_context: int = 0
    extra_left_context_initial: int = -1
    extra_right_context_final: int = -1
    online_ivector_period: int = 10

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            least = 1 if name in ("frame_subsampling_factor", "online_ivector_period") else 0
            if isinstance(value, bool) or not isinstance(value, int):
                raise ExecutionError(f"{name} must be an integer, got {value!r}")
            if value < least and not name.endswith(("_initial", "_final")):
                must = "at least 1" if least else "not negative"
                raise ExecutionError(f"{name} must be {must}, got {value}")
