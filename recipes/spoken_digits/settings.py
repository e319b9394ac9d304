"""All that may be turned."""

from __future__ import annotations

from dataclasses import dataclass, field

from recipes.spoken_digits.ctc import CtcTraining
from recipes.spoken_digits.optimizers import Comparison
from recipes.spoken_digits.words import WordTraining


@dataclass(frozen=True)
class Settings:
    """`variants` of each recording to train on are made, besides itself."""

    variants: int = 7
    words: WordTraining = field(default_factory=lambda: WordTraining(epochs=6))
    left_out: WordTraining = field(default_factory=lambda: WordTraining(epochs=2))
    comparison: Comparison = field(default_factory=lambda: Comparison(epochs=1))
    ctc: CtcTraining = field(default_factory=CtcTraining)
    seed: int = 0


QUICK = Settings(
    variants=1,
    words=WordTraining(epochs=4),
    left_out=WordTraining(epochs=2),
    comparison=Comparison(epochs=2),
    ctc=CtcTraining(train_strings=600, epochs=2),
)
