"""Where a run stands: what a checkpoint says in JSON, besides the states of the trainer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from nnet3.train.objectives import ObjectiveStats


@dataclass
class Progress:
    """Of one process; all but `position` and the sums are the same in all processes."""

    step: int = 0  # minibatches done, by this process
    epoch: int = 0  # from 0
    position: Any = None  # in the epoch; None: at its beginning
    done: float = 0.0  # of the epoch, as its position says
    scheduled_at: float = 0.0  # the part of training by which learning rate and dropout were set last
    skipped: int = 0  # minibatches with NaN or infinity, of all processes
    owes_snapshot: bool = False  # one is due as soon as all processes have the same model
    snapshots: list[int] = field(default_factory=list)  # steps
    interval: ObjectiveStats = field(default_factory=ObjectiveStats)  # since the last line in the log
    whole_epoch: ObjectiveStats = field(default_factory=ObjectiveStats)  # since the epoch began

    def part_done(self, epochs: int) -> float:
        """Of the whole training, 0 to 1."""
        return min((self.epoch + self.done) / epochs, 1.0)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        sums = {name: ObjectiveStats(**values[name]) for name in ("interval", "whole_epoch")}
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in {**values, **sums}.items() if name in known})
