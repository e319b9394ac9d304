"""CompiledFamily: the program of a task as a function of its frames and sequences, and its text, with formulas."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, partial

from nnet3.engine.driver.family_store import MANY, FamilyRecord, SequencesRecord, precompute_of
from nnet3.engine.driver.task import FEWEST_SEQUENCES, CompileTask, LengthSeries, compile_task
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.family import ProgramFamily
from nnet3.engine.families.polynomial import Polynomial
from nnet3.engine.families.symbolic import symbolic
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Recent, present
from nnet3.errors import Nnet3Error, RequestError

_MOST_KEPT = 8  # families of one number of sequences


class CompiledFamily:
    """The programs for requests that differ in their numbers of frames and sequences, compiled once.

    `frames`: output frames of each sequence in the shortest member; longer members have `step` more, twice as many
    more, .... `sequences`: the number in the member with the fewest; where `any_sequences` is False, in all members.

    Prints as the program with its parameters: T output frames for each of N sequences.
    """

    def __init__(self, task: CompileTask, table: int, sequences: int) -> None:
        """`table`: the position of an output's indexes among the series', for so many `sequences`.

        Raises RequestError if the request is too short to tell how longer programs go on, and for networks whose
        programs do not go on alike.
        """
        series = task.series()
        if series is None and task.is_ragged():
            raise RequestError(
                "its sequences end at different times: ask for sequences that are all alike; programs for others are "
                "made of theirs where they are compiled"
            )
        if series is None:
            raise RequestError("the request is too short to tell how longer ones go on: ask for more frames")
        self._record, self.precompute = _record_of(series, task), precompute_of(task)
        self._prove = task.options.prove
        rows = present(self._record.rows)
        short, longer = (int(rows.lengths(self._record.first + k)[table]) // sequences for k in (0, 1))
        self.frames, self.step, self.sequences = short, longer - short, sequences
        self._sequences_record = _sequences_record_of(series, self._record)
        self._by_sequences = Recent[ProgramFamily](_MOST_KEPT)
        self.any_sequences = self._sequences_record is not None
        if self._sequences_record is not None:
            self.sequences = FEWEST_SEQUENCES
        # All numbers are affine in the parameters: what is right for few and for many is right between.
        for increments, more in ((0, 0), (MANY, MANY * self.any_sequences)):
            check_computation(self.at(self.frames + increments * self.step, self.sequences + more))

    @property
    def family(self) -> ProgramFamily:
        """The programs for the fewest sequences as functions of k, where frames are `frames + k * step`."""
        return present(self._record.family)

    def at(self, frames: int, sequences: int | None = None) -> NnetComputation:
        """Returns the program for given numbers of sequences and of output frames per sequence.

        The indexes continue the request's indexes: further frames at the end, further sequences with the next numbers.
        Raises RequestError for a shape without a member.
        """
        sequences = self.sequences if sequences is None else sequences
        k, rest = divmod(frames - self.frames, self.step)
        if k < 0 or rest:
            raise RequestError(f"there is no member for {frames} frames, only for {self.frames} + {self.step} k")
        if sequences < self.sequences or (sequences > self.sequences and not self.any_sequences):
            wanted = f"{self.sequences} {'and more' if self.any_sequences else 'only'}"
            raise RequestError(f"there is no member for {sequences} sequences: {wanted}")
        try:
            program = self._of_sequences(sequences - self.sequences).member(k, self.precompute)
        except NotAffineError as error:
            raise RequestError(f"there is no member for {frames} frames of {sequences} sequences: {error}") from error
        program.prove = self._prove
        return program

    def _of_sequences(self, n: int) -> ProgramFamily:
        """Returns the family for n sequences more than the fewest."""
        if self._sequences_record is None or self._sequences_record.family is None:
            return self.family
        return self._by_sequences.get_or_make(n, partial(self._sequences_record.family.at, n))

    @cached_property
    def _text(self) -> str:
        k = (Polynomial("T") - self.frames) * Fraction(1, self.step)
        few = self._of_sequences(0)
        if self._sequences_record is None:
            return str(symbolic(few, k))
        try:
            return str(symbolic(few, k, self._sequences_record.family, Polynomial("N") - self.sequences))
        except NotAffineError as error:
            return f"# for N = {self.sequences}, because {error}\n{symbolic(few, k)}"

    def __str__(self) -> str:
        frames = f"T = {self.frames}, {self.frames + self.step}, ... output frames"
        sequences = f"N = {self.sequences}{', ' + str(self.sequences + 1) + ', ...' if self.any_sequences else ''}"
        return f"# {frames} of {sequences} sequences\n{self._text}"


def _record_of(series: LengthSeries, task: CompileTask) -> FamilyRecord:
    """Returns the family of a series, made now. Raises RequestError with the reason if there is none."""
    record = FamilyRecord()
    if not record.has(series, task):
        record.note(series, compile_task(task))
        record.has(series, task)
    if record.refusal or record.is_proved is False:
        reason = record.refusal or "it cannot be told from short requests how longer ones go on"
        raise RequestError(f"there is no program for all lengths: {reason}")
    if record.family is None:
        raise RequestError("the request is too short to tell how longer ones go on: ask for more frames")
    return record


def _sequences_record_of(series: LengthSeries, record: FamilyRecord) -> SequencesRecord | None:
    """Returns the families for all numbers of sequences; None if only one number of sequences has a family."""
    more = series.sequences()
    if more is None:
        return None
    record_of_more = SequencesRecord(more.n, record)
    try:
        record_of_more.make(more)
    except (NotAffineError, Nnet3Error):
        return None
    return record_of_more
