"""Programs with Repeat: their bodies, and equal programs without Repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nnet3.engine.ir.commands_control import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, with_operands, with_values


def turns_unrolled(computation: NnetComputation) -> Iterator[tuple[Repeat, range]]:
    """Yields each Repeat with the numbers of its commands in the unrolled program, for all turns."""
    more = 0
    for repeat, body in computation.repeats():
        first, count = body.start - 1 + more, repeat.turns * repeat.length
        yield repeat, range(first, first + count)
        more += count - repeat.length - 1


class Positions:
    """The positions of commands in the unrolled program, as arrays (commands,).

    Command c is at first[c] + i * length[c] in turn i of turns[c]; outside of bodies it has one turn, a Repeat none.
    """

    def __init__(self, computation: NnetComputation) -> None:
        count = len(computation.commands)
        self.first, self.turns, self.length = np.arange(count), np.ones(count, np.int64), np.ones(count, np.int64)
        for repeat, body in computation.repeats():
            self.turns[body.start : body.stop], self.length[body.start : body.stop] = repeat.turns, repeat.length
            self.turns[body.start - 1] = 0
            self.first[body.start :] -= 1
            self.first[body.stop :] += (repeat.turns - 1) * repeat.length

    def command_at(self, position: int) -> tuple[int, int]:
        """Returns the command at a position, and in which turn."""
        turn, rest = np.divmod(position - self.first, self.length)
        (found,) = np.flatnonzero((rest == 0) & (turn >= 0) & (turn < self.turns))[-1:]
        return int(found), int(turn[found])


def rows_in_turns(computation: NnetComputation, submatrix: int, turns: int) -> np.ndarray:
    """Returns the first row and the number of rows of a sub-matrix in each of so many turns, (turns, 2)."""
    uneven = computation.turns.get(submatrix)
    if uneven is not None:
        return uneven[:turns]
    block = computation.submatrices[submatrix]
    first = block.row_offset + block.row_step * np.arange(turns)
    return np.stack([first, np.full(turns, block.num_rows)], axis=1)


def unrolled(computation: NnetComputation) -> NnetComputation:
    """Returns the program with the body of each Repeat written out for every turn; itself without any Repeat."""
    found = list(computation.repeats())
    if not found:
        return computation
    result = replace(computation.copy(), commands=[], turns={})
    start = 0
    for repeat, body in found:
        result.commands += computation.commands[start : body.start - 1]
        for turn in range(repeat.turns):
            for number in body:
                result.commands.append(_at_turn(computation, result, computation.commands[number], turn, repeat))
        start = body.stop
    result.commands += computation.commands[start:]
    return result


def _at_turn(
    computation: NnetComputation, result: NnetComputation, command: Command, turn: int, repeat: Repeat
) -> Command:
    numbers = [result.find_or_add(computation.block_at(s, turn)) for s in command.form.operands(command)]
    return with_references_moved(with_operands(command, numbers), repeat, turn)


def with_references_moved(command: Command, repeat: Repeat, turn: int) -> Command:
    """Returns a command of a body with the memos and precomputed entries of a later turn."""
    steps = {"memos": turn * repeat.memo_step, "precomputed": turn * repeat.precomputed_step}
    if not any(steps.values()):
        return command
    references = command.form.references(command)
    return with_values(command, **{name: getattr(command, name) + steps[to] for name, to in references})
