"""Notes: the templates of commands noted by tapes, by groups and kernels, for all compared programs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.randoms import slice_of
from nnet3.engine.ir.proof.recorded_randoms import KERNEL, RandomRequest, RecordedRandoms
from nnet3.engine.ir.proof.recording import ROWS


class NotedKernel(NamedTuple):
    """A kernel's name, its number, and that of all kernels with equal promises, or of their slices of equal columns."""

    name: str = ""
    own: int = -1
    alike: int = 0


class CallTemplate(NamedTuple):
    """The notes on a group of commands: the template's number, the rows of the memo made, the requests."""

    number: int
    memo_rows: int  # -1: they make none; one of ROWS stands for a number
    requests: dict[RandomRequest, tuple[int, ...]]  # and how many blocks each is for


class OwnTemplate(NamedTuple):
    """The template of one kernel's commands, the addresses of requested elements, and the kernel's learned sums."""

    template: CallTemplate
    drawn: list[int]
    effects: dict[Any, Elements]


class Notes:
    """The notes on the commands of all programs that are compared."""

    def __init__(self, columns: Columns, seed: int) -> None:
        self.randoms = RecordedRandoms(columns, seed)
        self.templates: dict[Hashable, CallTemplate] = {}
        self.own: dict[Hashable, OwnTemplate] = {}
        self._numbers: dict[Hashable, int] = {}
        self._any_rows: dict[tuple[int, ...], AnyRows] = {}
        self._kernels: dict[KernelInfo, NotedKernel] = {}

    def any_rows(self, rows: tuple[int, ...]) -> AnyRows:
        """Returns the stand-ins for the rows of operands and of a memo while a command is noted.

        One row stays one, since it goes with any number of rows. More numbers than ROWS stay as well.
        """
        found = self._any_rows.get(rows)
        if found is None:
            own = tuple([count for count in dict.fromkeys(rows) if count > 1])
            own = own if len(own) <= len(ROWS) else ()
            known = dict(zip(own, ROWS, strict=False))
            found = self._any_rows[rows] = AnyRows(tuple([known.get(count, count) for count in rows]), own)
        return found

    def kernel(self, info: KernelInfo) -> NotedKernel:
        """Returns what a kernel is for templates."""
        found = self._kernels.get(info)
        if found is None:
            sliced = slice_of(info)
            alike = self.number((replace(info, name=""), sliced[1:]))
            found = self._kernels[info] = NotedKernel(sliced.name, self.number(info), alike)
        return found

    def number(self, what: Hashable) -> int:
        """Returns a number that is equal for equal things."""
        return self._numbers.setdefault(what, len(self._numbers))

    def own_of(self, template: CallTemplate, name: str = "", node: str = "") -> OwnTemplate:
        """Returns the template as used by kernel `name` of a node."""
        requests = [request.renamed(KERNEL, name, node) for request in template.requests]
        first = map(self.randoms.first, requests, template.requests.values())
        effects = {request.what: field.ZERO for request in requests if request.is_zero}
        return OwnTemplate(template, [-1 - each for each in first], effects)


class AnyRows(NamedTuple):
    """The rows of operands and a memo, with ROWS in the place of numbers, and these numbers: `own` of an instance."""

    noted: tuple[int, ...]
    own: tuple[int, ...]

    def of(self, noted: int) -> int:
        """Returns the number of rows behind an entry of ROWS; a plain number stays as it is."""
        return self.own[ROWS.index(noted)] if noted in ROWS else noted
