"""FamilyShelf: the families of programs that a cache has made, by the form of their tasks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.driver.keys import key_digest
from nnet3.driver.task import CompileTask, LengthForm, compile_task
from nnet3.errors import Nnet3Error
from nnet3.families.continued import Continued, NotAffineError, continued, table_of
from nnet3.families.family import ProgramFamily
from nnet3.families.precomputed import Precompute
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import KernelRows, NnetComputation

_MEMBERS = 2  # say how a family goes on; the longest program of the form that was compiled confirms it
_MOST_PLACES = 64

#: Of index tables: the rows of each, and a name for all that stands in them.
_Digest = tuple[tuple[int, ...], str]


@dataclass
class _Place:
    """The longest program of a form that was compiled; then the family that goes up to it, or why there is none.

    `rows`: the indexes that the members of the family name. Only the cache keeps the longest program in memory: when it
    has dropped that, the next one that is compiled is the longest.
    """

    longest_k: int = -1
    longest: Callable[[], NnetComputation | None] = lambda: None
    longest_rows: _Digest = ((), "")
    rows: Continued | None = None
    family: ProgramFamily | None = None
    refusal: str = ""

    def note(self, form: LengthForm, program: NnetComputation) -> None:
        """Take note of a program that was compiled."""
        if self.refusal or (self.rows is not None and not _has_rows(self.rows, form.k, _digest(form.rows))):
            return
        if self.family is not None and form.k > self.longest_k:
            self._confirm(self.family, form.k, program)
        elif self.family is None and (form.k > self.longest_k or self.longest() is None):
            self.longest_k, self.longest, self.longest_rows = form.k, weakref.ref(program), _digest(form.rows)

    def has(self, form: LengthForm) -> bool:
        """True if this form is that of a member of the family, which is made if there is none yet."""
        if self.refusal or form.k > self.longest_k:
            return False
        try:
            if self.rows is None:
                self.rows = continued([list(map(table_of, form.shorter(j)[1])) for j in range(_MEMBERS)])
            if not _has_rows(self.rows, form.k, _digest(form.rows)):
                return False
            if self.family is None:
                self._find_family(form)
        except (NotAffineError, Nnet3Error) as error:
            self.refusal = str(error)
        return self.family is not None

    def _find_family(self, form: LengthForm) -> None:
        """Make the family, if the longest program is of it. Raises NotAffineError or what compiling raises."""
        program = self.longest()
        assert self.rows is not None
        if program is None or not _has_rows(self.rows, self.longest_k, self.longest_rows):
            self.longest_k = -1
        else:
            family = ProgramFamily([compile_task(form.shorter(j)[0]) for j in range(_MEMBERS)])
            self._confirm(family, self.longest_k, program)

    def _confirm(self, family: ProgramFamily, k: int, program: NnetComputation) -> None:
        """Take a family if it gives this program, else refuse it."""
        try:
            family.check(k, program)
            self.family, self.longest_k = family, k
        except NotAffineError as error:
            self.family, self.refusal = None, f"a longer program is not what the short ones promise ({error})"


class FamilyShelf:
    """Continues programs to other lengths.

    Programs of a form are compiled as long as each is longer than all before it. When a shorter one is wanted, the two
    shortest programs of the form are compiled and continued; what that gives for the longest must be, command by
    command, the program that was compiled for it. If it is, every shorter one is had by arithmetic, else each is
    compiled. A family never goes beyond what was compiled: a longer program is compiled, compared, and then confirms
    the family up to its own length (where a window of 60 frames is whole, programs may be others than below).
    """

    def __init__(self) -> None:
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def __len__(self) -> int:
        return sum(place.family is not None for place in self._places.values())

    @property
    def refusals(self) -> list[str]:
        """Why some forms have no family, one line each."""
        return [place.refusal for place in self._places.values() if place.refusal]

    def note(self, task: CompileTask, program: NnetComputation) -> None:
        """Take note of a program that was compiled."""
        for form in _forms(task):
            self._places.setdefault(_name(form, task), _Place()).note(form, program)
        while len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def program(self, task: CompileTask) -> NnetComputation | None:
        """Returns the program of a task from the family of one of its forms; None if there is none."""
        for form in _forms(task):
            name = _name(form, task)
            if name not in self._places:
                continue
            self._places.move_to_end(name)
            place = self._places[name]
            if place.has(form):
                assert place.family is not None
                program = place.family.at(form.k, precompute_of(task))
                if task.options.check:
                    check_computation(program)
                return program
        return None


def _forms(task: CompileTask) -> Iterator[LengthForm]:
    """Yields the forms of a task, the best first."""
    return (form for make in task.forms if (form := make()) is not None)


def _name(form: LengthForm, task: CompileTask) -> str:
    return key_digest({**form.key, "options": task.options})


def _digest(tables: Sequence[np.ndarray]) -> _Digest:
    return tuple(map(len, tables)), key_digest([table.astype(np.int32) for table in tables])


def _has_rows(rows: Continued, k: int, wanted: _Digest) -> bool:
    """True if the family's request for this length names the same indexes in the same order."""
    if tuple(rows.lengths(k).tolist()) != wanted[0]:  # first, because where times have gaps there may be very many
        return False
    return _digest([table.values for table in rows.at(k)]) == wanted


def precompute_of(task: CompileTask) -> Precompute:
    """Returns what makes the precomputed entries of a task's program."""
    source = task.lowered_from()[0]
    numbers = {node.name: number for number, node in enumerate(source.nodes)}

    def precompute(rows: KernelRows) -> Mapping[str, np.ndarray] | None:
        found: Mapping[str, np.ndarray] | None = source.precompute(
            numbers[rows.node], rows.inputs, rows.outputs, need_backprop=rows.runs_backward
        )
        return found

    return precompute
