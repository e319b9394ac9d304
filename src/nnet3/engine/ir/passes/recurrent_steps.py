"""The steps of a recurrence: the commands of one kernel and node within a segment, and commands put around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from nnet3.engine.ir.commands import Backprop, Command, Propagate, SegmentMarker
from nnet3.engine.ir.computation import NnetComputation

C = TypeVar("C", bound=Command)
K = TypeVar("K", Propagate, Backprop)


def steps_of_kernels(computation: NnetComputation, kind: type[K], is_step: Callable[[K], bool]) -> list[list[int]]:
    """Returns the numbers of the steps among commands of a kind, grouped by kernel, node and segment."""
    found: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    segment = 0
    for number, command in enumerate(computation.commands):
        if type(command) is kind:
            if is_step(command):
                found[command.kernel, command.node, segment].append(number)
        elif type(command) is SegmentMarker:
            segment += 1
    return list(found.values())


def step_of(computation: NnetComputation, number: int, kind: type[C]) -> C:
    """Returns the command with this number, which is of a kind."""
    command = computation.commands[number]
    assert isinstance(command, kind)
    return command


class Rewriting:
    """Puts commands before, after and instead of commands with given numbers."""

    def __init__(self, computation: NnetComputation) -> None:
        self.computation = computation
        self.before: dict[int, list[Command]] = defaultdict(list)
        self.instead: dict[int, list[Command]] = {}
        self.after: dict[int, list[Command]] = defaultdict(list)

    def finish(self) -> NnetComputation:
        """Returns the computation, with the commands put at their positions."""
        old, start, commands = self.computation.commands, 0, list[Command]()
        for number in sorted({*self.before, *self.instead, *self.after}):
            commands += old[start:number]
            commands += self.before.get(number, ())
            commands += self.instead.get(number, (old[number],))
            commands += self.after.get(number, ())
            start = number + 1
        self.computation.commands = commands + old[start:]
        return self.computation
