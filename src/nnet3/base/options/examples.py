"""Options of making training examples, with Kaldi's names and defaults (docs/examples.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text.values import Boolean, Integer, Integers, Number, Rule, Text, at_least, bounds
from nnet3.errors import TrainingError

_MOST_CONTEXT = 1_000_000  # frames; more is a slip of the hand that would fill the memory
WHOLE = (-1,)  # as num_frames: whole utterances
_FRAMES = Integer(at_least(0))
_CONTEXT = Integer(bounds(minimum=0, maximum=_MOST_CONTEXT))
_CONTEXT_AT_END = Integer(bounds(maximum=_MOST_CONTEXT))
_NUM_FRAMES = Integers(
    Rule("> 0, or -1 alone", lambda frames: frames == WHOLE or (len(frames) > 0 and min(frames) > 0))
)


@dataclass(frozen=True)
class ChunkOptions(Options):
    """Cutting utterances into chunks; all numbers are of input frames.

    `num_frames`: the principal length and others; (-1,) leaves utterances whole. A negative initial or final context is
    the same as elsewhere. Lengths, but not the overlap, are rounded up to multiples of the frame subsampling factor.
    """

    num_frames: tuple[int, ...] = option(
        (1,),
        _NUM_FRAMES,
        "Frames of a chunk; of those behind the first one at most two per utterance. -1: whole utterances.",
        unit="frames",
        metavar="N[,N...]",
    )
    num_frames_overlap: int = option(0, _FRAMES, "Frames that neighbours should share.", unit="frames")
    left_context: int = option(0, _CONTEXT, "Frames of input at the left of a chunk.", unit="frames")
    right_context: int = option(0, _CONTEXT, "Frames of input at the right of a chunk.", unit="frames")
    left_context_initial: int = option(-1, _CONTEXT_AT_END, "The same for the first chunk (-1: same).", unit="frames")
    right_context_final: int = option(-1, _CONTEXT_AT_END, "The same for the last chunk (-1: same).", unit="frames")
    frame_subsampling_factor: int = again(UtteranceOptions, "frame_subsampling_factor", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_frames != WHOLE:
            object.__setattr__(self, "num_frames", tuple(map(self._rounded_up, self.num_frames)))

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.num_frames != WHOLE and not self.num_frames_overlap < self._rounded_up(self.num_frames[0]):
            yield (
                "num_frames_overlap",
                f"the overlap must be at least 0 and less than the {self._rounded_up(self.num_frames[0])} frames of a "
                f"chunk, got {self.num_frames_overlap}",
            )

    def _rounded_up(self, frames: int) -> int:
        return -(-frames // self.frame_subsampling_factor) * self.frame_subsampling_factor


@dataclass(frozen=True)
class InputOptions(Options, error=TrainingError):
    """Making the inputs of examples. Tolerances are in frames."""

    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    online_ivector_period: int = option(1, Integer(at_least(1)), "Frames per ivector.", unit="frames")
    compress: bool = option(True, Boolean(), "Compress full matrices.")
    length_tolerance: int = option(100, _FRAMES, "Frames of ivectors off.", unit="frames")
    seed: int = option(0, Integer(bits=64), "Seed of random choices.", flag="srand")


@dataclass(frozen=True)
class MakingOptions(InputOptions):
    """Making examples. The length of targets may be off that of the subsampled features by some frames."""

    targets_length_tolerance: int = option(2, _FRAMES, "Frames of targets off.", unit="frames")


@dataclass(frozen=True)
class ChainMakingOptions(InputOptions):
    """Making chain examples. `long_key`: keys of examples tell contexts and length too."""

    supervision_length_tolerance: int = option(1, _FRAMES, "Output frames of supervision off.", unit="output frames")
    long_key: bool = option(False, Boolean(), "Keys tell contexts and length too.")


@dataclass(frozen=True)
class XvectorMakingOptions(Options, error=TrainingError):
    """Making examples for x-vectors. `num_pdfs` is the number of classes, -1 for one more than the largest label."""

    compress: bool = again(InputOptions, "compress", True)
    num_pdfs: int = option(-1, Integer(at_least(-1)), "Classes (-1: as many as the ranges have).")


@dataclass(frozen=True)
class MergingOptions(Options):
    """Merging examples into minibatches."""

    minibatch_size: str = option(
        "256",
        Text(),
        "Sizes and ranges as 64,128 or 1:64; by size of example as 128=64/256=40,30.",
        metavar="RULE",
    )
    compress: bool = option(False, Boolean(), "Compress full matrices; for what goes to disk.")


@dataclass(frozen=True)
class ChainMergingOptions(MergingOptions):
    """Merging chain examples into minibatches."""

    minibatch_size: str = again(MergingOptions, "minibatch_size", "64")
    multilingual_eg: bool = option(
        False, Boolean(), "Keys name the language of the output node, such as ?lang=fr of output-fr."
    )


@dataclass(frozen=True)
class ShufflingOptions(Options):
    """Putting examples into random order."""

    seed: int = again(InputOptions, "seed", 0)
    buffer_size: int = option(0, _FRAMES, "Examples held in memory (0: all).", unit="examples")


@dataclass(frozen=True)
class SubsetOptions(Options):
    """Taking some examples at random."""

    seed: int = again(InputOptions, "seed", 0)
    count: int = option(1000, Integer(at_least(1)), "How many.", unit="examples", flag="n")
    randomize_order: bool = option(True, Boolean(), "Put them in random order.")


@dataclass(frozen=True)
class CopyingOptions(Options):
    """Copying examples with changes."""

    random: bool = option(False, Boolean(), "Outputs at random, not in turn.")
    keep_proportion: float = option(1.0, Number(at_least(0)), "Copies per example.")
    seed: int = again(InputOptions, "seed", 0)
    frame_shift: int = option(0, Integer(), "Added to every t but the ivector's.", unit="frames")
    left_context: int = option(-1, Integer(at_least(-1)), "Left context to keep (-1: all).", unit="frames")
    right_context: int = option(-1, Integer(at_least(-1)), "Right context to keep (-1: all).", unit="frames")

    def contexts(self) -> tuple[int | None, int | None]:
        """Returns the contexts to keep on the left and on the right; None: all."""
        left, right = self.left_context, self.right_context
        return None if left < 0 else left, None if right < 0 else right
