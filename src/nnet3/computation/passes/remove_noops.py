"""Drop the commands that do nothing."""

from __future__ import annotations

from nnet3.computation.commands import NoOp
from nnet3.computation.computation import NnetComputation


def remove_noops(computation: NnetComputation) -> NnetComputation:
    """The computation without its NoOps."""
    commands = [command for command in computation.commands if not isinstance(command, NoOp)]
    if len(commands) == len(computation.commands):
        return computation
    result = computation.copy()
    result.commands = commands
    return result
