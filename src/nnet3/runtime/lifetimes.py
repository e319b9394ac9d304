"""Live ranges of matrices. A compressed matrix lends its memory to others meanwhile."""

from __future__ import annotations

from collections import defaultdict

from nnet3.ir.computation import NnetComputation
from nnet3.ir.declarations import Life

Span = tuple[int, int]  # first and last command, both included

#: The form of a matrix whose span ends, and the one whose span begins: 1, compressed -1, or 0 for none.
_ENDS_AND_BEGINS = {Life.BEGINS: (0, 1), Life.ENDS: (1, 0), Life.COMPRESSES: (1, -1), Life.DECOMPRESSES: (-1, 1)}


def matrix_spans(computation: NnetComputation) -> dict[int, list[Span]]:
    """Returns the live range of each matrix as increasing spans; key -m is the compressed form of matrix m."""
    begun: dict[int, int] = {}
    spans: dict[int, list[Span]] = defaultdict(list)
    for number, command in enumerate(computation.commands):
        for name, life in command.form.lives:
            matrix = computation.submatrices[getattr(command, name)].matrix
            ends, begins = (form * matrix for form in _ENDS_AND_BEGINS[life])
            if ends in begun:
                spans[ends].append((begun.pop(ends), number))
            if begins:
                begun[begins] = number
    for key, first in begun.items():
        spans[key].append((first, len(computation.commands) - 1))
    return dict(spans)
