"""From a computation to something that runs: bound calls, in segments that one `run()` each goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from nnet3.computation.commands import AcceptInput, Goto, Label, ProvideOutput, SegmentMarker
from nnet3.computation.computation import NnetComputation
from nnet3.computation.kernel import Kernel
from nnet3.compute.arena import Arena
from nnet3.compute.binder import Binder, BoundCall, Kernels, RunState
from nnet3.compute.rules import bind
from nnet3.errors import ExecutionError


@dataclass
class Segment:
    """What one run does: the calls, and the commands that they come from."""

    commands: list[int] = field(default_factory=list)
    calls_of_command: list[list[BoundCall]] = field(default_factory=list)
    calls: list[BoundCall] = field(default_factory=list)
    accepts: dict[str, int] = field(default_factory=dict)  # name -> sub-matrix that is filled
    provides: dict[str, int] = field(default_factory=dict)
    next_start: int = 0  # where the next run begins


@dataclass
class LinkedComputation:
    """A computation bound to memory and kernels. `segments` by the command at which they begin; the first is at 0."""

    computation: NnetComputation
    binder: Binder
    segments: dict[int, Segment]

    @property
    def state(self) -> RunState:
        return self.binder.state

    @property
    def arena(self) -> Arena:
        return self.binder.arena

    def segment_at(self, start: int) -> Segment | None:
        """The segment that begins at command `start`; None if the program ends without doing anything more."""
        return self.segments.get(start)


def link(
    computation: NnetComputation,
    kernels: Mapping[str, Kernel],
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    kernels_to_update: Mapping[str, Kernel] | None = None,
    kernels_to_store_stats: Mapping[str, Kernel] | None = None,
    fill_undefined: bool = False,
) -> LinkedComputation:
    """Plan the memory of all matrices and bind every command once.

    `kernels` are looked up by name now: a kernel that is put in place of another later is not noticed, changes
    of its parameters in place are. `kernels_to_update` is what backward steps update, `kernels_to_store_stats` takes
    the statistics (by default whoever is updated, else `kernels`). With `fill_undefined` matrices that begin
    undefined are filled with NaN, so that reading them shows.

    Raises ExecutionError for a kernel that is not there, an update without kernels to update, a command class
    without a rule, a goto to nowhere, a loop that never stops at a segment marker.
    """
    where = Kernels(kernels, kernels_to_update, kernels_to_store_stats)
    binder = Binder(computation, where, torch.device(device), dtype, fill_undefined)
    segments: dict[int, Segment] = {}
    start = 0
    while start not in segments:
        segment = _bind_segment(binder, start)
        if start > 0 and not segment.calls:
            break
        segments[start] = segment
        start = segment.next_start
    return LinkedComputation(computation, binder, segments)


def _bind_segment(binder: Binder, start: int) -> Segment:
    """Follow the program from `start` to the next segment marker or the end."""
    commands = binder.computation.commands
    labels = {command.name: number for number, command in enumerate(commands) if isinstance(command, Label)}
    segment, gotos, number = Segment(), set(), start
    while number < len(commands):
        command = commands[number]
        binder.command = number
        calls = bind(command, binder)
        segment.commands.append(number)
        segment.calls_of_command.append(calls)
        segment.calls += calls
        if isinstance(command, AcceptInput):
            segment.accepts[command.name] = command.dest
        elif isinstance(command, ProvideOutput):
            segment.provides[command.name] = command.source
        number += 1
        if isinstance(command, SegmentMarker):
            break
        if isinstance(command, Goto):
            if number in gotos:
                raise ExecutionError(f"command c{number - 1} closes a loop in which there is no segment marker")
            gotos.add(number)
            if command.label not in labels:
                known = ", ".join(labels) or "none"
                raise ExecutionError(f"a goto names label '{command.label}', but the labels are: {known}")
            number = labels[command.label]
    segment.next_start = number
    return segment
