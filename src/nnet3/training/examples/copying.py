"""Changes of single examples: choosing a frame, cutting context, shifting times, weighting, renaming."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnet3.base.kaldi_io.compressed import CompressedMatrix
from nnet3.base.kaldi_io.general import dense, take_rows
from nnet3.errors import ArgumentError, TrainingError
from nnet3.training.examples.example import Example, NnetIo

_UNSHIFTED = "ivector"
RANDOM = "random"


@dataclass(frozen=True)
class ContextChanges:
    """`frame_shift` is added to times; context further than `left_context` and `right_context` goes, None: none."""

    frame_shift: int = 0
    left_context: int | None = None
    right_context: int | None = None

    def __post_init__(self) -> None:
        if min(self.left_context or 0, self.right_context or 0) < 0:
            raise ArgumentError("contexts must be >= 0")

    def kept(self, first: int, last: int) -> tuple[float, float]:
        """Returns the first and last time of input to keep for outputs from `first` to `last`."""
        return (
            -np.inf if self.left_context is None else first - self.left_context,
            np.inf if self.right_context is None else last + self.right_context,
        )


@dataclass(frozen=True)
class Changes(ContextChanges):
    """Changes of examples that are not merged yet; the default changes nothing.

    `frame`: keep the frame of `output` with this t, or "random". `left_context`, `right_context`: keep the rows of
    `input` within so many frames of the rows of `output`. `frame_shift` is then added to every t but the ivector's.
    """

    frame: int | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.frame, str) and self.frame != RANDOM:
            raise ArgumentError(f"frame must be a number or 'random', got '{self.frame}'")

    @property
    def is_none(self) -> bool:
        return self == Changes()

    def apply(self, example: Example, rng: np.random.Generator) -> Example | None:
        """Returns the changed example; None for an example without the frame. TrainingError for a merged example."""
        if self.is_none:
            return example
        output = self._single(example)
        first, last = int(output.min()), int(output.max())
        if self.frame is not None:
            chosen = int(rng.integers(first, last + 1)) if self.frame == RANDOM else int(self.frame)
            if not first <= chosen <= last:
                return None
            first = last = chosen
        bounds = {"output": (first, last), "input": self.kept(first, last)}
        ios = [filter_times(io, *bounds[io.name]) if io.name in bounds else io for io in example.ios]
        return Example(tuple(shift_times(io, self.frame_shift) for io in ios))

    def _single(self, example: Example) -> np.ndarray:
        """Returns the times of `output`."""
        output, given = example.io("output"), example.io("input")
        if output is None or given is None or any(not len(io.indexes) for io in (output, given)):
            raise TrainingError("frames can be chosen and context cut in examples with 'input' and 'output' only")
        if any(io.indexes[:, 0].any() for io in example.ios):
            raise TrainingError("frames can be chosen and context cut in single examples only: this one is merged")
        return output.indexes[:, 1]


def filter_times(io: NnetIo, first: float, last: float) -> NnetIo:
    """Keeps the rows with first <= t <= last. A compressed matrix that loses rows becomes a full matrix."""
    kept = np.flatnonzero((io.indexes[:, 1] >= first) & (io.indexes[:, 1] <= last))
    if len(kept) == len(io.indexes):
        return io
    if len(kept) == 0:
        raise TrainingError(f"nothing is left of '{io.name}' when frames are chosen and context cut")
    matrix = dense(io.matrix) if isinstance(io.matrix, CompressedMatrix) else io.matrix
    return NnetIo(io.name, io.indexes[kept], take_rows(matrix, kept))


def shift_times(io: NnetIo, shift: int) -> NnetIo:
    """Adds `shift` to each t, but not to the ivector's."""
    if shift == 0 or io.name == _UNSHIFTED:
        return io
    indexes = io.indexes + np.array([0, shift, 0], np.int64)
    if abs(indexes[:, 1]).max(initial=0) >= 2**31:
        raise TrainingError(f"shifted by {shift} frames, '{io.name}' would have t beyond 32 bits")
    return replace(io, indexes=indexes.astype(np.int32))
