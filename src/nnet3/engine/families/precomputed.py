"""Tables of what kernels precompute: the rows behind each entry, and the arrays that go on as these rows do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable
from nnet3.engine.families.number_table import NumberTable, table_of
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Recent
from nnet3.engine.ir.program_tables import KernelRows
from nnet3.engine.lowering.source import GraphSource, Use

Entry = Mapping[str, np.ndarray] | None
#: From rows of a node to what its kernel precomputes of them.
Precompute = Callable[[KernelRows], Entry]

#: The names of the tables.
PRECOMPUTED = _ROWS, _LISTS, _NUMBERS = "precomputed rows", "precomputed lists", "precomputed numbers"
MOST_ENTRIES = 1000  # of which is known whether others are equal
_LONG = 3072  # bytes of the labels and numbers of an entry that is made anew for each program
_COLUMNS = {_ROWS: 3, _LISTS: 1, _NUMBERS: 1}


class KernelRules:
    """The rules of a graph's kernels about their rows, by the name of a node; see `GraphSource`."""

    def __init__(self, source: GraphSource) -> None:
        self._source = source
        self._numbers = {node.name: number for number, node in enumerate(source.nodes)}

    def arrange(self, node: str, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        return self._source.arrange(self._numbers[node], inputs, outputs)

    def operand(self, node: str) -> str:
        """Returns the node whose rows the kernel of `node` reads by index."""
        operands = self._source.nodes[self._numbers[node]].operands
        return self._source.nodes[next(each.node for each in operands if each.use is Use.INDEXED)].name

    def precompute(self, rows: KernelRows) -> Entry:
        number = self._numbers[rows.node]
        return self._source.precompute(number, rows.inputs, rows.outputs, need_backprop=rows.runs_backward)


class ArrayLayout(NamedTuple):
    """An array of an entry; `shape` is the shape of its rows, None for a number without axes."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None

    @property
    def table(self) -> str:
        """The name of the table with the array."""
        return _LISTS if self.shape == () else _NUMBERS


class EntryLayout(NamedTuple):
    """All of a precomputed entry but its numbers. `arrays` is None for an entry made anew, of rows."""

    node: str
    runs_backward: bool
    arrays: tuple[ArrayLayout, ...] | None


def precomputed_tables(
    computation: NnetComputation, layouts: MutableMapping[EntryLayout, int]
) -> dict[str, NumberTable]:
    """Returns three tables of blocks. Labels identify blocks; the label of a block's first row is odd.

    An entry has two blocks of rows, inputs and outputs. One that goes on has a further block for each of its arrays,
    among lists or among numbers. `layouts` numbers the layouts of entries; new layouts are added.
    """
    before = {name: np.zeros((1, columns), np.int64) for name, columns in _COLUMNS.items()}  # each block
    values = {name: [row[:0]] for name, row in before.items()}
    of_blocks = {name: list[tuple[int, int]]() for name in _COLUMNS}  # label and rows

    def add(table: str, layout: int, position: int, block: np.ndarray) -> None:
        values[table] += [before[table], block]
        of_blocks[table].append(((layout << 20) + 4 * position, len(block) + 1))

    def joined(table: str) -> tuple[np.ndarray, np.ndarray]:
        labels, lengths = np.array(of_blocks[table], np.int64).reshape(-1, 2).T
        rows, of_rows = np.concatenate(values[table]), np.repeat(labels, lengths)
        of_rows[np.cumsum(lengths) - lengths] += 1
        return rows, of_rows + 2 * (rows == NO_TIME).any(axis=1)

    for entry, rows in zip(computation.precomputed[1:], computation.precomputed_rows, strict=False):
        own = (entry or {}).items()
        arrays = [ArrayLayout(name, each.dtype.str, each.shape[1:] if each.ndim else None) for name, each in own]
        layout = EntryLayout(rows.node, rows.runs_backward, tuple(arrays) if rows.go_on else None)
        number = layouts.setdefault(layout, len(layouts))
        for position, block in enumerate((rows.inputs, rows.outputs)):
            add(_ROWS, number, position, block)
        for position, array in enumerate(layout.arrays or ()):
            assert entry is not None
            add(array.table, number, position, entry[array.name].reshape(-1, 1))
    return {name: NumberTable(*joined(name)) if name == _NUMBERS else table_of(*joined(name)) for name in _COLUMNS}


def layouts_of_entries(table: NumberTable, layouts: Sequence[EntryLayout]) -> list[EntryLayout]:
    """Returns the layouts of the entries of a table of rows."""
    starts = np.flatnonzero(table.labels & 1)[::2]  # of two blocks each
    return [layouts[number] for number in (table.labels[starts] >> 20).tolist()]


def rows_of_entries(table: NumberTable, layouts: Sequence[EntryLayout]) -> Iterator[tuple[EntryLayout, KernelRows]]:
    """Yields the layouts of the entries of a table of rows, and the rows behind each entry."""
    blocks = _Blocks(table)
    for layout in layouts_of_entries(table, layouts):
        node, runs_backward, arrays = layout
        yield layout, KernelRows(node, runs_backward, blocks.next(), blocks.next(), arrays is not None)


def entries_that_go_on(
    layouts: Iterable[EntryLayout], tables: Sequence[NumberTable], known: Recent[Entry]
) -> Iterator[Entry]:
    """Yields the entries with these layouts, empty ones if they do not go on. `tables`: of lists and of numbers.

    Equal entries are one object, as long as it is known, unless they are long.
    """
    lists, numbers = map(_Blocks, tables)
    for layout, alike in groupby(layouts):
        arrays = layout.arrays or ()
        num_lists = sum(shape == () for _, _, shape in arrays)
        for _ in alike:
            key = lists.key(num_lists), numbers.key(len(arrays) - num_lists)
            entry = known.get(key)
            if entry is None:
                blocks = [(lists if shape == () else numbers).next().astype(dtype) for _, dtype, shape in arrays]
                shapes = [() if shape is None else (-1, *shape) for _, _, shape in arrays]
                entry = {each.name: block.reshape(s) for each, block, s in zip(arrays, blocks, shapes, strict=True)}
                if sum(map(len, key)) <= _LONG:
                    known.use(key, entry)
            else:
                lists.at, numbers.at = lists.at + num_lists, numbers.at + len(arrays) - num_lists
            yield entry


class _Blocks:
    """The blocks of a table; `at`: the number of the next one."""

    def __init__(self, table: NumberTable) -> None:
        self._starts = [*np.flatnonzero(table.labels & 1).tolist(), len(table.labels)]
        self._table, self.at = table, 0

    def key(self, count: int) -> bytes:
        """Returns the labels and the values of the next `count` blocks."""
        begin, end = self._starts[self.at], self._starts[self.at + count]
        return b"".join([data[begin * size : end * size] for data, size in self._bytes])

    @cached_property
    def _bytes(self) -> list[tuple[bytes, int]]:
        """The labels and the values, each with the bytes of a row."""
        return [(each.tobytes(), each[:1].nbytes) for each in (self._table.labels, self._table.values)]

    def next(self) -> np.ndarray:
        """Returns the next block, without the row where it begins."""
        self.at += 1
        return self._table.values[self._starts[self.at - 1] + 1 : self._starts[self.at]]
