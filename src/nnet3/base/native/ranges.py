"""The memory read and written by operations in the iterations of a loop, and a check that it is the program's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from torch import Tensor

from nnet3.base.native.codes import Code
from nnet3.base.native.operations import (
    ADDRESSES,
    COUNTED,
    FLOAT_BYTES,
    NUM_MATRICES,
    OF_ROW,
    OF_TURN,
    SCRATCH,
    SIZES,
    STRIDES,
    TABLE,
)
from nnet3.base.native.panels import columns_of_panel
from nnet3.errors import ExecutionError

# The sizes that matrices have: one, then those of the operation in their order, and some that are made of them.
_ONE, ROWS, _COLUMNS, _INNER, _TWO_CELLS, _THREE_CELLS, _LSTM_INPUT, _NUM_PANELS, _OF_PANEL, NUM_SIZES = range(10)
_BY_ELEMENT = ((ROWS, _COLUMNS),) * NUM_MATRICES
_AS_DEST, _OF_X, _NONE = (ROWS, _COLUMNS), (ROWS, _INNER), (_ONE, _ONE)
#: Rows and columns of each matrix, where they are not those of the operation. Without an address there is no matrix.
_SHAPES = {
    Code.PRODUCT: (_AS_DEST, _OF_X, (_COLUMNS, _INNER), _AS_DEST, _NONE, _NONE),
    Code.COMBINE: (_AS_DEST, _OF_X, (_INNER, _COLUMNS), _AS_DEST, _NONE, _NONE),
    Code.PACK: (_NONE, _NONE, (_COLUMNS, _INNER), _NONE, _NONE, _NONE),
    Code.PANELS: (_AS_DEST, _OF_X, (_NUM_PANELS, _OF_PANEL), _AS_DEST, _NONE, _NONE),
    Code.SUM_ROWS: ((_ONE, _COLUMNS), _AS_DEST, _AS_DEST, (_ONE, _COLUMNS), _NONE, _NONE),
    Code.LSTM: ((ROWS, _TWO_CELLS), (ROWS, _LSTM_INPUT), (ROWS, _THREE_CELLS), _NONE, _NONE, _NONE),
}
#: Operation and matrix whose columns do not lie side by side, and the stride that says how far apart they lie.
_COLUMN_STRIDES = {(Code.COMBINE, 1): 4, (Code.PACK, 2): 3}
#: Matrices that are written besides the first.
_WRITTEN = {(Code.GRU, 5)}

_shapes = np.array([_SHAPES.get(code, _BY_ELEMENT) for code in Code])  # (codes, matrices, 2)
_is_written = np.zeros(_shapes.shape[:2], bool)
_is_written[:, 0] = True
for _index in _WRITTEN:
    _is_written[_index] = True


def forms_of(operations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sizes of rows and columns of all matrices, by number, and strides, (operations, matrices, 2) each.

    Sizes 1 to 3 are rows, columns and the inner size of the operation; other numbers stand for other sizes. The row
    stride is 0 for a matrix of one row, and the column stride is mostly 1.
    """
    code = operations[:, 0]
    strides = np.stack([operations[:, STRIDES], np.ones((len(operations), NUM_MATRICES), np.int64)], axis=2)
    for (kind, matrix), index in _COLUMN_STRIDES.items():
        strides[code == kind, matrix, 1] = operations[code == kind, STRIDES][:, index]
    return _shapes[code], strides


def _made_of() -> np.ndarray:
    """Returns how often each size contains one, rows, columns, the inner size and the number of panels, (sizes, 5)."""
    made_of = np.zeros((NUM_SIZES, 5), np.int64)
    made_of[[_ONE, ROWS, _COLUMNS, _INNER, _NUM_PANELS], range(5)] = 1
    made_of[[_TWO_CELLS, _THREE_CELLS, _LSTM_INPUT], 2] = 2, 3, 5
    made_of[[_LSTM_INPUT, _OF_PANEL], 3] = 3, columns_of_panel()
    return made_of


class Ranges:
    """The memory of the matrices of operations: made once, asked for every set of addresses and iterations.

    Operations, moves and tables as in operations.c.
    """

    def __init__(self, operations: np.ndarray, moves: np.ndarray) -> None:
        #: Operation and matrix, of those that there are, (matrices,) each.
        self._number, self._matrix = np.nonzero(operations[:, ADDRESSES])
        self._kinds = operations[self._number, 0]
        index = self._number, self._matrix
        shapes, self._strides = (each[index] for each in forms_of(operations))
        self._made_of = _made_of()[shapes]  # (matrices, rows and columns, what they are made of)
        self.is_written = _is_written[self._kinds, self._matrix]
        self._of_iteration, self._of_row, self._table = (moves[:, part][index] for part in (OF_TURN, OF_ROW, TABLE))
        self._counted, self._sizes = moves[self._number, COUNTED], operations[self._number, SIZES]
        found = np.unique(moves[:, TABLE.start :])
        self.tables: list[int] = found[found >= 0].tolist()
        self._bytes = self._bytes_of(self._sizes)

    def resize(self, operations: np.ndarray) -> None:
        """Takes the ranges of operations that differ in sizes and addresses alone."""
        self._sizes = operations[self._number, SIZES]
        self._bytes = self._bytes_of(self._sizes)

    def __call__(
        self, addresses: np.ndarray, tables: Sequence[np.ndarray], num_iterations: int | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the begin and the end of the memory of each matrix in all iterations together; equal for no memory.

        `addresses`: of the operations in the first iteration, (operations, matrices). `num_iterations`: of all
        operations; without tables also of each, (operations,).
        """
        begin = addresses[self._number, self._matrix]
        if not self.tables:
            after_first = np.full(len(addresses), num_iterations)[self._number] - 1
            last = FLOAT_BYTES * after_first * self._of_iteration * (self._bytes > 0)
            return begin + np.minimum(last, 0), begin + np.maximum(last, 0) + self._bytes
        assert isinstance(num_iterations, int)
        iterations = np.arange(num_iterations)
        blocks = np.zeros((len(tables) + 1, num_iterations, 2), np.int64)  # the last ones for no table
        for each in self.tables:
            blocks[each] = tables[each][:num_iterations]
        sizes = np.where(self._counted[:, None] < 0, self._sizes[:, None], blocks[self._counted, :, 1].swapaxes(1, 2))
        steps = iterations * self._of_iteration[:, None] + blocks[self._table, :, 0] * self._of_row[:, None]
        num_bytes = self._bytes_of(sizes)  # (matrices, iterations)
        limits, starts = np.iinfo(np.int64), begin[:, None] + FLOAT_BYTES * steps
        first = np.where(num_bytes > 0, starts, limits.max).min(axis=1)
        end = np.where(num_bytes > 0, starts + num_bytes, limits.min).max(axis=1)
        return np.where(end > first, first, begin), np.where(end > first, end, begin)

    def _bytes_of(self, sizes: np.ndarray) -> np.ndarray:
        """Returns the bytes from first to last number of each matrix; sizes (matrices, ..., 3)."""
        rows, columns, inner = np.moveaxis(sizes, -1, 0)
        known = np.stack([np.ones_like(rows), rows, columns, inner, -(-columns // columns_of_panel())], axis=-1)
        num_rows, num_columns = (np.einsum("ms,m...s->m...", self._made_of[:, axis], known) for axis in (0, 1))
        of_row, of_column = (self._strides[:, axis].reshape(-1, *[1] * (sizes.ndim - 2)) for axis in (0, 1))
        floats = (num_rows - 1) * of_row + (num_columns - 1) * of_column + 1
        return FLOAT_BYTES * np.where((num_rows > 0) & (num_columns > 0), floats, 0)

    def name_of(self, index: int) -> str:
        """Returns a name for the matrix at an index: its number, its operation and the operation's kind."""
        return f"matrix {self._matrix[index]} of operation {self._number[index]} (kind {self._kinds[index]})"


class ReachableMemory:
    """The memory that operations may use: some tensors may be written, the rest only read."""

    def __init__(self, written: Iterable[Tensor], read: Iterable[Tensor]) -> None:
        written = list(written)
        self._written, self._all = _sorted_stretches(written), _sorted_stretches([*written, *read])

    def check(self, ranges: Ranges, addresses: np.ndarray, tables: Sequence[np.ndarray], num_iterations: int) -> None:
        """Checks that operations with these addresses use reachable memory, from the first iteration to the last.

        Raises ExecutionError for memory out of reach.
        """
        if any(len(tables[each]) < num_iterations for each in ranges.tables):
            raise ExecutionError(
                f"a table of rows has fewer than the {num_iterations} iterations of its loop{_NOT_YOURS}"
            )
        begin, end = ranges(addresses, tables, num_iterations)
        is_right = self._holds(ranges, begin, end)
        if not is_right.all():
            index = int(np.argmin(is_right))
            raise ExecutionError(
                f"native code would use {end[index] - begin[index]} bytes for {ranges.name_of(index)} in "
                f"{num_iterations} iterations that are none of this program{_NOT_YOURS}"
            )

    def holds(self, ranges: Ranges, addresses: np.ndarray, num_iterations: np.ndarray) -> bool:
        """Returns true if operations without tables use reachable memory in `num_iterations` (operations,)."""
        return bool(self._holds(ranges, *ranges(addresses, (), num_iterations)).all())

    def _holds(self, ranges: Ranges, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        is_right = _are_inside(self._all, begin, end)
        is_right &= ~ranges.is_written | _are_inside(self._written, begin, end)
        return is_right | (end == begin)


_NOT_YOURS = ". This is a fault of nnet3: please report it; NNET3_NATIVE=0 in the environment works without native code"


def check_scratch(operations: np.ndarray, moves: np.ndarray, num_floats: int, width: int) -> None:
    """Checks that panels made by operations lie in the `num_floats` floats of scratch memory. Raises ExecutionError."""
    code, is_read = operations[:, 0], operations[:, ADDRESSES][:, 2] == 0
    has_panels = (code == Code.PACK) | ((code == Code.PANELS) & is_read)
    columns, inner = operations[has_panels][:, SIZES][:, 1:].T
    begin, changes = operations[has_panels, SCRATCH], moves[has_panels, -2:] >= 0
    if changes.any() or ((begin < 0) | (begin + -(-columns // width) * width * inner > num_floats)).any():
        raise ExecutionError(f"panels of native code do not fit into {num_floats} floats of scratch memory{_NOT_YOURS}")


def stretch_of(tensor: Tensor) -> tuple[int, int]:
    """Returns where a tensor's memory begins, and where it ends."""
    if not tensor.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize


def _sorted_stretches(tensors: Sequence[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the begins of stretches of memory, in order, and the farthest end of all stretches begun up to there."""
    found = np.array(sorted({(0, 0), *map(stretch_of, tensors)}), np.int64)
    return found[:, 0], np.maximum.accumulate(found[:, 1])


def _are_inside(stretches: tuple[np.ndarray, np.ndarray], begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    starts, ends = stretches
    index = np.searchsorted(starts, begin, side="right") - 1
    is_inside: np.ndarray = (index >= 0) & (end <= ends[index])
    return is_inside
