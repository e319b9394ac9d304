"""The commands of a family: each is written once, recurring commands in the body of a Repeat, for any length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnet3.engine.families.continued import NotAffineError, TablePiece
from nnet3.engine.ir.commands_control import Repeat
from nnet3.engine.ir.declarations import REFERS_TO_NONE, Command, with_values


class CommandPattern(NamedTuple):
    """Commands that differ in numbers only: a sample command, and the positions of numbers in a row of the table.

    Each operand has two numbers, first row and rows; each further field has one, behind the numbers of all operands.
    """

    command: Command
    blocks: tuple[tuple[int, int, int], ...]  # matrix, column and columns of each operand
    others: tuple[str, ...]


class RolledCommands:
    """The commands of a family as functions of k. The numbers of their sub-matrices are the same for all k."""

    def __init__(
        self, pieces: Iterable[TablePiece], patterns: Sequence[CommandPattern], numbers: type = np.int64
    ) -> None:
        """Raises NotAffineError if a number moves on from iteration to iteration in a way that a Repeat cannot say.

        `numbers`: the type of the pieces' numbers; `object` where they depend on parameters.
        """
        self._commands: list[Command] = []
        self._changing: list[tuple[int, str, int, int]] = []  # command, field, and its number: base + k * slope
        self._numbers: dict[tuple[int, ...], int] = {}  # of blocks, see `blocks_at`
        for piece in pieces:
            self._add(piece, patterns)
        blocks = list(self._numbers)
        self._blocks: np.ndarray = np.array(blocks, dtype=numbers).reshape(-1, 8)

    def blocks_at(self, k: Any) -> np.ndarray:
        """Returns the sub-matrices behind the empty one, (sub-matrices, 6)."""
        blocks = self._blocks[:, :6].copy()
        blocks[:, 1:3] += self._blocks[:, 6:] * k
        return blocks

    def commands_at(self, k: Any) -> list[Command]:
        commands = list(self._commands)
        for position, name, base, slope in self._changing:
            commands[position] = with_values(commands[position], **{name: base + k * slope})
        return commands

    def _add(self, piece: TablePiece, patterns: Sequence[CommandPattern]) -> None:
        header = len(self._commands)
        if piece.more_iterations:
            self._commands.append(Repeat(piece.iterations, len(piece.labels)))
            self._changing.append((header, "iterations", piece.iterations, piece.more_iterations))
        steps: dict[str, set[int]] = {name: set() for name in REFERS_TO_NONE}
        rows = (piece.base.tolist(), piece.slope.tolist(), piece.step.tolist())
        for label, *numbers in zip(piece.labels.tolist(), *rows, strict=True):
            self._write(patterns[label], numbers, steps)
        if any(len(found) > 1 for found in steps.values()):
            raise NotAffineError("commands: memos of one iteration do not move on alike")
        if piece.more_iterations:
            memo_step, precomputed_step = (max(found, default=0) for found in steps.values())
            repeat = self._commands[header]
            self._commands[header] = with_values(repeat, memo_step=memo_step, precomputed_step=precomputed_step)

    def _write(self, pattern: CommandPattern, numbers: Sequence[Sequence[int]], steps: dict[str, set[int]]) -> None:
        """Add a command, and by how much its references move on; `numbers` are base, slope and step of its row."""
        base, slope, step = numbers
        schema, end = pattern.command.schema, 2 * len(pattern.blocks)
        if any(step[1:end:2]):
            raise NotAffineError("commands: a block has other rows in each iteration")
        operands = [
            self._number((matrix, *base[i : i + 2], column, columns, step[i], *slope[i : i + 2])) if matrix else 0
            for i, (matrix, column, columns) in zip(range(0, end, 2), pattern.blocks, strict=True)
        ]
        others = dict(zip(pattern.others, base[end:], strict=False))
        command = with_values(pattern.command, **dict(schema.values_of_operands(pattern.command, operands)), **others)
        references = dict(schema.references(command))
        for name, change, move in zip(pattern.others, slope[end:], step[end:], strict=False):
            if name in references:
                steps[references[name]].add(move)
            elif move:
                raise NotAffineError(f"commands: {name} is another in each iteration")
            if change:
                self._changing.append((len(self._commands), name, others[name], change))
        self._commands.append(command)

    def _number(self, block: tuple[int, ...]) -> int:
        return self._numbers.setdefault(block, len(self._numbers) + 1)
