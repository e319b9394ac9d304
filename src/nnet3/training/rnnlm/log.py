"""The log of RNNLM training, in Kaldi's words."""

from __future__ import annotations

from nnet3.base.options.rnnlm import EmbeddingOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.training_log import TrainingLog

OUTPUT, EXACT = "output", "exact"


def steps_per_minibatch(options: TrainerOptions | EmbeddingOptions) -> float:
    """Returns the average number of steps of a minibatch, with backstitch every so many minibatches."""
    return 1.0 + 1.0 / options.backstitch_training_interval if options.backstitch_training_scale else 1.0


class RnnlmLog(TrainingLog):
    """Logs numerator and denominator per word, every `print_interval` minibatches and over all.

    The sums of exact denominators are whole numbers, cut at each minibatch, as in Kaldi.
    """

    _minibatches = 0
    steps_per_minibatch = 1.0  # of which the whole step's share is told; that of components is told of minibatches

    def add(self, number: int, result: StepResult) -> None:
        """Counts a minibatch in, of backstitch the first step; says the averages of an interval that is full."""
        for update in result.updates:
            self._count(update)
        for name, own in result.stats.items():
            into = self._of_interval.setdefault(name, ObjectiveStats())
            into.add(own)
            into.objective = float(int(into.objective)) if name == EXACT else into.objective
        self._minibatches += 1
        if self._minibatches % self.interval == 0:
            self._say_interval()

    def _say_interval(self) -> None:
        count = (self._minibatches - 1) % self.interval + 1
        first = self._minibatches - count
        if self._of_interval:
            self.say(f"Objf for minibatches {first} to {self._minibatches - 1} is {_words(self._of_interval)}")
        for name, own in self._of_interval.items():
            self.totals.setdefault(name, ObjectiveStats()).add(own)
        self._of_interval = {}

    def finish(self) -> None:
        """Says the averages of the last interval and over all minibatches, and how often steps were shortened."""
        for name, count in self._shortened.items():
            share = 100.0 * count / self._minibatches
            if count:
                self.say(f"For {name}, per-component max-change was enforced {share:g}% of the time.")
        if self._shortened_as_a_whole:
            share = 100.0 * self._shortened_as_a_whole / (self._minibatches * self.steps_per_minibatch)
            self.say(f"The global max-change was enforced {share:g}% of the time.")
        if self._minibatches % self.interval:
            self._say_interval()
        if self.totals:
            self.say(f"Overall objf is {_words(self.totals, f' in {self._minibatches} minibatches')}")


def _words(stats: dict[str, ObjectiveStats], behind: str = "") -> str:
    own = stats[OUTPUT]
    numerator, denominator, exact = own.average, own.average_auxiliary, 0.0
    if own.weight:
        exact = stats.get(EXACT, ObjectiveStats()).objective / own.weight
    return (
        f"({numerator:.4g} + {denominator:.4g}) = {numerator + denominator:.4g} over {own.weight:.4g} words (weighted)"
        f"{behind}; exact = ({numerator:.4g} + {exact:.4g}) = {numerator + exact:.4g}"
    )
