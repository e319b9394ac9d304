"""NnetComputation: matrices, sub-matrices, side tables and a list of commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3.ir.kernel import KernelInfo
from nnet3.ir.printer import print_computation, summary
from nnet3.text.html import folded

if TYPE_CHECKING:
    from nnet3.ir.declarations import Command

MOST_SHOWN_COMMANDS = 500  # in a notebook


class Matrix(NamedTuple):
    """The size and dtype of a matrix. Number 0 of a computation is the empty one."""

    num_rows: int
    num_cols: int
    dtype: str = ""  # "" is that in which the computation is run, else the name of a torch dtype such as "bfloat16"


class SubMatrix(NamedTuple):
    """A block of a matrix: rows [row_offset, row_offset + num_rows), columns likewise.

    In turn i of a Repeat it lies i * row_step rows further down.
    """

    matrix: int
    row_offset: int
    num_rows: int
    col_offset: int
    num_cols: int
    row_step: int = 0

    def at_turn(self, turn: int) -> SubMatrix:
        """Returns the block in one turn of a Repeat."""
        return self._replace(row_offset=self.row_offset + turn * self.row_step, row_step=0)


@dataclass(frozen=True)
class MatrixInfo:
    """The node of a matrix's values or derivatives, and the index of each row."""

    node: str
    is_deriv: bool
    indexes: np.ndarray | None  # (rows, 3) int32: n, t, x; None if the rows are no samples


class OutsideMatrix(NamedTuple):
    """A matrix in memory that the user binds by name: never allocated, and defined from the beginning."""

    name: str
    submatrix: int
    writable: bool


@dataclass(frozen=True)
class IoInfo:
    """The sub-matrices of the value and the derivative of a named input or output; deriv 0 is none."""

    name: str
    value: int
    deriv: int


class KernelRows(NamedTuple):
    """The rows behind a kernel's precomputed arrays at a node: indexes (rows, 3) of its input and output.

    `go_on`: precomputed arrays of more rows go on as the rows do.
    """

    node: str
    runs_backward: bool
    inputs: np.ndarray
    outputs: np.ndarray
    go_on: bool = False


@dataclass(frozen=True, eq=False)
class FamilyMember:
    """A program as one of a family: `at` gives any member by k, and `kept` holds results derived for all members.

    `entries` gives the kernels' precomputed arrays, by k.
    """

    k: int
    at: Callable[[int], NnetComputation]
    entries: Callable[[int], Sequence[Mapping[str, np.ndarray] | None]]
    kept: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a program is of no family."""
        return type(None), ()


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """The numbers of rows in a program of a family: programs differing in numbers of rows alone.

    `blocks`: the first row and the number of rows of every sub-matrix, (sub-matrices, 2); `matrices`: the rows of every
    matrix; `num_turns`: the turns of each Repeat; `turns`, `index_tables` and `precomputed`: the program's own fields.
    `kept`: results derived for the whole family.
    """

    blocks: np.ndarray
    matrices: np.ndarray
    turns: Mapping[int, np.ndarray]
    num_turns: Sequence[int]
    index_tables: Sequence[np.ndarray]
    precomputed: Sequence[Mapping[str, np.ndarray] | None]
    kept: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a program is alone."""
        return type(None), ()


@dataclass(repr=False)
class NnetComputation:
    """A program of matrix commands, free of front-ends: kernels are named, rows are numbers.

    Matrices, sub-matrices and tables are appended and never changed in place.

    Commands refer to side tables by position:

    * `index_tables`: row numbers (rows,), -1 for none;
    * `multi_tables`: pairs of a sub-matrix and a row in it (rows, 2), (-1, -1) for none;
    * `range_tables`: ranges [first, end) of rows, (rows, 2);
    * `precomputed`: named arrays that kernels have computed from the indexes of their rows (entry 0 is None).
    """

    matrices: list[Matrix] = field(default_factory=lambda: [Matrix(0, 0)])
    submatrices: list[SubMatrix] = field(default_factory=lambda: [SubMatrix(0, 0, 0, 0, 0)])
    matrix_info: dict[int, MatrixInfo] = field(default_factory=dict)
    outside: list[OutsideMatrix] = field(default_factory=list)
    index_tables: list[np.ndarray] = field(default_factory=list)
    multi_tables: list[np.ndarray] = field(default_factory=list)
    range_tables: list[np.ndarray] = field(default_factory=list)
    precomputed: list[Mapping[str, np.ndarray] | None] = field(default_factory=lambda: [None])
    #: The rows of each entry of `precomputed` but the first.
    precomputed_rows: list[KernelRows] = field(default_factory=list, compare=False)
    kernels: list[KernelInfo] = field(default_factory=list)
    inputs: list[IoInfo] = field(default_factory=list)
    outputs: list[IoInfo] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    #: The first row and the number of rows, (turns, 2), of sub-matrices that move on unevenly from turn to turn.
    turns: dict[int, np.ndarray] = field(default_factory=dict, compare=False)
    num_memos: int = 0
    need_model_derivative: bool = False
    #: The network that it was compiled for, as digests by aspect; nobody compares if it is empty.
    fingerprint: dict[str, str] = field(default_factory=dict)
    #: Things that others have derived from the finished program, such as plans; None if it may still change.
    attachments: MutableMapping[str, Any] | None = field(default=None, compare=False)
    #: Its place in a family; None for a program that was made alone, or may have been changed.
    member: FamilyMember | None = field(default=None, compare=False)
    #: Its numbers of rows, if other programs have the same commands; None for one that may have been changed.
    row_numbers: RowNumbers | None = field(default=None, compare=False)
    #: True if its plans and links are proved, because the options of its task say so.
    prove: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return print_computation(self)

    def __repr__(self) -> str:
        return f"<NnetComputation: {summary(self).removeprefix('# ')}>"

    def _repr_html_(self) -> str:
        return folded(summary(self).removeprefix("# "), print_computation(self, MOST_SHOWN_COMMANDS), is_open=True)

    def copy(self) -> NnetComputation:
        """Returns a copy whose lists may be changed; the immutable entries are shared."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: list(value) for name, value in values.items() if isinstance(value, list)}
        values |= {"matrix_info": dict(self.matrix_info), "turns": dict(self.turns)}
        return NnetComputation(**values | {"attachments": None, "member": None, "row_numbers": None})

    # ---- declaring ----

    def new_matrix(self, num_rows: int, num_cols: int, info: MatrixInfo | None = None, dtype: str = "") -> int:
        """Declare a matrix; returns the sub-matrix that is the whole matrix."""
        self.matrices.append(Matrix(num_rows, num_cols, dtype))
        matrix = len(self.matrices) - 1
        if info is not None:
            self.matrix_info[matrix] = info
        self.submatrices.append(SubMatrix(matrix, 0, num_rows, 0, num_cols))
        return len(self.submatrices) - 1

    def new_outside(
        self,
        name: str,
        num_rows: int,
        num_cols: int,
        writable: bool,
        info: MatrixInfo | None = None,
        dtype: str = "",
    ) -> int:
        """Declare a matrix in memory bound under `name`; returns the sub-matrix that is the whole matrix."""
        submatrix = self.new_matrix(num_rows, num_cols, info, dtype)
        self.outside.append(OutsideMatrix(name, submatrix, writable))
        return submatrix

    def new_submatrix(
        self,
        base: int,
        row_offset: int = 0,
        num_rows: int | None = None,
        col_offset: int = 0,
        num_cols: int | None = None,
    ) -> int:
        """Returns the number of a block of sub-matrix `base`, declared first if it is unknown."""
        whole = self.submatrices[base]
        rows = whole.num_rows - row_offset if num_rows is None else num_rows
        cols = whole.num_cols - col_offset if num_cols is None else num_cols
        assert 0 <= row_offset <= whole.num_rows - rows, "row range outside the sub-matrix"
        assert 0 <= col_offset <= whole.num_cols - cols, "column range outside the sub-matrix"
        return self.find_or_add(
            SubMatrix(whole.matrix, whole.row_offset + row_offset, rows, whole.col_offset + col_offset, cols)
        )

    def find_or_add(self, block: SubMatrix) -> int:
        """Returns the number of a sub-matrix, declared first if it is unknown."""
        known = self._known_submatrices()
        if block not in known:
            self.submatrices.append(block)
            known[block] = len(self.submatrices) - 1
        return known[block]

    def add_submatrices(self, blocks: np.ndarray) -> int:
        """Declare many blocks at once, (blocks, 5 or 6) with the columns of SubMatrix; returns the number of the first.

        Further numbers follow. Equal blocks may stand in the list twice; `find_or_add` finds the first.
        """
        first = len(self.submatrices)
        self.submatrices.extend(starmap(SubMatrix, blocks.tolist()))
        return first

    def find_or_add_kernel(self, info: KernelInfo) -> int:
        """Returns the number of a kernel."""
        if info not in self.kernels:
            self.kernels.append(info)
        return self.kernels.index(info)

    def new_index_table(self, rows: np.ndarray) -> int:
        """Returns the number of a list of row numbers, -1 for none; an unknown list is appended."""
        return self._table("index_tables", rows)

    def new_multi_table(self, pairs: np.ndarray) -> int:
        """Returns the number of (rows, 2) pairs of sub-matrix and row in it, (-1, -1) for none."""
        return self._table("multi_tables", pairs)

    def new_range_table(self, ranges: np.ndarray) -> int:
        """Returns the number of (rows, 2) pairs [first, end) of rows."""
        return self._table("range_tables", ranges)

    def _table(self, kind: str, values: np.ndarray) -> int:
        """Returns the number of a table; an unknown table is appended. Turns of a recurrence share tables."""
        tables, table = getattr(self, kind), values.astype(np.int32)
        known, start = self.__dict__.get(f"_known_{kind}", ({}, 0))
        for number in range(start, len(tables)):
            known.setdefault(tables[number].tobytes(), number)
        found = known.setdefault(table.tobytes(), len(tables))
        if found == len(tables):
            tables.append(table)
        self.__dict__[f"_known_{kind}"] = known, len(tables)
        return int(found)

    def _known_submatrices(self) -> dict[SubMatrix, int]:
        """Returns the numbers by sub-matrix; every call brings the cache up to date."""
        cache = self.__dict__.setdefault("_submatrix_cache", {})
        start = self.__dict__.get("_submatrix_cached", 0)
        for number in range(start, len(self.submatrices)):
            cache.setdefault(self.submatrices[number], number)
        self.__dict__["_submatrix_cached"] = len(self.submatrices)
        return cache

    # ---- asking ----

    def block_at(self, submatrix: int, turn: int) -> SubMatrix:
        """Returns the block of a sub-matrix in a turn of its Repeat."""
        block, turns = self.submatrices[submatrix], self.turns.get(submatrix)
        if turns is None:
            return block.at_turn(turn)
        row_offset, num_rows = turns[turn].tolist()
        return block._replace(row_offset=row_offset, num_rows=num_rows)

    def is_whole_matrix(self, submatrix: int) -> bool:
        block = self.submatrices[submatrix]
        matrix = self.matrices[block.matrix]
        return (block.num_rows, block.num_cols) == (matrix.num_rows, matrix.num_cols)

    def outside_by_matrix(self) -> dict[int, OutsideMatrix]:
        """Returns the outside matrices by the number of their matrix."""
        return {self.submatrices[bound.submatrix].matrix: bound for bound in self.outside}

    def has_samples(self, matrix: int) -> bool:
        """Returns true if the rows of a matrix are samples: without information, if the matrix does not lie outside."""
        info = self.matrix_info.get(matrix)
        if info is not None:
            return info.indexes is not None
        return all(self.submatrices[bound.submatrix].matrix != matrix for bound in self.outside)


_MAKING = threading.RLock()
_FIELDS = frozenset(field.name for field in fields(NnetComputation))


class LazyComputation(NnetComputation):
    """A computation with some fields known; the first request for an unknown field makes all fields.

    From then on the object is an NnetComputation like any other. With a plan the program runs without commands.
    """

    def __init__(self, make: Callable[[], NnetComputation], num_bytes: int, **known: Any) -> None:
        """`known`: the known fields, all fields with a default of the class among them."""
        self.__dict__.update(known)
        self.stored_bytes, self._make = num_bytes, make

    def made(self) -> NnetComputation:
        """Returns the computation, without completing `self`."""
        with _MAKING:
            return self if not isinstance(self, LazyComputation) else self._make()

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        LazyComputation._complete(self)
        return self.__dict__[name]

    def _complete(self) -> None:
        """Make the missing fields, unless another thread has done so: then `self` is an NnetComputation already."""
        with _MAKING:
            if not isinstance(self, LazyComputation):
                return
            made = self._make()
            for name in _FIELDS:
                self.__dict__.setdefault(name, getattr(made, name))
            del self._make
            self.__class__ = NnetComputation  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        LazyComputation._complete(self)
        return self == other

    def __reduce_ex__(self, protocol: Any) -> Any:
        LazyComputation._complete(self)
        return self.__reduce_ex__(protocol)


def lazy_like(
    other: NnetComputation, make: Callable[[], NnetComputation], row_numbers: RowNumbers, **known: Any
) -> LazyComputation:
    """Returns the computation of `make`, of the network and kind of `other`, with the given numbers of rows.

    `known`: further fields, known already.
    """
    return LazyComputation(
        make,
        0,
        num_memos=other.num_memos,
        need_model_derivative=other.need_model_derivative,
        fingerprint=other.fingerprint,
        attachments=None,
        member=None,
        row_numbers=row_numbers,
        **known,
    )
