"""The outcome of a minibatch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nnet3.training.train.objectives import ObjectiveStats, total_stats
from nnet3.training.train.update import Update


@dataclass(frozen=True)
class StepResult:
    """The outcome of a minibatch: statistics by output node, how its steps were limited, and if it was skipped, why.

    A skipped minibatch has changed nothing and has no statistics. `stats`: objectives of the network before the
    minibatch; `backstitch`: those of the second step, if there were two.
    """

    stats: dict[str, ObjectiveStats] = field(default_factory=dict)
    backstitch: dict[str, ObjectiveStats] = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    skipped: str | None = None

    @property
    def total(self) -> ObjectiveStats:
        """The sum of `stats` over all output nodes."""
        return self.total_of(self.stats)

    def total_of(self, names: Iterable[str]) -> ObjectiveStats:
        """Returns the sum of `stats` over these output nodes; a skipped minibatch gives zeros."""
        return total_stats(self.stats.get(name, ObjectiveStats()) for name in names)
