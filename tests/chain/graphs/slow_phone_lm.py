"""A slow and obvious phone language model: histories are tuples, counts dictionaries."""

from __future__ import annotations

import math

import numpy as np

History = tuple[int, ...]


class SlowPhoneLm:
    """`states`: by history, in the order of creation, the counts of symbols (0: the end)."""

    def __init__(self, sentences: list[list[int]], order: int, kept_order: int):
        self.order, self.kept_order = order, kept_order
        self.states: dict[History, dict[int, int]] = {}
        self.merged: list[History] = []
        for sentence in sentences:
            history: History = (0,)
            for symbol in [*sentence, 0]:
                self.create(history)
                self.states[history][symbol] = self.states[history].get(symbol, 0) + 1
                history = (*history, symbol)[-(order - 1) :]
        self.sums = {
            history: sum(
                sum(counts.values()) for longer, counts in self.states.items() if self.backs_off(longer, history)
            )
            for history in self.states
        }

    def create(self, history: History) -> None:
        self.states.setdefault(history, {})
        if len(history) >= self.kept_order:
            self.create(history[1:])

    def backs_off(self, longer: History, history: History) -> bool:
        """Whether it is the history itself or comes to it by dropping elements one by one."""
        while longer != history and len(longer) >= self.kept_order:
            longer = longer[1:]
        return longer == history

    def total(self, history: History) -> int:
        return sum(self.states[history].values())

    def active(self) -> list[History]:
        return [history for history in self.states if self.total(history)]

    def allowed(self, history: History) -> bool:
        total = self.total(history)
        if len(history) < self.kept_order or not total or total != self.sums[history]:
            return False
        longer = [(*history, symbol) for symbol in self.states[history] if symbol]
        return len(history) == self.order - 1 or not any(self.sums.get(h, 0) for h in longer)

    def change(self, history: History) -> np.float32:
        mine, theirs = self.states[history], self.states[history[1:]]
        if not theirs:
            return np.float32(-1e-15) * np.float32(self.total(history))
        return min(log_prob(joined(mine, theirs)) - log_prob(mine) - log_prob(theirs), np.float32(0))

    def prune(self, extra: int) -> None:
        target = sum(len(history) == self.kept_order - 1 for history in self.states) + extra
        first = len(self.active())
        numbers = list(self.states)
        for phase in range(1, 5):
            wanted = first + int((target - first) * phase / 4)
            queue = [(self.change(h), numbers.index(h)) for h in numbers if self.allowed(h)]
            while len(self.active()) > wanted and queue:
                change, number = max(queue)
                queue.remove((change, number))
                history = numbers[number]
                now = self.change(history)
                if abs(change - now) > np.float32(0.001) * (abs(change) + abs(now)):
                    queue.append((now, number))
                    continue
                backoff = history[1:]
                was_allowed = self.allowed(backoff)
                self.states[backoff] = joined(self.states[history], self.states[backoff])
                self.states[history], self.sums[history] = {}, 0
                self.merged.append(history)
                if not was_allowed and self.allowed(backoff):
                    queue.append((self.change(backoff), numbers.index(backoff)))

    def longest_active(self, history: History) -> History:
        while not self.states.get(history):
            history = history[1:]
        return history

    def arcs(self) -> list[list[tuple[int, int, float]]]:
        """Of each active state: (symbol, next state or -1 at the end, probability), sorted."""
        active = self.active()
        return [
            [
                (symbol, active.index(self.longest_active((*h, symbol))) if symbol else -1, count / self.total(h))
                for symbol, count in sorted(self.states[h].items())
            ]
            for h in active
        ]


def joined(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    return {symbol: first.get(symbol, 0) + second.get(symbol, 0) for symbol in {*first, *second}}


def log_prob(counts: dict[int, int]) -> np.float32:
    total = sum(counts.values())
    return np.float32(sum(count * math.log(count / total) for _, count in sorted(counts.items())))
