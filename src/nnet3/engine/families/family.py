"""Program families: one program for all lengths, made by continuing the numbers of a few programs.

Take programs of one network, for requests that differ only in their number of periods of time. The programs have equal
matrices and equal commands; only the commands of a recurrence come once for each period. Every number in the programs
is affine in the number of periods, so two programs determine all programs. A family is the tables of two programs, each
table continued. If a table does not continue by affine numbers, no family exists.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from functools import cache, cached_property, partial
from itertools import starmap, zip_longest
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from nnet3.engine.families.continued import Continued, ContinuedTwice, NotAffineError, continued
from nnet3.engine.families.number_table import NumberTable, table_of
from nnet3.engine.families.precomputed import (
    MOST_ENTRIES,
    PRECOMPUTED,
    Entry,
    EntryLayout,
    Precompute,
    entries_that_go_on,
    layouts_of_entries,
    precomputed_tables,
    rows_of_entries,
)
from nnet3.engine.families.rolled import CommandPattern, RolledCommands
from nnet3.engine.ir.computation import FamilyMember, NnetComputation, lazy_like
from nnet3.engine.ir.declarations import Command, Schema, attributes
from nnet3.engine.ir.objects import Distinct, Recent
from nnet3.engine.ir.program_tables import IoInfo, KernelRows, Matrix, MatrixInfo, OutsideMatrix, SubMatrix

_COMPARED = 4  # members in which families are compared
_TABLES = ("index_tables", "multi_tables", "range_tables")


class _Words:
    """What programs of a family have in common, by number: patterns of commands, precomputed entries, constants."""

    def __init__(self) -> None:
        self.patterns = Distinct[CommandPattern]()
        self.entries: dict[EntryLayout, int] = {}
        self._constants: dict[Hashable, int] = {}

    def constant(self, value: Hashable) -> int:
        """Returns the number of what stands beside the numbers of a row, such as the name of an input."""
        return self._constants.setdefault(value, len(self._constants))

    def pattern(self, command: Command, fields: _Fields, blocks: tuple[tuple[int, int, int], ...]) -> int:
        """Returns the number of a command's pattern. `blocks`: matrix, column and columns of each operand."""
        key = type(command), blocks, fields.constants(command), *map(len, fields.several(command))
        return self.patterns.number_of(CommandPattern(command, blocks, fields.numbers), key)


class _Sheets:
    """The tables of one program, by name."""

    def __init__(self, computation: NnetComputation, words: _Words) -> None:
        self.computation, self._words = computation, words
        self.tables: dict[str, NumberTable] = {}
        self._known: dict[Any, NumberTable] = {}
        self._add("matrices", [(matrix[1:], matrix[:1]) for matrix in computation.matrices])
        self._add("memos", [((), (computation.num_memos,))])
        self._add("outside", [((o.name, o.writable), self._block(o.submatrix)) for o in computation.outside])
        for kind in ("inputs", "outputs"):
            ios = getattr(computation, kind)
            self._add(kind, [(io.name, (*self._block(io.value), *self._block(io.deriv))) for io in ios])
        for matrix, info in computation.matrix_info.items():
            if info.indexes is not None:
                self.tables[f"indexes {matrix}"] = self._table_of(info.indexes)
        for name in _TABLES:
            for number, values in enumerate(getattr(computation, name)):
                self.tables[f"{name} {number}"] = self._side_table(name, values)
        self.tables |= precomputed_tables(computation, words.entries)
        self.tables["commands"] = self._commands(words)

    def _table_of(self, values: np.ndarray) -> NumberTable:
        key = values.shape, values.tobytes()
        if key not in self._known:
            self._known[key] = table_of(values)
        return self._known[key]

    def _block(self, submatrix: int) -> tuple[int, ...]:
        return self.computation.submatrices[submatrix][:5]

    def _add(self, name: str, rows: Sequence[tuple[Any, Sequence[int]]]) -> None:
        """Add a table that does not grow; constants beside the numbers must be equal in all members."""
        width = max((len(numbers) for _, numbers in rows), default=1)
        values = np.array([numbers for _, numbers in rows], dtype=np.int64).reshape(len(rows), width)
        labels = np.array([self._words.constant(constant) for constant, _ in rows], dtype=np.int64)
        self.tables[name] = NumberTable(values, labels)

    def _side_table(self, name: str, values: np.ndarray) -> NumberTable:
        if name != "multi_tables":
            return self._table_of(values)
        blocks = np.array(
            [self._block(number) if number >= 0 else (-1,) * 5 for number in values[:, 0]], dtype=np.int64
        )
        return table_of(np.concatenate([blocks.reshape(-1, 5), values[:, 1:]], axis=1))

    def _commands(self, words: _Words) -> NumberTable:
        labels, rows = list[int](), list[list[int]]()
        columns = [(matrix, first, count) for matrix, _, _, first, count, _ in self.computation.submatrices]
        own_rows = [block[1:3] for block in self.computation.submatrices]
        for command in self.computation.commands:
            command_class: Any = type(command)
            operands, fields = command.schema.operands(command), _fields_of(command_class)
            labels.append(words.pattern(command, fields, tuple([columns[number] for number in operands])))
            rows.append([*[each for number in operands for each in own_rows[number]], *fields.values(command)])
        values = np.array(list(zip_longest(*rows, fillvalue=0)), np.int64).T
        return NumberTable(values.reshape(len(rows), -1), np.array(labels, dtype=np.int64))


class _Fields(NamedTuple):
    """The fields of a class of commands: the numbers beside those of operands, their values, constants, tuples."""

    numbers: tuple[str, ...]
    values: Callable[[Command], tuple[Any, ...]]
    constants: Callable[[Command], tuple[Any, ...]]
    several: Callable[[Command], tuple[Any, ...]]


@cache
def _fields_of(command_class: Any) -> _Fields:
    schema: Schema = command_class.schema
    others = {each.name for each in (*schema.table_fields, *schema.reference_fields) if each.name != schema.kernel}
    numbers = tuple(name for name in schema.names if name in others)
    constants = attributes([name for name in schema.names if name not in {*others, *schema.operand_names}])
    several = attributes([each.name for each in schema.fields if each.several])
    return _Fields(numbers, attributes(numbers), constants, several)


class ProgramFamily:
    """A program as a function of k, the number of periods of time beyond the smallest member's."""

    def __init__(self, members: Sequence[NnetComputation], like: ProgramFamily | None = None, apart: int = 1) -> None:
        """`members`: the programs for k = 0, `apart`, ..., at least two. Raises NotAffineError if there is no family.

        `like`: a family with equal matrices, kernels and tables, but for numbers.
        """
        self._words: _Words = _Words() if like is None else like._words
        self.first: NnetComputation = members[0] if like is None else like.first
        sheets = [self._sheets(member) for member in members]
        self.names: list[str] = list(sheets[0]) if like is None else like.names
        if any(list(each) != self.names for each in sheets):
            raise NotAffineError("they have different tables")
        try:
            self.tables = continued([list(each.values()) for each in sheets], apart)
        except NotAffineError as error:
            raise NotAffineError(f"{self.names[error.table]}: {error}") from error
        self._program = RolledCommands(self.tables.pieces(self.names.index("commands")), self._words.patterns)
        self._kept, self._equal_entries = dict[str, Any](), Recent[Entry](MOST_ENTRIES)

    @property
    def patterns(self) -> Sequence[CommandPattern]:
        return self._words.patterns

    def with_tables(self, tables: Continued) -> ProgramFamily:
        """Returns a family like `self`, with other numbers."""
        family = copy(self)
        family.tables, family._kept, family._equal_entries = tables, {}, Recent(MOST_ENTRIES)
        for name in ("_memos", "_precomputed", "_fixed_entries", "_fixed_layouts"):
            vars(family).pop(name, None)
        family._program = RolledCommands(tables.pieces(self.names.index("commands")), self._words.patterns)
        return family

    def _sheets(self, member: NnetComputation) -> dict[str, NumberTable]:
        if _constants_of(member) != _constants_of(self.first):
            raise NotAffineError("they have different matrices or kernels")
        return _Sheets(member, self._words).tables

    def check(self, k: int, program: NnetComputation) -> None:
        """Raise NotAffineError unless a program without Repeat is what `at(k)` gives with every iteration written
        out."""
        sheets = self._sheets(program)
        if list(sheets) != self.names:
            raise NotAffineError("a longer program has other tables")
        self.tables.check(k, list(sheets.values()))

    def check_same(self, other: ProgramFamily) -> None:
        """Raise NotAffineError unless both families give equal programs; both must be alike (see `with_tables`)."""
        for k in range(_COMPARED):
            self.tables.check(k, other.tables.at(k))

    def member(self, k: int, precompute: Precompute) -> NnetComputation:
        """Returns the program of `at`, made at the first look, or at once if making it needs the network."""
        if self._needs_network:
            return self.at(k, precompute)
        self.tables.check_size(k)
        memos, more_memos = self._memos
        make, num_memos = partial(self.at, k, _nothing), memos + k * more_memos
        return lazy_like(self.first, make, num_memos=num_memos, member=self._as_member(k))

    @cached_property
    def _memos(self) -> tuple[int, int]:
        """The number of memos for k = 0, and how many more each step brings."""
        (piece,) = self.tables.pieces(self.names.index("memos"))
        return int(piece.base[0, 0]), int(piece.slope[0, 0])

    @cached_property
    def _needs_network(self) -> bool:
        return any(layout.arrays is None for layout in self._words.entries)

    def _as_member(self, k: int) -> FamilyMember | None:
        """Returns the position of a program in the family, if all members can be had without their network."""
        if self._needs_network:
            return None
        return FamilyMember(k, partial(self.member, precompute=_nothing), self._entries, self._kept, self._for_all)

    def _for_all(self, step: int) -> tuple[NnetComputation, Callable[[str, Iterable[int]], Continued]]:
        """Returns the smallest member with numbers base + slope * `step`, and its side tables, by kind and numbers."""
        (rows,) = self.tables.pieces(self.names.index("matrices"))
        program, blocks = self.at(0, _nothing), self._program.blocks_at(step).tolist()
        program.submatrices[1 : len(blocks) + 1] = starmap(SubMatrix, blocks)
        program.matrices = [
            Matrix(count, *matrix[1:])
            for (count,), matrix in zip((rows.base + step * rows.slope).tolist(), program.matrices, strict=True)
        ]
        program.commands, program.num_memos = self._program.commands_at(step), self._memos[0] + step * self._memos[1]
        return program, lambda kind, numbers: self._named([f"{kind} {number}" for number in numbers])

    def _named(self, names: Sequence[str]) -> Continued:
        return self.tables.part([self.names.index(name) for name in names])

    def _entries(self, k: int) -> list[Entry]:
        """Returns the precomputed entries of a member, if they do not need the network.

        Equal entries are one object: those independent of k, and those of iterations, which come again in others.
        """
        return self._fixed_entries or self._entries_at(k)

    @cached_property
    def _fixed_entries(self) -> list[Entry] | None:
        """The precomputed entries if all members have the same, else None."""
        few, more = map(self._entries_at, (0, 1))
        return few if len(few) == len(more) and all(map(is_, few, more)) else None

    def _entries_at(self, k: int) -> list[Entry]:
        layouts = self._fixed_layouts or self._layouts_at(k)
        return [None, *entries_that_go_on(layouts, self._precomputed[1].at(k), self._equal_entries)]

    @cached_property
    def _fixed_layouts(self) -> list[EntryLayout] | None:
        """The layouts of the precomputed entries, if all members have equally many."""
        few, more = map(self._layouts_at, (0, 1))
        return few if len(few) == len(more) else None

    def _layouts_at(self, k: int) -> list[EntryLayout]:
        (table,) = self._precomputed[0].at(k)
        return layouts_of_entries(table, list(self._words.entries))

    @cached_property
    def _precomputed(self) -> tuple[Continued, Continued]:
        """The table of the rows of precomputed entries, and the tables of their lists and numbers."""
        return self._named(PRECOMPUTED[:1]), self._named(PRECOMPUTED[1:])

    def at(self, k: int, precompute: Precompute) -> NnetComputation:
        """Returns the member with k periods more than the smallest; recurring commands are in a Repeat."""
        values = self.tables.at(k, left_out=self.names.index("commands"))
        first, tables = self.first, dict(zip(self.names, values, strict=True))
        numbers = {name: table.values for name, table in tables.items()}
        result = NnetComputation(
            matrices=[
                Matrix(rows, *matrix[1:])
                for rows, matrix in zip(numbers["matrices"][:, 0].tolist(), first.matrices, strict=True)
            ],
            matrix_info={
                matrix: MatrixInfo(info.node, info.is_deriv, numbers.get(f"indexes {matrix}"))
                for matrix, info in first.matrix_info.items()
            },
            kernels=list(first.kernels),
            num_memos=int(numbers["memos"][0, 0]),
            need_model_derivative=first.need_model_derivative,
            fingerprint=first.fingerprint,
            member=self._as_member(k),
        )
        result.add_submatrices(self._program.blocks_at(k))
        result.commands = self._program.commands_at(k)
        known = result.find_or_add
        result.outside = [
            OutsideMatrix(o.name, known(SubMatrix(*row[:5])), o.writable)
            for o, row in zip(first.outside, numbers["outside"].tolist(), strict=True)
        ]
        result.inputs, result.outputs = (
            [
                IoInfo(io.name, known(SubMatrix(*row[:5])), known(SubMatrix(*row[5:10])))
                for io, row in zip(ios, numbers[kind].tolist(), strict=True)
            ]
            for kind, ios in (("inputs", first.inputs), ("outputs", first.outputs))
        )
        for name in _TABLES:
            for number in range(len(getattr(first, name))):
                getattr(result, name).append(_side_table(result, name, numbers[f"{name} {number}"]))
        of_rows, *others = (tables[name] for name in PRECOMPUTED)
        found = list(rows_of_entries(of_rows, list(self._words.entries)))
        entries = entries_that_go_on([each for each, _ in found], others, self._equal_entries)
        for (layout, rows), entry in zip(found, entries, strict=True):
            result.precomputed.append(precompute(rows) if layout.arrays is None else entry)
            result.precomputed_rows.append(rows)
        return result


class ShapeFamily:
    """A ProgramFamily as a function of n, the number of sequences beyond the fewest.

    Sequences are alike: all have equal times. Two families determine all families.
    """

    def __init__(
        self, members: Sequence[Sequence[NnetComputation]], confirming: tuple[int, ProgramFamily] | None = None
    ) -> None:
        """`members`: for n = 0, 1, ..., at least two, the programs for k = 0, 1, ..., at least two.

        `confirming`: a further n, and the expected family for n. Raises NotAffineError without a family.
        """
        first = ProgramFamily(members[0], like=None if confirming is None else confirming[1])
        families = [first, *(ProgramFamily(each, like=first) for each in members[1:])]
        self._first = first
        try:
            self.tables = ContinuedTwice([family.tables for family in families])
        except NotAffineError as error:
            raise NotAffineError(f"{first.names[error.table]}: {error}") from error
        if confirming is not None:
            self.at(confirming[0]).check_same(confirming[1])

    def at(self, n: int) -> ProgramFamily:
        """Returns the family for n sequences more than the fewest."""
        return self._first.with_tables(self.tables.at(n))


def _nothing(rows: KernelRows) -> Entry:
    raise AssertionError(f"{rows.node} precomputes something that goes on")


def _constants_of(member: NnetComputation) -> Any:
    infos = [(m, info.node, info.is_deriv, info.indexes is None) for m, info in member.matrix_info.items()]
    return (*infos, *member.kernels, member.need_model_derivative)


def _side_table(result: NnetComputation, name: str, values: np.ndarray) -> np.ndarray:
    if name == "index_tables":
        return values[:, 0]
    if name == "range_tables":
        return values
    numbers = [result.find_or_add(SubMatrix(*row)) if row[0] >= 0 else -1 for row in values[:, :5].tolist()]
    return np.stack([np.array(numbers, dtype=np.int32).reshape(-1), values[:, 5]], axis=1)
