"""Parts of determinization: counted memory, ways without labels, sets of states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelledArcs

_BYTES = 1  # that Kaldi counts for what is a number of 8 bytes here: it holds up to 8 times fewer and shorter ones


class TooLargeError(Exception):
    """Determinizing a lattice needs more memory or work than it may have."""


class Memory:
    """Counts the rows and columns held now, against a limit in Kaldi's bytes, and all rows and columns ever held, which
    is the work, against a second limit. Both limits may be infinite.
    """

    def __init__(self, most_bytes: float, most_work: float = np.inf):
        self.left, self.work_left = most_bytes, most_work

    def hold(self, rows: int, columns: int) -> None:
        self.left -= _BYTES * rows * columns
        self.work_left -= rows * columns
        if self.left < 0 or self.work_left < 0:
            raise TooLargeError

    def release(self, rows: int, columns: int) -> None:
        self.left += _BYTES * rows * columns

    def check(self, rows: int, columns: int) -> None:
        """Raises TooLargeError if so much could not be held besides."""
        self.hold(rows, columns)
        self.release(rows, columns)


class Leaps(NamedTuple):
    """The best ways without labels from the start, or from behind a label, to ends or to states with labels ahead.

    Ways are sorted by source state, then by end: the ways out of state s are offsets[s] to offsets[s + 1] - 1. state:
    the way's end; graph, acoustic: costs; ids.
    """

    offsets: Integers
    state: Integers
    graph: Doubles
    acoustic: Doubles
    ids: Strings


class SetEnds(NamedTuple):
    """Final sets, with the costs and the ids of ending."""

    set: Integers
    graph: Doubles
    acoustic: Doubles
    ids: Strings


class LabelSets(NamedTuple):
    """Sets of states reached by equal labels, in the order of making: the least level of each set's members, (sets,),
    arcs between sets, and ends."""

    levels: Integers
    arcs: LabelledArcs
    ends: SetEnds
