"""Families as text: the printed programs of four members, with formulas where their numbers differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import NamedTuple

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
