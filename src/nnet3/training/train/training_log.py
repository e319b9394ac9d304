"""The trainer's log, in Kaldi's words, for scripts that search logs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.update import Update

_BACKSTITCH = "_backstitch"


class TrainingLog:
    """Adds up objectives, by output node, over intervals of minibatches and over all; counts shortened steps."""

    def __init__(self, interval: int, say: Callable[[str], None]) -> None:
        self.interval, self.say = interval, say
        self.totals: dict[str, ObjectiveStats] = {}
        self._of_interval: dict[str, ObjectiveStats] = {}
        self._interval_of: dict[str, int] = {}
        self._minibatches_of: dict[str, int] = {}  # in the interval
        self._updates = self._shortened_as_a_whole = 0
        self._shortened: dict[str, int] = {}

    def add(self, number: int, result: StepResult) -> None:
        """Counts minibatch `number` in; says the averages of the last interval when a new one begins."""
        first, second = (result.stats, result.updates[:1]), (result.backstitch, result.updates[1:])
        for suffix, (stats, updates) in (("", first), (_BACKSTITCH, second)):
            for name, own in stats.items():
                self._add(number // self.interval, name + suffix, own)
            for update in updates:
                self._count(update)

    def _add(self, interval: int, name: str, stats: ObjectiveStats) -> None:
        if name in self._interval_of and interval != self._interval_of[name]:
            span = f"{self._interval_of[name] * self.interval}-{interval * self.interval - 1}"
            text = self._averaged(self._of_interval.pop(name))
            count = self._minibatches_of.pop(name, 0)  # older checkpoints do not say
            used = "for minibatches" if count == self.interval else f"using {count} minibatches in minibatch range"
            self.say(f"Average objective function for '{name}' {used} {span} is {text}")
        self._interval_of[name] = interval
        self._minibatches_of[name] = self._minibatches_of.get(name, 0) + 1
        for sums in (self._of_interval, self.totals):
            sums.setdefault(name, ObjectiveStats()).add(stats)

    def _count(self, update: Update) -> None:
        self._updates += 1
        self._shortened_as_a_whole += update.factor < 1.0
        for name in update.updatable:
            self._shortened[name] = self._shortened.get(name, 0) + (name in update.shortened)
        parts = []
        if update.shortened:
            least = min(update.shortened, key=lambda name: update.shortened[name])
            count = f"{len(update.shortened)} / {len(update.updatable)}"
            parts.append(
                f"Per-component max-change active on {count} Updatable Components. (Smallest factor="
                f"{update.shortened[least]:g} on {least} with max-change={update.limits[least]:g}). "
            )
        if update.factor < 1.0:
            parts.append(f"Global max-change factor was {update.factor:g} with max-change={update.limit:g}.")
        for line in ("".join(parts), update.line_behind):
            if line:
                self.say(line)

    def finish(self) -> None:
        """Says the averages over all minibatches."""
        for name, total in sorted(self.totals.items()):
            self.say(f"Overall average objective function for '{name}' is {self._averaged(total)}")
            self.say(f"[this line is to be parsed by a script:] log-prob-per-frame={total.average:g}")
        for name, count in self._shortened.items():
            share = 100.0 * count / self._updates
            if count:
                self.say(f"For {name}, per-component max-change was enforced {share:g} % of the time.")
        if self._shortened_as_a_whole:
            share = 100.0 * self._shortened_as_a_whole / self._updates
            self.say(f"The global max-change was enforced {share:g} % of the time.")

    def _averaged(self, stats: ObjectiveStats) -> str:
        return f"{stats.terms} over {stats.weight:g} frames."

    # ---- as a part of the trainer's state ----

    def state(self) -> dict[str, Tensor]:
        """Returns all sums by name, for `load_state`."""
        found = {f"total.{name}": list(stats.numbers()) for name, stats in self.totals.items()}
        found |= {f"interval.{name}": list(stats.numbers()) for name, stats in self._of_interval.items()}
        found |= {f"number.{name}": [float(number)] for name, number in self._interval_of.items()}
        found |= {f"minibatches.{name}": [float(count)] for name, count in self._minibatches_of.items()}
        found |= {f"shortened.{name}": [float(count)] for name, count in self._shortened.items()}
        found["updates"] = [float(self._updates), float(self._shortened_as_a_whole)]
        return {name: torch.tensor(values, dtype=torch.float64) for name, values in found.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Goes on adding to the sums of an earlier log."""
        of = {kind: _named(kind, state) for kind in ("total", "interval", "number", "minibatches", "shortened")}
        self.totals = {name: ObjectiveStats(*values) for name, values in of["total"].items()}
        self._of_interval = {name: ObjectiveStats(*values) for name, values in of["interval"].items()}
        self._interval_of = {name: int(values[0]) for name, values in of["number"].items()}
        self._minibatches_of = {name: int(values[0]) for name, values in of["minibatches"].items()}
        self._shortened = {name: int(values[0]) for name, values in of["shortened"].items()}
        self._updates, self._shortened_as_a_whole = (int(number) for number in state["updates"].tolist())


def _named(kind: str, state: dict[str, Tensor]) -> dict[str, list[float]]:
    return {key[len(kind) + 1 :]: value.tolist() for key, value in state.items() if key.startswith(f"{kind}.")}
