"""ProgramsOfLengths: the programs of requests that differ in length alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import TypeAlias

from nnet3.engine.ir.computation import FamilyMember, NnetComputation
from nnet3.engine.ir.objects import Recent

_End: TypeAlias = tuple[int, FamilyMember]
_Ends: TypeAlias = tuple[_End, _End]

_MOST_FAMILIES = 8  # of a series: lengths may go on by several frames


class ProgramsOfLengths:
    """Programs of requests by series and length: a request of a series goes on by equal steps of time.

    Of each family of a series the shortest and the longest program are known, and with these all between.
    """

    def __init__(self) -> None:
        self._ends: dict[Hashable, Recent[_Ends]] = {}

    def get(self, series: Hashable, length: int, compiled: Callable[[], NnetComputation]) -> NnetComputation:
        """Returns the program for a length: of a known family, or else the result of `compiled`."""
        families = self._ends.setdefault(series, Recent(_MOST_FAMILIES))
        for ends in families.values():
            program = _between(*ends, length)
            if program is not None:
                return program
        program = compiled()
        member = program.member
        if member is not None and not program.prove:  # a cache proves what it gives
            own = *families.get(id(member.kept), ()), (length, member)
            families.use(id(member.kept), (min(own, key=itemgetter(0)), max(own, key=itemgetter(0))))
        return program


def _between(shortest: _End, longest: _End, length: int) -> NnetComputation | None:
    """Returns the program for a length between two lengths with programs of one family, if the length has one.

    Requests go on by equal steps of time, and so do the requests named by the family: two in agreement prove all.
    """
    (few, first), (many, last) = shortest, longest
    if not few < length < many:
        return None
    steps, rest = divmod((length - few) * (last.k - first.k), many - few)
    if rest:
        return None
    program = first.at(first.k + steps)
    program.attachments = {}
    return program
