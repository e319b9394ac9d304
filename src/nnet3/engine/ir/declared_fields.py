"""What a field of a command can be declared as: a sub-matrix, a side table, a reference, a plain value."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class AccessMode(enum.IntEnum):
    """Modes of access to a sub-matrix. The numbers are bits, so that arrays can combine modes."""

    READ = 1
    WRITE = 2  # every element gets a new value; the old ones do not matter
    UPDATE = 3  # read and written in place, added to, or written in part


class Life(enum.Enum):
    """Changes of the live range of a matrix by a command."""

    BEGINS = "begins"
    ENDS = "ends"
    COMPRESSES = "compresses"  # its contents leave for a smaller representation elsewhere
    DECOMPRESSES = "decompresses"


@dataclass(frozen=True)
class OperandField:
    """A field that holds the number of a sub-matrix; 0, the empty sub-matrix, is allowed only where `optional`."""

    access: AccessMode | None
    optional: bool = False
    life: Life | None = None  # such an operand must be a whole matrix


@dataclass(frozen=True)
class Table:
    """A field with the number of a side table in the list `tables`, with entries of `columns` columns."""

    tables: str
    columns: int  # 0: a plain list
    access: AccessMode | None = None  # what happens to the sub-matrices that a multi table names


@dataclass(frozen=True)
class Reference:
    """A field that holds the number of an entry of the list `to`; memos count from 0 to num_memos - 1, -1 is none."""

    to: str
    access: AccessMode | None = None  # of a memo: who makes it and who uses it


#: The number that stands for no reference.
REFERS_TO_NONE = {"memos": -1, "precomputed": 0}


@dataclass(frozen=True)
class PlainValue:
    """A field that holds a plain value. A command with a set flag marked `side_effect` must be kept.

    `same_as`: the field of the kernel whose name goes without saying.
    """

    kind: type
    side_effect: bool = False
    same_as: str = ""


Declaration = OperandField | Table | Reference | PlainValue


class FieldSchema(NamedTuple):
    name: str
    declared: Declaration
    several: bool  # a tuple of them
