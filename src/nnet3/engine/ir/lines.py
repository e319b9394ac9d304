"""The lines of commands: what a class declares as `line`, a line with its fields in braces, is written and read.

`MatrixAdd` declares `"{dest} += {scale:{} * }{source}"`: it prints as `m2 += m1` or `m2 += 0.5 * m1`. In braces stand

* `{dest}`: the field, as its declaration says: a sub-matrix, several of them, a side table, a kernel, a value;
* `{name!r}`: a text in quotes;
* `{scale:{} * }`: the field in a text that is left out where the field has its default;
* `{update:update}`: a text for a flag that is set; `{zeroed:zeros|undefined}`: one of two texts;
* `{input_derivs/added_derivs:&/+= }`: sub-matrices of one or the other field, each with the mark of its field;
* `{matrix:size}`: the size of a sub-matrix; `{iterations:-1}`: a number less one;
* `{class}`: the name of the class; `{notes}`: the texts of `notes` that are not left out, as ` [memo 2, update]`.

A class without a line prints as its name and its fields, `Clone(m2, m1, 0.5)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Protocol

from nnet3.engine.ir.cursor import Cursor
from nnet3.engine.ir.declared_fields import FieldSchema, OperandField, PlainValue, Reference, Table
from nnet3.engine.ir.formatting import TABLE_FORMATS, format_submatrix, kernel_name, written_name
from nnet3.engine.ir.program_tables import ProgramTables

Values = dict[str, Any]


class LinePiece(Protocol):
    """A piece of a line. `read` raises Unexpected where another text stands."""

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str: ...

    def read(self, cursor: Cursor, values: Values) -> None: ...


@dataclass(frozen=True)
class _Literal:
    text: str

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        return self.text

    def read(self, cursor: Cursor, values: Values) -> None:
        cursor.literal(self.text)


@dataclass(frozen=True)
class _Operands:
    """Sub-matrices of one field, or of several fields of which at most one is not empty at each position."""

    names: Sequence[str]
    marks: Sequence[str]
    several: bool

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        columns = [getattr(command, name) for name in self.names]
        rows = zip(*columns, strict=False) if self.several else [columns]
        items = [self._item(computation, numbers, full) for numbers in rows]
        return items[0] if len(items) == 1 else f"({', '.join(items)})"

    def _item(self, computation: ProgramTables, numbers: Sequence[int], full: bool) -> str:
        for mark, number in zip(self.marks, numbers, strict=True):
            if number:
                return mark + format_submatrix(computation, number, full)
        return format_submatrix(computation, 0)

    def read(self, cursor: Cursor, values: Values) -> None:
        rows: list[list[int]] = []
        if self.several and cursor.text.startswith("(", cursor.at):
            cursor.listed(lambda: rows.append(self._read_item(cursor)), "(", ")")
        else:
            rows.append(self._read_item(cursor))
        columns = [tuple(row[i] for row in rows) for i in range(len(self.names))]
        values.update((name, column if self.several else column[0])
                      for name, column in zip(self.names, columns, strict=True))  # fmt: skip

    def _read_item(self, cursor: Cursor) -> list[int]:
        numbers = [0] * len(self.names)
        if cursor.skip("[]"):
            return numbers
        for i, mark in enumerate(self.marks):
            if cursor.skip(mark):
                numbers[i] = cursor.submatrix()
                return numbers
        raise cursor.fail(" or ".join(f"'{mark}'" for mark in self.marks))


@dataclass(frozen=True)
class _Value:
    """A number, a name or a side table; `following`: a regular expression of what follows a name."""

    field: FieldSchema
    spec: str = ""
    quoted: bool = False
    following: str = ""

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        value, declared = getattr(command, self.field.name), self.field.declared
        if isinstance(declared, Table):
            return TABLE_FORMATS[declared.tables](computation, value, full)
        if isinstance(declared, Reference) and declared.to == "kernels":
            return kernel_name(computation, value, full)
        if isinstance(value, str):
            return written_name(value, full, self.quoted)
        if isinstance(value, float):
            rounded = f"{value:g}"
            return repr(value) if full and float(rounded) != value == value else rounded
        return f"{value:{self.spec}}"

    def read(self, cursor: Cursor, values: Values) -> None:
        declared = self.field.declared
        values[self.field.name] = (
            cursor.table(declared.tables) if isinstance(declared, Table)
            else cursor.kernel(self.following) if isinstance(declared, Reference) and declared.to == "kernels"
            else cursor.number() if isinstance(declared, Reference)
            else self._plain(cursor, declared)
        )  # fmt: skip

    def _plain(self, cursor: Cursor, declared: Any) -> Any:
        kind = declared.kind
        if kind is str:
            return cursor.name(self.following, quoted=self.quoted)
        if kind is bool:
            return cursor.flag()
        return cursor.real() if kind is float else cursor.number()


@dataclass(frozen=True)
class _Choice:
    """One of two texts, for a flag that is set or not."""

    name: str
    words: tuple[str, str]

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        return self.words[0 if getattr(command, self.name) else 1]

    def read(self, cursor: Cursor, values: Values) -> None:
        for value, word in zip((True, False), self.words, strict=True):
            if cursor.skip(word):
                values[self.name] = value
                return
        raise cursor.fail(" or ".join(f"'{word}'" for word in self.words))


@dataclass(frozen=True)
class _Size:
    """The size of a sub-matrix, `(10, 40)`; nothing for one that does not exist."""

    name: str

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        number = getattr(command, self.name)
        if not 0 < number < len(computation.submatrices):
            return ""
        block = computation.submatrices[number]
        return f"({block.num_rows}, {block.num_cols})"

    def read(self, cursor: Cursor, values: Values) -> None:
        block = cursor.computation.submatrices[values[self.name]]
        size = f"({block.num_rows}, {block.num_cols})"
        if not cursor.skip(size):
            raise cursor.refuse(f"'{size}', the size of m{block.matrix}", cursor.at)


@dataclass(frozen=True)
class _LessOne:
    name: str

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        return f"{getattr(command, self.name) - 1}"

    def read(self, cursor: Cursor, values: Values) -> None:
        cursor.literal(str(values[self.name] - 1))


@dataclass(frozen=True)
class _Unless:
    """Pieces that are left out where the field has its default, or the name of the kernel in the field `same_as`."""

    name: str
    default: Any
    same_as: str
    pieces: Sequence[LinePiece]

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        default = kernel_name(computation, getattr(command, self.same_as)) if self.same_as else self.default
        if getattr(command, self.name) == default:
            return ""
        return "".join(piece.write(computation, command, full) for piece in self.pieces)

    def read(self, cursor: Cursor, values: Values) -> None:
        self.read_after(cursor, values, "")

    def read_after(self, cursor: Cursor, values: Values, begin: str) -> bool:
        """Reads `begin` and the pieces, or moves nowhere; returns whether they stand here."""

        def written() -> bool:
            cursor.literal(begin)
            for piece in self.pieces:
                piece.read(cursor, values)
            values.setdefault(self.name, True)  # a flag: none of its pieces is a value
            return True

        stands = cursor.maybe(written) is not None
        if not stands:
            kernels = cursor.computation.kernels
            values[self.name] = kernels[values[self.same_as]].name if self.same_as else self.default
        return stands


@dataclass(frozen=True)
class _Notes:
    """Pieces in brackets, ` [memo 2, update]`; nothing if all are left out."""

    pieces: Sequence[_Unless]

    def write(self, computation: ProgramTables, command: Any, full: bool) -> str:
        written = [piece.write(computation, command, full) for piece in self.pieces]
        return f" [{', '.join(filter(None, written))}]" if any(written) else ""

    def read(self, cursor: Cursor, values: Values) -> None:
        begin = " ["
        for piece in self.pieces:
            if piece.read_after(cursor, values, begin):
                begin = ", "
        if begin == ", ":
            cursor.literal("]")


class Line:
    """The line of a class of commands, written and read."""

    def __init__(self, command: type[Any]) -> None:
        self.command = command
        self._fields = {schema.name: schema for schema in command.schema.fields}
        bare = "{class}(" + ", ".join(f"{{{name}}}" for name in command.schema.names) + ")"
        self.pieces = self._pieces(command.line or bare)

    def write(self, computation: ProgramTables, command: Any, full: bool = False) -> str:
        return "".join(piece.write(computation, command, full) for piece in self.pieces)

    def read(self, cursor: Cursor) -> Any:
        """Returns the command of the whole line. Raises Unexpected for another line."""
        values: Values = {}
        for piece in self.pieces:
            piece.read(cursor, values)
        cursor.end()
        return self.command(**values)

    def _pieces(self, line_format: str, following: str = "", field: str = "") -> list[LinePiece]:
        """Returns the pieces of a line's format; `field` is what braces without a name stand for."""
        parts = list(Formatter().parse(line_format))
        found: list[LinePiece] = []
        for i, (text, name, spec, conversion) in enumerate(parts):
            found += [_Literal(text)] if text else []
            if name == "class":
                found.append(_Literal(self.command.__name__))
            elif name == "notes":
                found.append(_Notes([self._note(note) for note in self.command.notes]))
            elif name is not None:
                then = re.escape(parts[i + 1][0]) if i + 1 < len(parts) else following
                found.append(self._field(name or field, spec or "", conversion == "r", then))
        return found

    def _note(self, line_format: str) -> _Unless:
        (note,) = self._pieces(line_format, "[],]")
        assert isinstance(note, _Unless), f"a note must be left out where its field has its default: '{line_format}'"
        return note

    def _field(self, name: str, spec: str, quoted: bool, following: str) -> LinePiece:
        names = name.split("/")
        schema = self._fields[names[0]]
        declared = schema.declared
        if isinstance(declared, OperandField):
            return _Size(name) if spec == "size" else _Operands(names, spec.split("/"), schema.several)
        is_flag = isinstance(declared, PlainValue) and declared.kind is bool
        if is_flag and "|" in spec:
            yes, no = spec.split("|")
            return _Choice(name, (yes, no))
        if "{" in spec or (is_flag and spec):
            same_as = declared.same_as if isinstance(declared, PlainValue) else ""
            default = False if is_flag else getattr(self.command, name, None)
            return _Unless(name, default, same_as, self._pieces(spec, following, name))
        return _LessOne(name) if spec == "-1" else _Value(schema, spec, quoted, following)
