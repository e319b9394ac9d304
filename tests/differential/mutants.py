"""Passes that are broken on purpose: comparisons that find nothing wrong with them could find nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest import mock

from nnet3.engine.ir.commands import Command, DeallocMatrix, MatrixAdd, MatrixCopy, Propagate, with_values
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Role
from nnet3.engine.ir.passes.merging import MergeConflicts
from nnet3.engine.ir.passes.pipeline import Pass

Function = Callable[[NnetComputation], NnetComputation]


def mutant(one: Pass) -> Pass:
    """The pass with a bug; one that is not known here drops a command that it should not."""
    return replace(one, function=_MUTANTS.get(one.name, _drops_a_command)(one.function))


def _with_commands(computation: NnetComputation, commands: Sequence[Command]) -> NnetComputation:
    result = computation.copy()
    result.commands = list(commands)
    return result


def _drops_a_command(function: Function) -> Function:
    """Where it changes anything: the last command that computes goes too."""

    def broken(computation: NnetComputation) -> NnetComputation:
        result = function(computation)
        places = [n for n, command in enumerate(result.commands) if command.role is Role.COMPUTE]
        if result is computation or not places:
            return result
        return _with_commands(result, result.commands[: places[-1]] + result.commands[places[-1] + 1 :])

    return broken


def _exchanges_steps(function: Function) -> Function:
    """The first two steps take what was multiplied for the other one."""

    def broken(computation: NnetComputation) -> NnetComputation:
        result = function(computation)
        steps = [n for n, c in enumerate(result.commands) if isinstance(c, Propagate) and len(c.inputs) == 2]
        if result is computation or len(steps) < 2:
            return result
        commands = list(result.commands)
        one, other = (commands[number] for number in steps[:2])
        assert isinstance(one, Propagate)
        assert isinstance(other, Propagate)
        if result.submatrices[one.inputs[1]].num_rows == result.submatrices[other.inputs[1]].num_rows:
            commands[steps[0]] = with_values(one, inputs=(one.inputs[0], other.inputs[1]))
            commands[steps[1]] = with_values(other, inputs=(other.inputs[0], one.inputs[1]))
        return _with_commands(result, commands)

    return broken


def _sees_no_conflicts(function: Function) -> Function:
    def broken(computation: NnetComputation) -> NnetComputation:
        with mock.patch.object(MergeConflicts, "found", return_value=set()):
            return function(computation)

    return broken


def _takes_all_for_signs(function: Function) -> Function:
    """What any kernel reads backward is compressed."""

    def broken(computation: NnetComputation) -> NnetComputation:
        careless = computation.copy()
        careless.kernels = [replace(kernel, backprop_needs_sign_only=True) for kernel in computation.kernels]
        result = function(careless)
        if result is careless:
            return computation
        result.kernels = list(computation.kernels)
        return result

    return broken


def _ends_lives_early(function: Function) -> Function:
    """Matrices end before their last use."""

    def broken(computation: NnetComputation) -> NnetComputation:
        result = function(computation)
        commands = list(result.commands)
        for number in range(1, len(commands)):
            if isinstance(commands[number], DeallocMatrix) and commands[number - 1].role is Role.COMPUTE:
                commands[number - 1 : number + 1] = commands[number], commands[number - 1]
        return _with_commands(result, commands)

    return broken


def almost_right(function: Function) -> Function:
    """The first sum or copy of a block has a factor that is off by 1e-7."""

    def broken(computation: NnetComputation) -> NnetComputation:
        result = function(computation)
        commands = list(result.commands)
        number = next(n for n, command in enumerate(commands) if isinstance(command, MatrixCopy | MatrixAdd))
        command = commands[number]
        assert isinstance(command, MatrixCopy | MatrixAdd)
        commands[number] = with_values(command, scale=command.scale * (1 + 1e-7))
        return _with_commands(result, commands)

    return broken


_MUTANTS: dict[str, Callable[[Function], Function]] = {
    "hoist_products": _exchanges_steps,
    "share_copies": _sees_no_conflicts,
    "work_in_place": _sees_no_conflicts,
    "compress_signs": _takes_all_for_signs,
    "move_sizing": _ends_lives_early,
}
