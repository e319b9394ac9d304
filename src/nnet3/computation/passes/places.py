"""What passes say of matrices that may lie in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Pair(NamedTuple):
    """A matrix that is read and one that is written by commands that allow them to be one.

    Row r and column c of `dest` are row r + row_shift and column c + col_shift of `source`.
    """

    source: int
    dest: int
    row_shift: int
    col_shift: int


@dataclass(frozen=True)
class Candidates:
    """The commands of each pair; `are_copies` if they have nothing to do where source and destination are one."""

    commands: dict[Pair, list[int]]
    are_copies: bool


class Place(NamedTuple):
    """Where a matrix lies in another."""

    matrix: int
    row: int
    col: int
