"""Decoding graphs as the search reads them, in memory or in their files."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.arcs import ArcsOfStates, arcs_leaving
from nnet3.speech.search.mapped_fst import MappedFst, check_unchanged, in_memory, map_or_read

_MOST_COLUMNS = 1 << 24


class SearchGraph:
    """The states and arcs of a decoding graph; costs are negative logarithms.

    Arcs have numbers, with distances of `step` in a state, by which ilabel, olabel, dst (int32) and cost (float32) are
    indexed. final: (states,) float32, infinite where no path ends. column_of_label: (labels + 1,), the column of the
    scores that each input label takes; by default label l takes column l - 1. `output_symbols`: the words in the file.
    """

    output_symbols: SymbolTable | None = None

    def __init__(self, fst: Fst | MappedFst, column_of_label: npt.ArrayLike | None = None):
        if len(fst.final) == 0:
            raise ModelFormatError("the decoding graph is empty")
        self._content, self.start, self.final = fst, fst.start, fst.final
        self.ilabel, self.olabel, self.cost, self.dst = fst.ilabel, fst.olabel, fst.cost, fst.dst
        self._first, self.step = fst.offsets, fst.step
        columns = _own_columns(fst.largest_input) if column_of_label is None else column_of_label
        self.column_of_label, self.num_columns = columns_of_labels(columns, fst.largest_input)
        self.lock = nullcontext()

    @classmethod
    def read(cls, reader: Reader, column_of_label: npt.ArrayLike) -> SearchGraph:
        """Reads the graph of a file; arcs stay in the file where they can. Raises ModelFormatError."""
        parts = map_or_read(reader)
        try:
            graph = cls(parts.fst, column_of_label)
        except ModelFormatError as error:
            raise ModelFormatError(error.message, reader.source) from None
        graph.output_symbols = parts.output_symbols
        return graph

    @property
    def num_states(self) -> int:
        return len(self.final)

    @property
    def fst(self) -> Fst:
        """The graph as an FST in memory."""
        return in_memory(self._content)

    def begin(self) -> SearchGraph:
        """Returns the graph for a new search: itself. Raises ModelFormatError if its file was written to."""
        check_unchanged(self._content)
        return self

    def emitting_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take a row."""
        return self._arcs(states, takes_row=True)

    def epsilon_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take no row."""
        return self._arcs(states, takes_row=False)

    def _arcs(self, states: Integers, takes_row: bool) -> ArcsOfStates:
        arc, position = arcs_leaving(self._first, states, self.step)
        kept = (self.ilabel[arc] > 0) == takes_row
        return ArcsOfStates(arc[kept], position[kept])

    def expand(self, states: Integers) -> None:
        """Does nothing: all arcs exist."""

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Returns the first arc and the end of the arcs of each state, and ilabel, dst, cost and column_of_label."""
        return self._first, self._first[1:], self.ilabel, self.dst, self.cost, self.column_of_label


def _own_columns(largest: int) -> npt.NDArray[np.int64]:
    """Returns column l - 1 for each label l up to the largest. ModelFormatError for a label beyond all models."""
    if largest > _MOST_COLUMNS:
        raise ModelFormatError(
            f"the decoding graph has input label {largest}, and no scores have more than {_MOST_COLUMNS} columns"
        )
    return np.arange(-1, largest)


def columns_of_labels(column_of_label: npt.ArrayLike, largest: int) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the column of scores read by each input label 1 .. largest, and the number of columns.

    Raises ModelFormatError for labels without a column.
    """
    columns = np.ascontiguousarray(column_of_label, np.int64)
    if largest >= len(columns):
        raise ModelFormatError(
            f"the decoding graph has input label {largest}, but the model has {len(columns) - 1} "
            "transition-ids: does the graph belong to this model?"
        )
    used = columns[1 : largest + 1]
    if used.min(initial=0) < 0:
        raise ModelFormatError(f"input label {1 + int(np.argmin(used))} takes column {used.min()} of the scores")
    return columns, int(used.max(initial=-1)) + 1
