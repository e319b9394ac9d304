"""Declarations of the fields of commands, and everything derived from the declarations.

Each field of a command is annotated with a name below: a sub-matrix read, written or updated, a side
table, a kernel, a memo, or a plain value. `dest: Writes` is one sub-matrix, `inputs: tuple[Reads, ...]` any number of
sub-matrices. Accesses, substitution, existence checks, serialization, lines of text, side effects and dead code follow
from the annotations, for commands unknown to the rest of the package.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.ir.declared_fields import (
    REFERS_TO_NONE as REFERS_TO_NONE,
    AccessMode as AccessMode,
    Declaration as Declaration,
    FieldSchema as FieldSchema,
    Life as Life,
    OperandField as OperandField,
    PlainValue as PlainValue,
    Reference as Reference,
    Table as Table,
)
from nnet3.engine.ir.lines import Line
from nnet3.engine.ir.nests import Nest
from nnet3.engine.ir.program_tables import ProgramTables
from nnet3.engine.ir.proof.machine import Machine
from nnet3.errors import ProofError


class Access(NamedTuple):
    submatrix: int
    mode: AccessMode


class Role(enum.Enum):
    """The purpose of a class of commands. Only computing commands may be dropped when nobody reads their results."""

    COMPUTE = "compute"
    MEMORY = "memory"  # where matrices begin, end and are compressed
    IO = "io"  # exchanges matrices with the user
    CONTROL = "control"  # says where a run stops; nothing is called for it


Reads = Annotated[int, OperandField(AccessMode.READ)]
Writes = Annotated[int, OperandField(AccessMode.WRITE)]
Updates = Annotated[int, OperandField(AccessMode.UPDATE)]
MaybeReads = Annotated[int, OperandField(AccessMode.READ, optional=True)]
MaybeWrites = Annotated[int, OperandField(AccessMode.WRITE, optional=True)]
MaybeUpdates = Annotated[int, OperandField(AccessMode.UPDATE, optional=True)]
Allocates = Annotated[int, OperandField(None, life=Life.BEGINS)]
Deallocates = Annotated[int, OperandField(None, life=Life.ENDS)]
Compresses = Annotated[int, OperandField(AccessMode.UPDATE, life=Life.COMPRESSES)]
Decompresses = Annotated[int, OperandField(AccessMode.UPDATE, life=Life.DECOMPRESSES)]

IndexList = Annotated[int, Table("index_tables", 0)]
RangeList = Annotated[int, Table("range_tables", 2)]
ReadsRowsOf = Annotated[int, Table("multi_tables", 2, AccessMode.READ)]
UpdatesRowsOf = Annotated[int, Table("multi_tables", 2, AccessMode.UPDATE)]

KernelNumber = Annotated[int, Reference("kernels")]
Precomputed = Annotated[int, Reference("precomputed")]
MakesMemo = Annotated[int, Reference("memos", AccessMode.WRITE)]
UsesMemo = Annotated[int, Reference("memos", AccessMode.READ)]

Number = Annotated[int, PlainValue(int)]
Real = Annotated[float, PlainValue(float)]
Flag = Annotated[bool, PlainValue(bool)]
SideEffect = Annotated[bool, PlainValue(bool, side_effect=True)]
Text = Annotated[str, PlainValue(str)]
NodeName = Annotated[str, PlainValue(str, same_as="kernel")]


class Schema:
    """The declared fields of one class of commands, grouped by use."""

    def __init__(self, command: type[Command]) -> None:
        hints = get_type_hints(command, include_extras=True)
        fields = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}
        self.fields = tuple(_field_schema(command, name, hint) for name, hint in fields.items())
        self.names = tuple(field.name for field in self.fields)
        self.operand_fields = tuple(f for f in self.fields if isinstance(f.declared, OperandField))
        self.table_fields = tuple(f for f in self.fields if isinstance(f.declared, Table))
        self.reference_fields = tuple(f for f in self.fields if isinstance(f.declared, Reference))
        #: The fields that change the live range of a matrix, and how.
        self.lives = tuple((f.name, life) for f in self.operand_fields if (life := getattr(f.declared, "life", None)))
        #: The field that numbers the memo which a command makes, or uses; empty if it has none.
        self.makes_memo, self.uses_memo = map(self._memo_field, (AccessMode.WRITE, AccessMode.READ))
        #: The field that numbers a kernel; empty if it has none.
        self.kernel = next((f.name for f in self.reference_fields if getattr(f.declared, "to", "") == "kernels"), "")
        self.effect_flags = tuple(f.name for f in self.fields if getattr(f.declared, "side_effect", False))
        self.operand_names = tuple(f.name for f in self.operand_fields)
        self.fixed_operands = not any(f.several for f in self.operand_fields)
        #: Reads the sub-matrix numbers of a command, in the order of its fields; tuples are joined.
        self.operands: Callable[[Command], tuple[int, ...]] = _compiled(
            "command", "(" + "".join([f"{'*' * f.several}command.{f.name}, " for f in self.operand_fields]) + ")"
        )
        #: The fields of operands and tables with an access of their own: name, access, which of the two.
        self.accessed = tuple(
            (f.name, access, f.several, isinstance(f.declared, Table))
            for f in (*self.operand_fields, *self.table_fields)
            if (access := getattr(f.declared, "access", None)) is not None
        )

    def _memo_field(self, access: AccessMode) -> str:
        return next((f.name for f in self.reference_fields if getattr(f.declared, "access", None) is access), "")

    def references(self, command: Command) -> list[tuple[str, str]]:
        """Returns the fields with the number of a memo or a precomputed entry, each with its kind."""
        found = ((field.name, getattr(field.declared, "to", "")) for field in self.reference_fields)
        return [
            (name, to) for name, to in found if to in REFERS_TO_NONE and getattr(command, name) != REFERS_TO_NONE[to]
        ]

    def values_of_operands(self, command: Command, numbers: Sequence[int]) -> Iterator[tuple[str, Any]]:
        """Yields the fields of operands with their values when `numbers` replace `operands(command)`."""
        if self.fixed_operands:
            return zip(self.operand_names, numbers, strict=True)
        values: list[tuple[str, Any]] = []
        start = 0
        for name, _, several in self.operand_fields:
            end = start + (len(getattr(command, name)) if several else 1)
            values.append((name, tuple(numbers[start:end]) if several else numbers[start]))
            start = end
        return iter(values)


def _compiled(parameters: str, result: str, /, **names: Any) -> Any:
    """Returns a function that is called for each of many commands, as an expression of its parameters and `names`."""
    return eval(f"lambda {parameters}: {result}", names)


def _init_of(command: type[Command]) -> Any:
    """Returns an `__init__` like the dataclass's, which would set frozen fields one by one, several times slower."""
    names = command.schema.names
    defaults = {name: getattr(command, name) for name in names if hasattr(command, name)}
    parameters = [f"{name}={name}" if name in defaults else name for name in names]
    values = [f"{name}={name}" for name in names]
    init = _compiled(f"self, {', '.join(parameters)}", f"self.__dict__.update({', '.join(values)})", **defaults)
    init.__qualname__ = f"{command.__qualname__}.__init__"  # for messages
    return init


def attributes(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what reads some attributes of a command, as a tuple."""
    read: Callable[[Any], tuple[Any, ...]] = _compiled("command", f"({''.join(f'command.{name}, ' for name in names)})")
    return read


def _field_schema(command: type, name: str, hint: Any) -> FieldSchema:
    several = get_origin(hint) is tuple
    inner = get_args(hint)[0] if several else hint
    for declared in getattr(inner, "__metadata__", ()):
        if isinstance(declared, Declaration):
            return FieldSchema(name, declared, several)
    raise TypeError(
        f"field '{name}' of command {command.__name__} is not declared: annotate it with a name of "
        "nnet3.engine.ir.declarations such as Reads, Writes, IndexList, Real or Text"
    )


#: Every class of commands by its name.
COMMAND_CLASSES: dict[str, type[Command]] = {}


@dataclass(frozen=True)
class Command:
    """Base of all commands."""

    schema: ClassVar[Schema]
    line_syntax: ClassVar[Line]
    role: ClassVar[Role] = Role.COMPUTE
    #: The line of text with fields in braces, `"{dest} += {source}"`, and what stands in brackets for `{notes}`: see
    #: `nnet3.engine.ir.lines`.
    line: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, role: Role | None = None) -> None:
        super().__init_subclass__()
        cls.role = role or cls.role
        cls.schema = Schema(cls)
        cls.line_syntax = Line(cls)
        cls.__init__ = _init_of(cls)  # type: ignore[method-assign]
        if not cls.__name__.startswith("_"):
            COMMAND_CLASSES[cls.__name__] = cls

    def problems(self, computation: ProgramTables) -> Iterator[str]:
        """Yields problems with the sizes of the operands, all of which exist. Every class defines the method."""
        yield f"class {type(self).__name__} has no shape rule: it must define problems()"

    def evaluate(self, machine: Machine) -> None:
        """Do to the elements of a finite field as the command does to numbers: a proof knows no more of the command.

        Every class defines the method, but for commands that only say where a run stops.
        """
        raise ProofError(f"class {type(self).__name__} has no meaning that can be proved: it must define evaluate()")

    def columns(self, computation: ProgramTables) -> Iterator[tuple[int, Hashable, int]]:
        """Yields sub-matrices to cut alike, each with a space of columns and the first column in the space.

        Unless a class says otherwise, all operands have equal columns.
        """
        for access in self.accesses(computation):
            yield access.submatrix, None, 0

    def text(self, computation: ProgramTables, full: bool = False) -> str:
        """Returns the line, also of a command whose operands do not exist; in full with whole lists and all digits."""
        return self.line_syntax.write(computation, self, full)

    def in_place_pairs(self, computation: ProgramTables) -> Sequence[tuple[int, int]]:
        """Returns the pairs (sub-matrix read, sub-matrix written) that may be a single block."""
        return ()

    @property
    def side_effects(self) -> bool:
        """True if a command does more than accesses and memos say, and must be kept."""
        return self.role is not Role.COMPUTE or any(getattr(self, flag) for flag in self.schema.effect_flags)

    def accesses(self, computation: ProgramTables) -> tuple[Access, ...]:
        """Returns the sub-matrices that the command reads, writes and updates."""
        found: list[Access] = []
        for name, access, several, is_table in self.schema.accessed:
            value = getattr(self, name)
            if is_table:
                value = submatrices_of(computation, value).tolist()
            elif not several:
                value = (value,)
            found += [Access(s, access) for s in value if s != 0]
        return tuple(found)


def submatrices_of(computation: ProgramTables, multi_table: int) -> np.ndarray:
    """Returns the distinct sub-matrices of a multi table, ascending."""
    table = computation.multi_tables[multi_table]
    numbers = distinct(np.array([row[0] for row in table.rows()]) if isinstance(table, Nest) else table[:, 0])
    return numbers[numbers >= 0]


def with_operands(command: Command, numbers: Sequence[int]) -> Command:
    """Returns the command with other sub-matrices: `numbers` in the order of `command.schema.operands(command)`."""
    changed = object.__new__(type(command))
    values = changed.__dict__
    values.update(command.__dict__)
    values.update(command.schema.values_of_operands(command, numbers))
    return changed


def with_values(command: Command, **values: Any) -> Command:
    """Does what `dataclasses.replace` does, several times faster; the fields must exist."""
    changed = object.__new__(type(command))
    changed.__dict__.update(command.__dict__)
    changed.__dict__.update(values)
    return changed


def substitute(command: Command, submatrices: Sequence[int]) -> Command:
    """Returns the command with `submatrices[s]` in the place of each sub-matrix s; the argument if nothing changes.

    Sub-matrices in multi tables are not looked at.
    """
    old = command.schema.operands(command)
    new = tuple([submatrices[number] for number in old])
    return with_operands(command, new) if new != old else command
