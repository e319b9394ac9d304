"""ShapeFamily: one program for all lengths and all numbers of sequences."""

from __future__ import annotations

from collections.abc import Sequence

from nnet3.families.continued import ContinuedTwice, NotAffineError
from nnet3.families.family import ProgramFamily
from nnet3.ir.computation import NnetComputation


class ShapeFamily:
    """A ProgramFamily as a function of n, the number of sequences beyond the fewest.

    Sequences are alike: all have the same times. Two families say what all are.
    """

    def __init__(
        self, members: Sequence[Sequence[NnetComputation]], confirming: tuple[int, ProgramFamily] | None = None
    ) -> None:
        """`members`: for n = 0, 1, ..., at least two, the programs for k = 0, 1, ..., at least two.

        `confirming`: another n, and the family that must be that for n. Raises NotAffineError if there is no family.
        """
        first = ProgramFamily(members[0], like=None if confirming is None else confirming[1])
        families = [first, *(ProgramFamily(each, like=first) for each in members[1:])]
        self._first = first
        try:
            self._tables = ContinuedTwice([family.tables for family in families])
        except NotAffineError as error:
            raise NotAffineError(f"{first.names[error.table]}: {error}") from error
        if confirming is not None:
            self.at(confirming[0]).check_same(confirming[1])

    def at(self, n: int) -> ProgramFamily:
        """Returns the family for n sequences more than the fewest."""
        return self._first.with_tables(self._tables.at(n))
