"""Examples of discriminative training (Kaldi: NnetDiscriminativeExample), in files, merged and shifted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnet3.errors import TrainingError
from nnet3.training.chain.changes import ChainChanges
from nnet3.training.discriminative.supervision import DiscriminativeTarget, merge_targets
from nnet3.training.discriminative.supervision_file import read_target, write_target
from nnet3.training.examples.example import ExampleKind
from nnet3.training.examples.sequence_example import SequenceExample, sequence_examples


@dataclass(frozen=True, eq=False)
class DiscriminativeExample(SequenceExample[DiscriminativeTarget]):
    """Inputs, and targets of outputs."""


def _weighted(target: DiscriminativeTarget, factor: float) -> DiscriminativeTarget:
    """Multiplies the weight of a supervision by a factor, in float32."""
    weight = float(np.float32(target.supervision.weight) * np.float32(factor))
    return replace(target, supervision=replace(target.supervision, weight=weight))


def _renamed(target: DiscriminativeTarget, name: str) -> DiscriminativeTarget:
    return replace(target, name=name)


DISCRIMINATIVE_EXAMPLES: ExampleKind[DiscriminativeExample] = sequence_examples(
    "<Nnet3DiscriminativeEg>", DiscriminativeExample, read_target, write_target, merge_targets, _weighted, _renamed
)


def shifted(example: DiscriminativeExample, frame_shift: int) -> DiscriminativeExample:
    """Adds to every t of inputs but the ivector's; outputs move by the nearest multiple of their step.

    Raises TrainingError for a merged example.
    """
    if frame_shift and any(target.supervision.num_sequences > 1 for target in example.outputs):
        raise TrainingError("times can be shifted in single examples only: this one is merged")
    return ChainChanges(frame_shift=frame_shift).apply(example)
