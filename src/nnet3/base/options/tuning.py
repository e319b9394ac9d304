"""Options of tuning the model of a recognizer on recordings of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.alignment import WordTimesOptions
from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text.values import Integer, Number, above, at_least, bounds
from nnet3.errors import TrainingError

_RATE, _SIZE = Number(above(0)), Integer(at_least(1))


@dataclass(frozen=True)
class TuningOptions(Options, error=TrainingError):
    """Options of `nnet3 tune`."""

    epochs: int = option(4, _SIZE, "Times that all recordings are seen.")
    initial_learning_rate: float = option(1e-4, _RATE, "At the beginning.")
    final_learning_rate: float = option(0.0, Number(at_least(0)), "At the end; 0: a tenth of that at the beginning.")
    minibatch_size: int = option(16, _SIZE, "Chunks of up to 1.5 s in a minibatch.")
    held_out_share: float = option(
        0.1,
        Number(bounds(minimum=0, below=1)),
        "Share of utterances, drawn at random, not trained on, but compared.",
    )
    extra_left_context: int = again(
        UtteranceOptions, "extra_left_context", 0, help="Frames before a chunk that a recurrent network sees."
    )
    beam: float = again(WordTimesOptions, "beam", 15.0)
    retry_beam: float = again(WordTimesOptions, "retry_beam", 60.0)
    seed: int = option(0, Integer(at_least(0), bits=64), "Seed of all that is drawn at random.", flag="srand")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.final_learning_rate > self.initial_learning_rate:
            yield (
                "final_learning_rate",
                f"final_learning_rate must be at most initial_learning_rate, {self.initial_learning_rate:g}, got "
                f"{self.final_learning_rate:g}",
            )
        if 0 < self.retry_beam <= self.beam:
            yield "retry_beam", f"retry_beam must be 0 or more than beam, {self.beam:g}, got {self.retry_beam:g}"
