"""Programs with Repeat: their bodies, and equal programs without Repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nnet3.engine.ir.commands_control import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, with_operands, with_values


def iterations_unrolled(computation: NnetComputation) -> Iterator[tuple[Repeat, range]]:
    """Yields each Repeat with the numbers of its commands in the unrolled program, for all iterations."""
    more = 0
    for repeat, body in computation.repeats():
        first, count = body.start - 1 + more, repeat.iterations * repeat.length
        yield repeat, range(first, first + count)
        more += count - repeat.length - 1


class Positions:
    """The positions of commands in the unrolled program, as arrays (commands,).

    Command c is at first[c] + i * length[c] in iteration i of iterations[c]; outside of bodies it has one iteration, a
    Repeat none."""

    def __init__(self, computation: NnetComputation) -> None:
        count = len(computation.commands)
        self.first, self.iterations, self.length = np.arange(count), np.ones(count, np.int64), np.ones(count, np.int64)
        for repeat, body in computation.repeats():
            own = slice(body.start, body.stop)
            self.iterations[own], self.length[own] = repeat.iterations, repeat.length
            self.iterations[body.start - 1] = 0
            self.first[body.start :] -= 1
            self.first[body.stop :] += (repeat.iterations - 1) * repeat.length

    def command_at(self, position: int) -> tuple[int, int]:
        """Returns the command at a position, and in which iteration."""
        iteration, rest = np.divmod(position - self.first, self.length)
        (found,) = np.flatnonzero((rest == 0) & (iteration >= 0) & (iteration < self.iterations))[-1:]
        return int(found), int(iteration[found])


def rows_in_iterations(computation: NnetComputation, submatrix: int, iterations: int) -> np.ndarray:
    """Returns the first row and the number of rows of a sub-matrix in each of so many iterations, (iterations, 2)."""
    uneven = computation.iterations.get(submatrix)
    if uneven is not None:
        return uneven[:iterations]
    block = computation.submatrices[submatrix]
    return np.arange(iterations)[:, np.newaxis] * (block.row_step, 0) + (block.row_offset, block.num_rows)


def unrolled(computation: NnetComputation) -> NnetComputation:
    """Returns the program with the body of each Repeat written out for every iteration; itself without any Repeat."""
    found = list(computation.repeats())
    if not found:
        return computation
    result = replace(computation.copy(), commands=[], iterations={})
    start = 0
    for repeat, body in found:
        result.commands += computation.commands[start : body.start - 1]
        for iteration in range(repeat.iterations):
            for command in computation.commands[body.start : body.stop]:
                blocks = [computation.block_at(number, iteration) for number in command.schema.operands(command)]
                moved = with_operands(command, list(map(result.find_or_add, blocks)))
                result.commands.append(with_references_moved(moved, repeat, iteration))
        start = body.stop
    result.commands += computation.commands[start:]
    return result


def with_references_moved(command: Command, repeat: Repeat, iteration: int) -> Command:
    """Returns a command of a body with the memos and precomputed entries of a later iteration."""
    steps = {"memos": iteration * repeat.memo_step, "precomputed": iteration * repeat.precomputed_step}
    if not any(steps.values()):
        return command
    references = command.schema.references(command)
    return with_values(command, **{name: getattr(command, name) + steps[to] for name, to in references})
