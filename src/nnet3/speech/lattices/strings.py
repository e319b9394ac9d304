"""Strings of integers as arrays: parts of strings, concatenation, common beginnings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.lattice import Strings
from nnet3.speech.arrays.aliases import Integers


def chained(*parts: Strings) -> Strings:
    """Returns strings put together, string by string, from the strings of each part."""
    lengths = [part.lengths for part in parts]
    offsets = np.append(0, np.cumsum(sum(lengths[1:], lengths[0])))
    values, at = np.empty(offsets[-1], np.int32), offsets[:-1].copy()
    for part, length in zip(parts, lengths, strict=True):
        values[np.arange(len(part.values)) + np.repeat(at - part.offsets[:-1], length)] = part.values
        at += length
    return Strings(offsets, values)


def without_first(strings: Strings, counts: Integers) -> Strings:
    """Returns the strings without their first `counts` values."""
    keep = np.arange(len(strings.values)) >= np.repeat(strings.offsets[:-1] + counts, strings.lengths)
    return Strings.of(strings.lengths - counts, strings.values[keep])


def first_values(strings: Strings, counts: Integers) -> Strings:
    """Returns the first `counts` values of each string."""
    keep = np.arange(len(strings.values)) < np.repeat(strings.offsets[:-1] + counts, strings.lengths)
    return Strings.of(counts, strings.values[keep])


def common_lengths(strings: Strings, starts: Integers) -> Integers:
    """Returns the number of values common to the beginnings of all strings of each group, (groups,).

    Group g is the strings from starts[g] on, at least one.
    """
    lengths = strings.lengths
    sizes = np.diff(np.append(starts, len(lengths)))
    lead = np.repeat(starts, sizes)
    shared = np.minimum(lengths, lengths[lead])
    position = np.arange(len(strings.values)) - np.repeat(strings.offsets[:-1], lengths)
    of = np.repeat(np.arange(len(lengths)), lengths)
    both = np.flatnonzero(position < shared[of])
    other = strings.values[strings.offsets[lead[of[both]]] + position[both]]
    differs = both[strings.values[both] != other]
    np.minimum.at(shared, of[differs], position[differs])
    return np.minimum.reduceat(shared, starts)


def hashes(strings: Strings) -> npt.NDArray[np.uint64]:
    """Returns a hash of 64 bits for each string, (strings,)."""
    position = np.arange(len(strings.values)) - np.repeat(strings.offsets[:-1], strings.lengths)
    with np.errstate(over="ignore"):
        sums = np.append(np.uint64(0), np.cumsum(mixed(strings.values, position)))
        return sums[strings.offsets[1:]] - sums[strings.offsets[:-1]] + strings.lengths.astype(np.uint64)
