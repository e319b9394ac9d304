"""Derivatives of sums as copies: a derivative passed on unchanged needs no kernel.

The derivative of a term is the derivative of the sum. A copy is visible to `share_copies`, which lets both
derivatives share storage:

    before                                            after
    plus.Backprop(([], []), [], m4, (&m5, += m6))     m5 = m4
                                                      m6 += m4

Recurrences are left out: the derivatives of many steps share a buffer for a single step, and the copies would stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nnet3.engine.ir.commands import Backprop, Command, MatrixAdd, MatrixCopy
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import with_values


def copy_derivatives(computation: NnetComputation) -> NnetComputation:
    """Write derivatives equal to the output's derivative as copies and additions."""
    if not any(promises.passes_deriv for kernel in computation.kernels for promises in kernel.inputs):
        return computation
    times = Counter(command.kernel for command in computation.commands if isinstance(command, Backprop))
    commands: list[Command] = []
    for command in computation.commands:
        if isinstance(command, Backprop) and times[command.kernel] == 1:
            commands += _spelled_out(computation, command)
        else:
            commands.append(command)
    if all(one is other for one, other in zip(commands, computation.commands, strict=False)):
        return computation
    result = computation.copy()
    result.commands = commands
    return result


def _spelled_out(computation: NnetComputation, command: Backprop) -> Iterator[Command]:
    """Yields the copies for a command, and the rest of the command."""
    kernel = computation.kernels[command.kernel]
    written, added = list(command.input_derivs), list(command.added_derivs)
    copies: list[Command] = []
    for index, promises in enumerate(kernel.inputs):
        if promises.passes_deriv and written[index]:
            copies.append(MatrixCopy(written[index], command.output_deriv))
            written[index] = 0
        elif promises.passes_deriv and added[index]:
            copies.append(MatrixAdd(added[index], command.output_deriv))
            added[index] = 0
    learns = command.update and kernel.learns
    if not copies:
        yield command
    elif any(written) or any(added) or learns or command.memo >= 0:
        yield with_values(command, input_derivs=tuple(written), added_derivs=tuple(added))
    yield from copies
