"""The steps of a recurrence: the commands of one kernel and node within a segment, and commands put around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from nnet3.engine.ir.commands import Backprop, Command, Propagate, SegmentMarker
from nnet3.engine.ir.computation import NnetComputation

K = TypeVar("K", Propagate, Backprop)


def steps_of_kernels(computation: NnetComputation, kind: type[K], is_step: Callable[[K], bool]) -> list[list[int]]:
    """Returns the numbers of the steps among commands of a kind, grouped by kernel, node and segment."""
    found: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    segment = 0
    for number, command in enumerate(computation.commands):
        segment += isinstance(command, SegmentMarker)
        if isinstance(command, kind) and is_step(command):
            found[command.kernel, command.node, segment].append(number)
    return list(found.values())


class Rewriting:
    """Puts commands before, after and instead of commands with given numbers."""

    def __init__(self, computation: NnetComputation) -> None:
        self.computation = computation
        self.before: dict[int, list[Command]] = defaultdict(list)
        self.instead: dict[int, list[Command]] = {}
        self.after: dict[int, list[Command]] = defaultdict(list)

    def finish(self) -> NnetComputation:
        """Returns the computation, with the commands put at their positions."""
        self.computation.commands = list(self._commands())
        return self.computation

    def _commands(self) -> Iterator[Command]:
        for number, command in enumerate(self.computation.commands):
            yield from self.before.get(number, ())
            yield from self.instead.get(number, (command,))
            yield from self.after.get(number, ())
