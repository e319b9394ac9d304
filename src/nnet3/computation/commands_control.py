"""Commands that speak to the user, and commands about the order of commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nnet3.computation.declarations import Command, Reads, Text, Writes
from nnet3.computation.formatting import format_submatrix
from nnet3.computation.shape_rules import Problems, same_columns

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation


@dataclass(frozen=True)
class AcceptInput(Command):
    """dest = what the user gave under this name (a value, or an output's derivative)."""

    always_acts: ClassVar[bool] = True
    dest: Writes
    name: Text

    def problems(self, computation: NnetComputation) -> Problems:
        known = {i.name: i.value for i in computation.inputs} | {
            o.name: o.deriv for o in computation.outputs if o.deriv
        }
        if self.name not in known:
            yield f"'{self.name}' is not an input or an output with derivative of this computation"
        yield from same_columns(computation, dest=self.dest, declared=known[self.name])

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.dest)} = user input [for node: '{self.name}']"


@dataclass(frozen=True)
class ProvideOutput(Command):
    """Hand a value, or an input's derivative, to the user under this name."""

    always_acts: ClassVar[bool] = True
    source: Reads
    name: Text

    def problems(self, computation: NnetComputation) -> Problems:
        known = {i.name: i.deriv for i in computation.inputs if i.deriv} | {
            o.name: o.value for o in computation.outputs
        }
        if self.name not in known:
            yield f"'{self.name}' is not an output or an input with derivative of this computation"
        yield from same_columns(computation, source=self.source, declared=known[self.name])

    def text(self, computation: NnetComputation) -> str:
        return f"output {format_submatrix(computation, self.source)} to user [for node: '{self.name}']"


class _WithoutOperands(Command):
    def problems(self, computation: NnetComputation) -> Problems:
        return iter(())


@dataclass(frozen=True)
class NoOp(_WithoutOperands):
    """Nothing; passes may leave it where a command was."""

    def text(self, computation: NnetComputation) -> str:
        return "[no-op]"


@dataclass(frozen=True)
class SegmentMarker(_WithoutOperands):
    """A run stops here and goes on with the next call, for instance with the backward part."""

    always_acts: ClassVar[bool] = True

    def text(self, computation: NnetComputation) -> str:
        return "[end of segment]"


@dataclass(frozen=True)
class Label(_WithoutOperands):
    """A place that a Goto names."""

    always_acts: ClassVar[bool] = True
    name: Text

    def text(self, computation: NnetComputation) -> str:
        return f"[label {self.name}]"


@dataclass(frozen=True)
class Goto(_WithoutOperands):
    """Continue at the label."""

    always_acts: ClassVar[bool] = True
    label: Text

    def text(self, computation: NnetComputation) -> str:
        return f"goto {self.label}"
