"""Commands that exchange matrices with the user, repeat others, and end a segment."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from nnet3.engine.ir.declarations import Command, Number, Reads, Role, Text, Writes
from nnet3.engine.ir.program_tables import ProgramTables
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.shape_rules import Problems, any_sizes, same_columns


@dataclass(frozen=True)
class AcceptInput(Command, role=Role.IO):
    """dest = the user's matrix under this name: a value, or the derivative of an output."""

    dest: Writes
    name: Text

    line = "{dest} = user input [for node: {name!r}]"

    def problems(self, computation: ProgramTables) -> Problems:
        known = {i.name: i.value for i in computation.inputs} | {
            o.name: o.deriv for o in computation.outputs if o.deriv
        }
        if self.name not in known:
            yield f"'{self.name}' is not an input or an output with derivative of this computation"
        yield from same_columns(computation, dest=self.dest, declared=known[self.name])

    def evaluate(self, machine: Machine) -> None:
        machine.accept(self.dest, self.name)

    def columns(self, computation: ProgramTables) -> Iterator[tuple[int, Hashable, int]]:
        yield self.dest, ("name", self.name), 0


@dataclass(frozen=True)
class ProvideOutput(Command, role=Role.IO):
    """Hand a value, or the derivative of an input, to the user under this name."""

    source: Reads
    name: Text

    line = "output {source} to user [for node: {name!r}]"

    def problems(self, computation: ProgramTables) -> Problems:
        known = {i.name: i.deriv for i in computation.inputs if i.deriv} | {
            o.name: o.value for o in computation.outputs
        }
        if self.name not in known:
            yield f"'{self.name}' is not an output or an input with derivative of this computation"
        yield from same_columns(computation, source=self.source, declared=known[self.name])

    def evaluate(self, machine: Machine) -> None:
        machine.provide(self.source, self.name)

    def columns(self, computation: ProgramTables) -> Iterator[tuple[int, Hashable, int]]:
        yield self.source, ("name", self.name), 0


@dataclass(frozen=True)
class Repeat(Command, role=Role.CONTROL):
    """Run the next `length` commands, the body, so many `iterations`.

    In iteration i each sub-matrix of the body lies i * row_step rows further down, memo m is memo m + i * memo_step,
    and precomputed entry p, unless 0, is entry p + i * precomputed_step. A body holds commands that compute, and no
    nested Repeat."""

    iterations: Number
    length: Number
    memo_step: Number = 0
    precomputed_step: Number = 0

    line = "repeat {iterations} times, i = 0:{iterations:-1}, the next {length} commands{notes}"
    notes = ("{memo_step:memo {:+d}i}", "{precomputed_step:precomputed {:+d}i}")

    def problems(self, computation: ProgramTables) -> Problems:
        if self.iterations < 1 or self.length < 1:
            yield f"it repeats {self.length} commands {self.iterations} times; both must be at least 1"

    def evaluate(self, machine: Machine) -> None:
        """The machine runs the body, iteration by iteration."""


@dataclass(frozen=True)
class SegmentMarker(Command, role=Role.CONTROL):
    """End a segment: a run stops here, and the next one goes on, for instance with the backward part."""

    line = "[end of segment]"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        """Nothing changes."""
