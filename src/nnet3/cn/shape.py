"""The shape of a node's value, in the orientation of the chapter: a column is a sample."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from nnet3.errors import ShapeError

_MOST_ELEMENTS = 2**36  # of a matrix: 256 GiB of float32


SEQUENCES = "sequence"
"""The axis on which there is one sample for each sequence of a minibatch."""


@dataclass(frozen=True)
class Shape:
    """`rows` x `cols`; `cols` is None for a column per sample (printed as S).

    Samples may lie on several axes: a sequence may have one number of frames on one axis and another on the next. Then
    `cols` is the name of the axis; the axis of input frames has no name (None). On the axis "sequence" a sequence
    has one sample (printed as N).
    """

    rows: int
    cols: int | str | None = None

    @property
    def has_samples(self) -> bool:
        return not isinstance(self.cols, int)

    @property
    def num_cols(self) -> int | None:
        """The number of columns of a value without samples, else None."""
        return self.cols if isinstance(self.cols, int) else None

    @property
    def axis(self) -> str:
        """The axis of the samples; "" for that of frames, and for values without samples."""
        return self.cols if isinstance(self.cols, str) else ""

    @property
    def is_scalar(self) -> bool:
        return self.rows == 1 and self.cols == 1

    def __str__(self) -> str:
        if isinstance(self.cols, str):
            return f"{self.rows} x {'N' if self.cols == SEQUENCES else f'S[{self.cols}]'}"
        return f"{self.rows} x {'S' if self.cols is None else self.cols}"


def as_shape(shape: object, what: str) -> Shape:
    """Returns the shape that a user wrote: a number of rows (a column a sample), or (rows, columns).

    Raises ShapeError for anything else; `what` begins the message.
    """
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    fits = len(sizes) in (1, 2) and all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in sizes)
    if not fits or min(sizes) < 1:
        raise ShapeError(f"{what}: expected a number of rows, or (rows, columns), all at least 1; got {shape!r}")
    if math.prod(sizes) > _MOST_ELEMENTS:
        raise ShapeError(f"{what}: {' x '.join(map(str, sizes))} elements are too many")
    return Shape(*map(int, sizes))
