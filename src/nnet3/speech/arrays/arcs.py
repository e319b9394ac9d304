"""Arcs that leave states, as ranges of arc numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.speech.arrays.aliases import Integers


class ArcsOfStates(NamedTuple):
    """Arcs out of a list of states: the arcs' numbers, and the position in the list of each arc's source state."""

    arc: Integers
    position: Integers


def arcs_leaving(offsets: Integers, states: Integers) -> ArcsOfStates:
    """Returns arcs offsets[s] .. offsets[s + 1] - 1 for each state s of a list, in its order."""
    return arcs_between(offsets[states], offsets[states + 1])


def arcs_between(starts: Integers, ends: Integers) -> ArcsOfStates:
    """Returns arcs starts[i] .. ends[i] - 1 for each position i of a list, in its order."""
    counts = ends - starts
    behind = np.cumsum(counts)
    position = np.repeat(np.arange(len(starts)), counts)
    return ArcsOfStates(np.arange(behind[-1] if len(behind) else 0) + (ends - behind)[position], position)
