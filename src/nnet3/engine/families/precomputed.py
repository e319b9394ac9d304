"""Tables of what kernels precompute: the rows behind each entry, and the arrays that go on as these rows do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable
from nnet3.engine.families.continued import NumberTable, table_of
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


def same_if_equal(entries: Iterable[Entry], known: Recent[Entry]) -> Iterator[Entry]:
    """Yields entries; equal ones are one object, as long as it is known."""
    for entry in entries:
        arrays = (entry or {}).items()
        key = tuple([(name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays])
        yield known.get_or_make(key, partial(dict, entry or {}))


def precomputed_tables(
    computation: NnetComputation, layouts: MutableMapping[EntryLayout, int]
) -> dict[str, NumberTable]:
    """Returns three tables of blocks. Labels identify blocks; the label of a block's first row is odd.

    An entry has two blocks of rows, inputs and outputs. One that goes on has a further block for each of its arrays,
    among lists or among numbers. `layouts` numbers the layouts of entries; new layouts are added.
    """
    values = {name: [np.zeros((0, columns), np.int64)] for name, columns in _COLUMNS.items()}
    labels = {name: [np.zeros(0, np.int64)] for name in _COLUMNS}

    def add(table: str, layout: int, position: int, block: np.ndarray) -> None:
        label = np.full(len(block) + 1, (layout << 20) + 4 * position)
        label[0] += 1
        label[1:] += 2 * (block == NO_TIME).any(axis=1)
        values[table] += [np.zeros((1, block.shape[1]), np.int64), block]
        labels[table].append(label)

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
    joined = {name: (np.concatenate(values[name]), np.concatenate(labels[name])) for name in _COLUMNS}
    return {name: NumberTable(*joined[name]) if name == _NUMBERS else table_of(*joined[name]) for name in _COLUMNS}


def rows_of_entries(table: NumberTable, layouts: Sequence[EntryLayout]) -> Iterator[tuple[EntryLayout, KernelRows]]:
    """Yields the layouts of the entries of a table of rows, and the rows behind each entry."""
    blocks = _Blocks(table)
    while not blocks.are_at_end:
        node, runs_backward, arrays = layout = layouts[blocks.label >> 20]
        yield layout, KernelRows(node, runs_backward, blocks.next(), blocks.next(), arrays is not None)


def entries_that_go_on(
    layouts: Iterable[EntryLayout], tables: Sequence[NumberTable], known: Mapping[int, Entry] = MappingProxyType({})
) -> Iterator[Entry]:
    """Yields the entries with these layouts, empty ones if they do not go on. `tables`: of lists and of numbers.

    `known`: entries that need not be made, by number from 1 on.
    """
    lists, numbers = map(_Blocks, tables)
    for number, layout in enumerate(layouts, 1):
        blocks = [(lists if shape == () else numbers).next() for _, _, shape in layout.arrays or ()]
        if number in known:
            yield known[number]
            continue
        entry = {}
        for (name, dtype, shape), block in zip(layout.arrays or (), blocks, strict=True):
            entry[name] = block.astype(dtype).reshape(() if shape is None else (-1, *shape))
        yield entry


class _Blocks:
    """The blocks of a table in order, without the row where each begins."""

    def __init__(self, table: NumberTable) -> None:
        starts = np.flatnonzero(table.labels & 1)
        self._labels, self._values = table.labels[starts].tolist(), table.values
        self._ends, self._next = [*starts.tolist(), len(table.labels)], 0

    @property
    def are_at_end(self) -> bool:
        return self._next == len(self._labels)

    @property
    def label(self) -> int:
        """The label of the row where the next block begins."""
        return int(self._labels[self._next])

    def next(self) -> np.ndarray:
        self._next += 1
        return self._values[self._ends[self._next - 1] + 1 : self._ends[self._next]]
