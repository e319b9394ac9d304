"""FamilyStore: the families of programs made by a cache, by the series of their tasks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from nnet3.base.index import T
from nnet3.engine.driver.task import CompileTask, LengthSeries, SequencesSeries, compile_tasks, key_digest
from nnet3.engine.families.continued import Continued, ContinuedTwice, NotAffineError, continued
from nnet3.engine.families.family import ProgramFamily, ShapeFamily
from nnet3.engine.families.number_table import table_of
from nnet3.engine.families.precomputed import KernelRules, Precompute
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Recent, many_objects, present
from nnet3.engine.lowering.continuation import frames_missing
from nnet3.engine.lowering.structure import structure_of
from nnet3.engine.lowering.sweeps import Sweeps, finished_sweeps
from nnet3.errors import ComputationCheckError, Nnet3Error

_MEMBERS = 2  # say how a family goes on
_MOST_LATER = 56  # increments by which the shortest member may be longer than the shortest of its series
_SOON, _LATER = 8, 32  # increments by which it is longer if programs do not go on alike before, first and then
MANY = 500  # increments, and sequences, of the largest member that is checked
_FAR = 40  # increments from which on a recurrence is not compiled for its length first
_MOST_RECORDS = 64
_MOST_OF_SIGNATURE = 4  # of which families are looked for by the indexes alone


class _NoMemberError(Exception):
    """A shorter request, made of a longer one, is no member of the longer request's family."""


@dataclass
class FamilyRecord:
    """Knowledge of the programs of a series: the longest compiled program, the family, or the reason for having none.

    `rows`: the indexes of the members of the family. `first`: the shortest member. `is_proved`: all longer members go
    on likewise; None before the proof, False if a family reaches as far as the longest program alone. `short`: the
    record of programs below `first`. Only the cache keeps the longest program in memory: once dropped by the cache, the
    next compiled program is the longest. `compile` makes members.
    """

    compile: Callable[[Sequence[CompileTask]], list[NnetComputation]] = compile_tasks
    is_proved: bool | None = None
    longest_k: int = -1
    longest: Callable[[], NnetComputation | None] = lambda: None
    longest_rows: Sequence[np.ndarray] = ()
    rows: Continued | None = None
    first: int = 0
    family: ProgramFamily | None = None
    refusal: str = ""
    short: FamilyRecord | None = None

    def of(self, series: LengthSeries) -> FamilyRecord:
        """Returns the record of programs of this length."""
        if series.k >= self.first:
            return self
        self.short = self.short or FamilyRecord(self.compile, is_proved=False)
        return self.short

    def all(self) -> list[FamilyRecord]:
        return [self, *([] if self.short is None else self.short.all())]

    def k_of(self, rows: Sequence[np.ndarray]) -> int:
        """Returns the k of the member with given indexes, -1 without a member."""
        if self.family is None or self.rows is None:
            return -1
        k = self.rows.k_of(list(map(len, rows)))
        is_member = k >= self.first and (bool(self.is_proved) or k <= self.longest_k)
        return k if is_member and _equal(self.rows, k, rows) else -1

    def note(self, series: LengthSeries, program: NnetComputation) -> None:
        """Take note of a compiled program."""
        if self.refusal or (self.rows is not None and not _names(self.rows, series.k, series.rows)):
            return
        if self.family is not None and series.k > self.longest_k:
            self._confirm(self.family, series.k, program)
        elif self.family is None and (series.k > self.longest_k or self.longest() is None):
            self.longest_k, self.longest, self.longest_rows = series.k, weakref.ref(program), series.rows

    def has(self, series: LengthSeries, task: CompileTask) -> bool:
        """Returns True if the family has the member of this series' task; makes the family when the time has come."""
        if self.refusal or (self.longest_k < 0 and not _is_far(series, task)):
            return False
        if self.is_proved is False and series.k > self.longest_k:
            return False
        try:
            if self.rows is None:
                self.rows = continued([list(map(table_of, series.shorter(j)[1])) for j in range(_MEMBERS)])
            if not _names(self.rows, series.k, series.rows):
                return False
            if self.family is None:
                self._find_family(series)
        except _NoMemberError:
            return False
        except (NotAffineError, Nnet3Error) as error:
            self.refusal = str(error)
        return self.family is not None and (bool(self.is_proved) or series.k <= self.longest_k)

    def _find_family(self, series: LengthSeries) -> None:
        """Make the family, if this task is long enough and all longer members are known to go on likewise.

        This is proved, or else the longest program is compared. The proof is about graphs, and passes see two
        programs: rows that lie apart in these may overlap in a long one, so a long one is checked. Raises
        NotAffineError, ComputationCheckError or errors of compiling.
        """
        sweeps = self._prove(series)
        assert self.rows is not None
        if self.is_proved is None or series.k < self.first + _MEMBERS:
            return
        k, program = self.longest_k, self.longest()
        if program is not None and (k < self.first + _MEMBERS or not _names(self.rows, k, self.longest_rows)):
            program = None
        if program is None and not self.is_proved:
            self.longest_k = -1
            return
        try:
            sample = program if self.is_proved else None
            last = self.first + 1 if sample is None else k
            few = [self.first] if sample else [self.first, last]
            members = self.compile([replace(self._member(series, each), sweeps=sweeps.get(each)) for each in few])
            family = ProgramFamily([*members, sample] if sample else members, apart=last - self.first)
            if self.is_proved:
                check_computation(family.at(MANY, precompute_of(self._member(series, self.first))))
        except (NotAffineError, ComputationCheckError) as error:
            if self.first >= (_SOON + _LATER if isinstance(error, NotAffineError) else _MOST_LATER):
                raise
            self.first += _SOON if self.first < _SOON else _LATER
            return self._find_family(series)
        self.family, self.longest_k = family, max(k, series.k)
        if program is not None and not self.is_proved:
            self._confirm(family, k, program)

    def _member(self, series: LengthSeries, k: int) -> CompileTask:
        return _member_of(present(self.rows), k, *series.shorter(k))

    def _prove(self, series: LengthSeries) -> dict[int, Sweeps]:
        """Find the shortest member after which all go on alike, unless this task is too short; returns its sweeps."""
        assert self.rows is not None
        sweeps = dict[int, Sweeps]()  # of the two members looked at last, by k
        if self.is_proved is None and not self.rows.moves_by(series.increment):
            self.is_proved = False
        while self.is_proved is None and series.k >= self.first + _MEMBERS:
            few = self.first, self.first + 1
            sweeps = {k: sweeps.get(k) or finished_sweeps(*self._member(series, k).lowered_from()) for k in few}
            missing = frames_missing(sweeps[few[0]], sweeps[few[1]], series.increment[T])
            if missing == 0:
                self.is_proved = True
            else:
                self.first += -(-(missing or 0) // max(1, series.increment[T]))
                if missing is None or self.first > _MOST_LATER:
                    self.first, self.is_proved = 0, False
        return sweeps

    def _confirm(self, family: ProgramFamily, k: int, program: NnetComputation) -> None:
        """Take a family if member k equals the program, else refuse the family."""
        try:
            family.check(k - self.first, program)
            self.family, self.longest_k = family, k
        except NotAffineError as error:
            self.family, self.refusal = None, f"a longer program is not what the short ones promise ({error})"


@dataclass
class SequencesRecord:
    """The families of a series for all numbers of sequences, made of two small ones when two numbers have been asked
    for.

    `record`: the family of `n` sequences more than the fewest; results are compared with it.
    """

    n: int
    record: FamilyRecord
    rows: ContinuedTwice | None = None
    family: ShapeFamily | None = None
    refusal: str = ""

    def give(self, record: FamilyRecord, series: LengthSeries, others: SequencesSeries) -> None:
        """Give a new record its family, if a known number of sequences has one; both families reach equally far."""
        known = self.record
        if known.family is None:
            self.n, self.record = others.n, record
            return
        if self.refusal or series.k < known.first + _MEMBERS:
            return
        try:
            if self.family is None:
                self.make(others)
            record.rows, record.family = present(self.rows).at(others.n), present(self.family).at(others.n)
        except _NoMemberError:
            return
        except (NotAffineError, Nnet3Error) as error:
            self.refusal = str(error)
            return
        record.first, record.longest_k, record.is_proved = known.first, known.longest_k, known.is_proved

    def make(self, others: SequencesSeries) -> None:
        """Make the families. Raises NotAffineError, ComputationCheckError or errors of compiling."""
        first, known_family, known_rows = self.record.first, present(self.record.family), present(self.record.rows)
        few = range(_MEMBERS)
        try:
            rows = [continued([list(map(table_of, others.member(j, n)[1])) for j in few]) for n in few]
            self.rows = ContinuedTwice(rows)
            self.rows.at(self.n).check(_MEMBERS, known_rows.at(_MEMBERS))
        except NotAffineError as error:
            raise _NoMemberError from error
        members = [self.record.compile([self._member(others, first + j, n) for j in few]) for n in few]
        family = ShapeFamily(members, (self.n, known_family))
        if self.n in few:  # the known family confirms nothing
            third = self._member(others, first + _MEMBERS, others.n)
            family.at(others.n).check(_MEMBERS, *self.record.compile([third]))
        check_computation(family.at(MANY).at(_MEMBERS, precompute_of(self._member(others, first, 0))))
        self.family = family

    def _member(self, others: SequencesSeries, k: int, n: int) -> CompileTask:
        return _member_of(present(self.rows).at(n), k, *others.member(k, n))


class FamilyStore:
    """Continues programs to further lengths and further numbers of sequences.

    The first program of a series is compiled. For a second length, or at once for a recurrence that is long or serves
    sequences of many lengths, a short program of the series is compiled. It is continued by what the longest program
    compiled before has in addition; without one, the next short program is compiled as well. The short program is long
    enough to show all parts of longer programs (see `nnet3.engine.lowering.continuation`), so every longer program
    follows by arithmetic.

    Some networks would need very long members, or members of unknown length. Their family is made of two short programs
    on the first request for a program shorter than the longest known program. The family is compared with the longest
    program, command by command, and reaches no further: each longer program is compiled and compared, and then confirms
    the family up to the new length.

    Alike sequences have one graph, for any number of sequences. If a family for one number of sequences exists and a
    second number is wanted, programs for four and five sequences are compiled and continued to all numbers. The first
    number must get its family back; families of further numbers reach as far as the first.
    """

    def __init__(self, compile: Callable[[Sequence[CompileTask]], list[NnetComputation]] = compile_tasks) -> None:
        """`compile` makes the members of families."""
        self._compile = compile
        self._records, self._sequences = Recent[FamilyRecord](_MOST_RECORDS), Recent[SequencesRecord](_MOST_RECORDS)
        #: Families that were used last, by signatures of tasks: they are found without the series of a task.
        self._by_signature = Recent[Recent[FamilyRecord]](_MOST_RECORDS)

    def __len__(self) -> int:
        return sum(record.family is not None for record in self._all())

    @property
    def refusals(self) -> list[str]:
        """Returns the reasons why some series have no family, one line each."""
        refusals = [record.refusal for record in self._all()] + [each.refusal for each in self._sequences.values()]
        return [refusal for refusal in refusals if refusal]

    def _all(self) -> list[FamilyRecord]:
        return [each for record in self._records.values() for each in record.all()]

    def note(self, task: CompileTask, program: NnetComputation) -> None:
        """Take note of a compiled program."""
        series = task.series()
        if series is not None:
            self._record(series, task).note(series, program)

    @many_objects()
    def program(self, task: CompileTask) -> NnetComputation | None:
        """Returns the program of a task from the family of its series; None without a family."""
        signature = None if task.signature is None else (task.signature, task.options)
        record, k = self._used_last(signature, task) or self._of_series(task)
        if record is None or record.family is None:
            return None
        if signature is not None:
            records = self._by_signature.get_or_make(signature, partial(Recent, _MOST_OF_SIGNATURE))
            records.use(id(record), record)
        try:
            program = record.family.member(k - record.first, precompute_of(task))
        except NotAffineError:  # its numbers have more than 32 bits
            return None
        if task.options.check:
            check_computation(program)
        return program

    def _used_last(self, signature: Hashable, task: CompileTask) -> tuple[FamilyRecord, int] | None:
        """Returns a family of this signature with a program for the indexes of a task, and the program's k."""
        if signature not in self._by_signature:
            return None
        rows = task.rows()
        for record in reversed(self._by_signature[signature].values()):
            k = record.k_of(rows)
            if k >= 0:
                return record, k
        return None

    def _of_series(self, task: CompileTask) -> tuple[FamilyRecord | None, int]:
        """Returns the family of a task's series, and the task's k in it; None for a task without a family."""
        if (series := task.series()) is None:
            return None, -1
        record = self._record(series, task)
        return (record, series.k) if record.has(series, task) else (None, -1)

    def _record(self, series: LengthSeries, task: CompileTask) -> FamilyRecord:
        record = self._records.get_or_make(_name(series, task), lambda: FamilyRecord(self._compile))
        if record.rows is None and not record.refusal:
            others = series.sequences()
            if others is not None:
                name = _name(others, task)
                known = self._sequences.get_or_make(name, lambda: SequencesRecord(others.n, record))
                known.give(record, series, others)
        return record.of(series)


def _member_of(rows: Continued, k: int, task: CompileTask, own: Sequence[np.ndarray]) -> CompileTask:
    """Returns a member's task, made of a longer task. Raises _NoMemberError if the task's indexes are not the member's.

    An input shorter than the rest may have lost too much.
    """
    if not _names(rows, k, own):
        raise _NoMemberError
    return task


def _is_far(series: LengthSeries, task: CompileTask) -> bool:
    """True for a task serving many lengths, or a recurrence long enough for its family to compile faster."""
    return series.increment[T] > 0 and (
        task.serves_shorter or (series.k >= _FAR and any(structure_of(task.lowered_from()[0]).is_recurrent))
    )


def _name(series: LengthSeries | SequencesSeries, task: CompileTask) -> str:
    return key_digest({**series.key, "options": task.options})


def _names(rows: Continued, k: int, wanted: Sequence[np.ndarray]) -> bool:
    """True if the family's request for length k has the wanted indexes in the wanted order."""
    # Lengths first, because where times have gaps there may be very many.
    return rows.lengths(k).tolist() == list(map(len, wanted)) and _equal(rows, k, wanted)


def _equal(rows: Continued, k: int, wanted: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(made.values, own) for made, own in zip(rows.at(k), wanted, strict=True))


def precompute_of(task: CompileTask) -> Precompute:
    """Returns the maker of precomputed entries for a task's program; it looks at the task on the first call."""
    rules = cache(lambda: KernelRules(task.lowered_from()[0]))
    return lambda rows: rules().precompute(rows)
