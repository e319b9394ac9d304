"""Examples of discriminative training (Kaldi: NnetDiscriminativeExample), in files, merged and shifted."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import TrainingError
from nnet3.training.chain.changes import ChainChanges
from nnet3.training.discriminative.supervision import DiscriminativeTarget, merge_supervisions
from nnet3.training.discriminative.supervision_file import TARGETS
from nnet3.training.examples.example import ExampleKind
from nnet3.training.examples.sequence_example import SequenceExample, sequence_examples


@dataclass(frozen=True, eq=False)
class DiscriminativeExample(SequenceExample[DiscriminativeTarget]):
    """Inputs, and targets of outputs."""


DISCRIMINATIVE_EXAMPLES: ExampleKind[DiscriminativeExample] = sequence_examples(
    "<Nnet3DiscriminativeEg>", DiscriminativeExample, TARGETS, merge_supervisions
)


def shifted(example: DiscriminativeExample, frame_shift: int) -> DiscriminativeExample:
    """Adds to every t of inputs but the ivector's; outputs move by the nearest multiple of their step.

    Raises TrainingError for a merged example.
    """
    if frame_shift and any(target.supervision.num_sequences > 1 for target in example.outputs):
        raise TrainingError("times can be shifted in single examples only: this one is merged")
    return ChainChanges(frame_shift=frame_shift).apply(example)
