"""ProgramColumns: the columns of a program's sub-matrices and the operands of its commands, as tables."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.variables import block_table


class CommandRows(NamedTuple):
    """The commands of a class that have equally many operands: their numbers, and operands (commands, operands)."""

    command_class: Any
    numbers: list[int]
    operands: npt.NDArray[np.int64]


class ProgramColumns:
    """The columns of all sub-matrices, and the operands of all commands.

    `spans`: (matrix, first column, number of columns); `span` (sub-matrices,): the number of each sub-matrix's.
    """

    def __init__(self, computation: NnetComputation) -> None:
        columns = block_table(computation)[:, [0, 3, 4]]
        base = 1 + int(columns[:, 1:].max())
        _, first, self.span = np.unique(
            (columns[:, 0] * base + columns[:, 1]) * base + columns[:, 2], return_index=True, return_inverse=True
        )
        self.spans: list[list[int]] = columns[first].tolist()
        found: dict[tuple[type[Command], int], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        for number, command in enumerate(computation.commands):
            own = command.schema.operands(command)
            found[type(command), len(own)].append((number, own))
        self.commands = [
            CommandRows(command_class, [number for number, _ in rows], np.array([own for _, own in rows], np.int64))
            for (command_class, _), rows in found.items()
        ]


def keys_of_rows(*columns: npt.ArrayLike) -> list[bytes]:
    """Returns a key for each row of integers, columns (rows,) or (rows, some) side by side: equal for equal rows."""
    rows = np.column_stack(columns).astype(np.int64)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
