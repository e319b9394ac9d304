"""Words with the least risk in C: of lattices of transition-ids (timed.c), and of words with rows (bayes_risk.c)."""

from __future__ import annotations

import numpy as np

from nnet3.base.native.addresses import address_of, addresses_of
from nnet3.base.native.library import library
from nnet3.speech.arrays.aliases import Doubles
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.native_sets import NativeLattice
from nnet3.speech.lattices.timed_lattice import TimedLattice
from nnet3.speech.lattices.word_times import WordBoundaries

_KINDS = *4 * (np.int64,), np.float64  # of the columns of a lattice with rows


def heard_rows(lattice: LabelLattice, boundaries: WordBoundaries, graph_scale: float) -> Doubles | None:
    """Returns labels, first rows, rows behind and confidences of words, which may overlap, (words, 4).

    None where Python is to find them, or why there are none.
    """
    functions, most = library(), len(lattice.src) + 1
    if functions is None:
        return None
    found, given = np.empty((most, 4)), NativeLattice(lattice, boundaries.addresses)
    count = functions.nnet3_heard(given.address, graph_scale, most, address_of(found))
    return None if count < 0 else found[:count]


def risk_rows(lattice: TimedLattice) -> Doubles | None:
    """Returns what `heard_rows` does, of a lattice of words with rows."""
    functions, most = library(), len(lattice.src) + 1
    if functions is None:
        return None
    whole = lattice.row, lattice.src, lattice.dst, lattice.label, lattice.cost
    columns = [np.ascontiguousarray(column, kind) for column, kind in zip(whole, _KINDS, strict=True)]
    given = np.append(np.array([len(lattice.row), len(lattice.src), most]), addresses_of(columns))
    found = np.empty((most, 4))
    count = functions.nnet3_least_risk(address_of(given), address_of(found))
    return None if count < 0 else found[:count]
