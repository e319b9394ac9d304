"""RowLinks: the input rows seen by every output row of a kernel with indexes, so that layouts may differ.

All programs made by passes from one program have the rows of a kernel in one order. A program made of other programs
may have the rows in another order, and rows without readers. There an output row depends on the input rows its
kernel looks at, and rows count with times instead of row numbers:

    output t = 3 looks at t = 2, 3, 4         row 0 of the output looks at rows 5, -1, 7 of the input
    without a row of t = 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nnet3.base.index import IndexTable, T, find_rows
from nnet3.engine.ir.program_tables import ProgramTables, SubMatrix
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.field import Elements, reduced
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.errors import ProofError

#: Rows at which a kernel is asked where it looks: at several times and x.
_PROBED = np.array([(0, 0, 0), (0, 1, 1), (0, 7, 3), (0, -2, -2)], np.int32)
#: From the name of a node and indexes of its output (rows, 3) to those at which its kernel looks, (rows, slots, 3).
LooksAt = Callable[[str, IndexTable], IndexTable]


class RowLinks(NamedTuple):
    """The rows of a kernel's input and output: the input rows at which each output row looks, and random elements."""

    looked_at: np.ndarray  # (output rows, slots), -1 for none
    of_slots: Elements  # (slots, 2)
    of_outputs: Elements  # (output rows, 2), by their times
    of_inputs: Elements  # (input rows, 2), by their times

    def gathered(self, digests: Elements, base: np.uint64) -> Elements:
        """Returns for each output row a random function of digests of the input rows it looks at, (output rows, 2)."""
        found = field.hashed(reduced(digests[self.looked_at] + self.of_slots), base)
        found[self.looked_at < 0] = 0
        return reduced(np.add.reduce(found, 1))

    def scattered(self, sent: Elements, state: Elements, base: np.uint64) -> Elements:
        """Returns the sums of the elements sent by output rows to the input rows they look at, (input rows, 2)."""
        factors = field.hashed(reduced(state[:, None] + self.of_slots), base)
        terms = field.product(factors, sent[:, None])
        result = np.zeros_like(self.of_inputs)
        rows, slots = np.nonzero(self.looked_at >= 0)
        np.add.at(result, self.looked_at[rows, slots], terms[rows, slots])
        return reduced(result)


def links_of(
    computation: ProgramTables,
    randoms: Randoms,
    looks_at: LooksAt,
    node: str,
    blocks: Sequence[SubMatrix],
    entry: int,
) -> RowLinks | None:
    """Returns the links of a kernel's command; None if the program does not say the indexes of the rows.

    `blocks`: those of the input, or of the input's derivative, and of the output.
    """
    if np.array_equal(looks_at(node, _PROBED), _PROBED[:, np.newaxis]):
        return _own_rows(computation, randoms, node, blocks[1].num_rows, entry)
    rows = _rows(computation, blocks, entry)
    if rows is None:
        return None
    inputs, outputs = rows
    looked = looks_at(node, outputs)
    found = find_rows(inputs, looked.reshape(-1, 3)).reshape(looked.shape[:2])
    slots = randoms.of_rows((node, "slots"), looked.shape[1])
    of_outputs, of_inputs = (field.drawn(randoms.key(node, "times"), *rows[:, T:].T) for rows in (outputs, inputs))
    return RowLinks(found, slots, of_outputs, of_inputs)


def _own_rows(computation: ProgramTables, randoms: Randoms, node: str, count: int, entry: int) -> RowLinks:
    """Returns the links of a kernel looking at its own rows: precomputed numbers of a row identify the row anywhere."""
    arrays = computation.precomputed[entry] or {}
    numbers = [array.reshape(count, -1) for _, array in sorted(arrays.items()) if array.ndim and len(array) == count]
    of_rows = field.drawn(randoms.key(node, "own"), *np.hstack([np.zeros((count, 1)), *numbers]).astype(np.int64).T)
    return RowLinks(np.arange(count)[:, np.newaxis], randoms.of_rows((node, "slots"), 1), of_rows, of_rows)


def _rows(computation: ProgramTables, blocks: Sequence[SubMatrix], entry: int) -> list[IndexTable] | None:
    """Returns the indexes of the rows of input and output, from the precomputed entry or else the matrices."""
    counts = [block.num_rows for block in blocks]
    known = computation.precomputed_rows[entry - 1] if 0 < entry <= len(computation.precomputed_rows) else None
    if known is not None:
        if [len(known.inputs), len(known.outputs)] != counts:
            raise ProofError(
                f"entry {entry} was precomputed for {len(known.inputs)} rows of input and {len(known.outputs)} rows of "
                f"output, and there are {counts[0]} and {counts[1]}"
            )
        return [known.inputs, known.outputs]
    found = []
    for block in blocks:
        info = computation.matrix_info.get(block.matrix)
        if info is not None and info.indexes is not None:
            found.append(info.indexes[block.row_offset : block.row_offset + block.num_rows])
    return found if [len(rows) for rows in found] == counts else None
