"""FamilyShelf: the families of programs that a cache has made, by the form of their tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnet3.driver.keys import key_digest
from nnet3.driver.task import CompileTask, LengthForm, compile_task
from nnet3.errors import Nnet3Error
from nnet3.families.continued import Continued, NotAffineError, continued, table_of
from nnet3.families.family import Precompute, ProgramFamily
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import KernelRows, NnetComputation

_MEMBERS = 2  # say how a family goes on; the longest program of the form that was compiled confirms it
_MOST_PLACES = 64


@dataclass
class _Place:
    """The longest program of a form that was compiled; then the family that goes up to it, or why there is none."""

    longest_k: int
    longest: NnetComputation | None
    family: ProgramFamily | None = None
    rows: Continued | None = None
    refusal: str = ""


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
        for make in task.forms:
            form = make()
            if form is None:
                continue
            place = self._places.setdefault(_name(form, task), _Place(-1, None))
            if form.k > place.longest_k and not place.refusal:
                place.longest_k = form.k
                if place.family is None:
                    place.longest = program
                else:
                    _confirm(place, place.family, program)
        while len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def program(self, task: CompileTask) -> NnetComputation | None:
        """Returns the program of a task from the family of one of its forms; None if there is none."""
        for make in task.forms:
            form = make()
            place = None if form is None else self._places.get(_name(form, task))
            if form is None or place is None or place.refusal or form.k > place.longest_k:
                continue
            found = self._continued(place, form, task)
            if found is not None:
                return found
        return None

    def _continued(self, place: _Place, form: LengthForm, task: CompileTask) -> NnetComputation | None:
        precompute = precompute_of(task)
        if place.family is None:
            try:
                _find_family(place, form)
            except (NotAffineError, Nnet3Error) as error:
                place.longest, place.refusal = None, str(error)
            if place.family is None:
                return None
        assert place.family is not None
        if not _has_rows(place.rows, form):
            return None
        program = place.family.at(form.k, precompute)
        if task.options.check:
            check_computation(program)
        return program


def _name(form: LengthForm, task: CompileTask) -> str:
    return key_digest({**form.key, "options": task.options})


def _find_family(place: _Place, form: LengthForm) -> None:
    """Make the family of a form. Raises NotAffineError if there is none."""
    assert place.longest is not None
    tasks, rows = zip(*map(form.shorter, range(_MEMBERS)), strict=True)
    place.rows = continued([list(map(table_of, tables)) for tables in rows])
    _confirm(place, ProgramFamily([compile_task(each) for each in tasks]), place.longest)
    place.longest = None


def _confirm(place: _Place, family: ProgramFamily, program: NnetComputation) -> None:
    """Take a family if it gives the longest program of a form, else refuse it."""
    try:
        family.check(place.longest_k, program)
        place.family = family
    except NotAffineError as error:
        place.family, place.refusal = None, f"a longer program is not what the short ones promise ({error})"


def _has_rows(rows: Continued | None, form: LengthForm) -> bool:
    """True if the family's request for this length names the same indexes in the same order."""
    assert rows is not None
    parts = np.split(rows.at(form.k)[0], np.cumsum(rows.lengths(form.k))[:-1])
    return all(np.array_equal(part, wanted) for part, wanted in zip(parts, form.rows, strict=True))


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
