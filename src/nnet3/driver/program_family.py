"""CompiledFamily: the program of a task as a function of its frames and sequences, and its text, with formulas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

from nnet3.driver.family_shelf import FamilyPlace, SequencesPlace, precompute_of
from nnet3.driver.task import FEWEST_SEQUENCES, CompileTask, LengthForm, compile_task
from nnet3.errors import Nnet3Error, RequestError
from nnet3.families.continued import NotAffineError
from nnet3.families.family import ProgramFamily
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.printer import print_computation

_MOST_KEPT = 8  # families of one number of sequences
_MANY = 500  # steps, and sequences, of the largest member that is checked


class CompiledFamily:
    """The programs for requests that differ in how many frames and sequences they ask for, compiled once.

    `frames`: output frames of each sequence in the shortest member; others have `step` more, twice as many more, ....
    `sequences`: their number in the member with the fewest; where `any_sequences` is False, in all members.

    Prints as the program with its parameters: T output frames for each of N sequences.
    """

    def __init__(self, task: CompileTask, table: int, sequences: int) -> None:
        """`table`: the place among the form's indexes of those of an output, which has so many `sequences`.

        Raises RequestError if the request is too short to tell how longer ones go on, and for networks whose programs
        do not go on alike.
        """
        form = task.form()
        if form is None and task.ends_apart():
            raise RequestError(
                "its sequences end at different times: ask for sequences that are all alike; programs for others are "
                "made of theirs where they are compiled"
            )
        if form is None:
            raise RequestError("the request is too short to tell how longer ones go on: ask for more frames")
        self._place, self.precompute = _place_of(form, task), precompute_of(task)
        self._prove = task.options.prove
        rows = self._place.rows
        assert rows is not None
        short, longer = (int(rows.lengths(self._place.first + k)[table]) // sequences for k in (0, 1))
        self.frames, self.step, self.sequences = short, longer - short, sequences
        self._shapes = _shapes_of(form, self._place)
        self._by_sequences: dict[int, ProgramFamily] = {}
        self.any_sequences = self._shapes is not None
        if self._shapes is not None:
            self.sequences = FEWEST_SEQUENCES
        # All numbers are affine in the parameters: what is right for few and for many is right between.
        for steps, more in ((0, 0), (_MANY, _MANY * self.any_sequences)):
            check_computation(self.at(self.frames + steps * self.step, self.sequences + more))

    @property
    def family(self) -> ProgramFamily:
        """The programs for the fewest sequences as functions of k, where frames are `frames + k * step`."""
        assert self._place.family is not None
        return self._place.family

    def at(self, frames: int, sequences: int | None = None) -> NnetComputation:
        """Returns the program for so many output frames of each of so many sequences.

        Its indexes continue those of the request: further frames at its end, further sequences with the next numbers.
        Raises RequestError if no member has this shape.
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
        if self._shapes is None or self._shapes.family is None:
            return self.family
        known = self._by_sequences.get(n)
        if known is None:
            if len(self._by_sequences) >= _MOST_KEPT:
                self._by_sequences.pop(next(iter(self._by_sequences)), None)
            known = self._by_sequences[n] = self._shapes.family.at(n)
        return known

    @cached_property
    def _text(self) -> str:
        longer, more = self.frames + self.step, self.sequences + self.any_sequences
        shapes = [(frames, n) for n in (self.sequences, more) for frames in (self.frames, longer)]
        shapes += [(self.frames + 5 * self.step, self.sequences + 3 * self.any_sequences)]
        return formulas([print_computation(self.at(*shape)) for shape in shapes], shapes)

    def __str__(self) -> str:
        frames = f"T = {self.frames}, {self.frames + self.step}, ... output frames"
        sequences = f"N = {self.sequences}{', ' + str(self.sequences + 1) + ', ...' if self.any_sequences else ''}"
        return f"# {frames} of {sequences} sequences\n{self._text}"


def _place_of(form: LengthForm, task: CompileTask) -> FamilyPlace:
    """Returns the family of a form, made now. Raises RequestError with the reason if there is none."""
    place = FamilyPlace()
    if not place.has(form, task):
        place.note(form, compile_task(task))
        place.has(form, task)
    if place.refusal or place.is_proved is False:
        reason = place.refusal or "it cannot be told from short requests how longer ones go on"
        raise RequestError(f"there is no program for all lengths: {reason}")
    if place.family is None:
        raise RequestError("the request is too short to tell how longer ones go on: ask for more frames")
    return place


def _shapes_of(form: LengthForm, place: FamilyPlace) -> SequencesPlace | None:
    """Returns the family for all numbers of sequences; None if it is that of one number."""
    others = form.sequences()
    if others is None:
        return None
    shapes = SequencesPlace(others.n, place)
    try:
        shapes.make(others)
    except (NotAffineError, Nnet3Error):
        return None
    return shapes


_INTEGER = re.compile(r"(?<![\w.])-?\d+|(?<=m)\d+")
Shape = tuple[int, int]  # frames and sequences


def formulas(texts: Sequence[str], shapes: Sequence[Shape]) -> str:
    """Returns the first text, with formulas in T and N in the place of numbers that differ.

    The first four texts have the shapes (T, N), (T', N), (T, N') and (T', N'); N' may be N. The formulas must also hold
    for the shapes of further texts. A line without formulas for its differences is the first text's, followed by the
    first shape.

    >>> formulas(["m1(20, 7)", "m1(22, 7)", "m1(30, 7)", "m1(33, 7)"], [(8, 2), (9, 2), (8, 3), (9, 3)])
    'm1(N * (T + 2), 7)'
    """
    lines = zip_longest(*(text.splitlines() for text in texts), fillvalue="")
    return "\n".join([_line(line, shapes) for line in lines])


def _line(line: Sequence[str], shapes: Sequence[Shape]) -> str:
    between = [_INTEGER.split(text) for text in line]
    numbers = [list(map(int, _INTEGER.findall(text))) for text in line]
    if all(parts == between[0] for parts in between):
        factors = [_bilinear(values, shapes) for values in zip(*numbers[:4], strict=True)]
        if all([_value(each, shape) for each in factors] == own for own, shape in zip(numbers, shapes, strict=True)):
            written = map(_text, factors)
            return "".join([part for pair in zip_longest(between[0], written, fillvalue="") for part in pair])
    return f"{line[0]}  [at T = {shapes[0][0]}, N = {shapes[0][1]}]"


class Bilinear(NamedTuple):
    """a + b T + c N + d T N."""

    a: Fraction
    b: Fraction
    c: Fraction
    d: Fraction


def formula(values: Sequence[int], shapes: Sequence[Shape]) -> str:
    """Returns a + b T + c N + d T N, which has these values at the four shapes, as text.

    >>> formula([16, 18, 16, 18], [(8, 2), (9, 2), (8, 3), (9, 3)])
    '2T'
    """
    return _text(_bilinear(values, shapes))


def _bilinear(values: Sequence[int], shapes: Sequence[Shape]) -> Bilinear:
    (frames, sequences), (more_frames, _), (_, more_sequences), _ = shapes[:4]
    by_frames, by_sequences = more_frames - frames, max(1, more_sequences - sequences)
    slope = [Fraction(values[1 + i] - values[i], by_frames) for i in (0, 2)]
    d = (slope[1] - slope[0]) / by_sequences
    b = slope[0] - d * sequences
    c = Fraction(values[2] - values[0], by_sequences) - d * frames
    return Bilinear(values[0] - b * frames - c * sequences - d * frames * sequences, b, c, d)


def _value(factors: Bilinear, shape: Shape) -> Fraction:
    (a, b, c, d), (frames, sequences) = factors, shape
    return a + b * frames + c * sequences + d * frames * sequences


def _text(factors: Bilinear) -> str:
    a, b, c, d = factors
    if d and c and not a and not b:
        return f"N * ({_sum([(d, 'T'), (c, '')])})"
    return _sum([(d, "N T"), (b, "T"), (c, "N"), (a, "")])


def _sum(terms: Sequence[tuple[Fraction, str]]) -> str:
    text = ""
    for factor, name in terms:
        if factor:
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            size = abs(factor)
            over = f"/{size.denominator}" if size.denominator > 1 else ""
            text += sign + (f"{size.numerator if size.numerator > 1 or not name else ''}{name}{over}")
    return text or "0"
