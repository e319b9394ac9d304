"""Candidates for shared storage: pairs offered by passes, and the coalesced matrices decided by merging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Pair(NamedTuple):
    """Two matrices that may be one: some commands read the first and write the second.

    Row r and column c of `dest` are row r + row_shift and column c + col_shift of `source`.
    """

    source: int
    dest: int
    row_shift: int
    col_shift: int


@dataclass(frozen=True)
class Candidates:
    """The commands of each pair; `are_copies`: the commands are superfluous once source and destination are one."""

    commands: dict[Pair, list[int]]
    are_copies: bool


class CoalescedMatrix(NamedTuple):
    """The position of one matrix in another."""

    matrix: int
    row: int
    col: int
