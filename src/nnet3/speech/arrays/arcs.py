"""Arcs that leave states, as ranges of arc numbers, which lie `step` apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.speech.arrays.aliases import Integers


class ArcsOfStates(NamedTuple):
    """Arcs out of a list of states: the arcs' numbers, and the position in the list of each arc's source state."""

    arc: Integers
    position: Integers


def arcs_leaving(offsets: Integers, states: Integers, step: int = 1) -> ArcsOfStates:
    """Returns arcs offsets[s] .. offsets[s + 1] - 1 for each state s of a list, in its order."""
    return arcs_between(offsets[states], offsets[states + 1], step)


def arcs_between(starts: Integers, ends: Integers, step: int = 1) -> ArcsOfStates:
    """Returns arcs starts[i] .. ends[i] - 1 for each position i of a list, in its order; what is left of a step is no
    arc."""
    counts = (ends - starts) // step
    behind = np.cumsum(counts)
    position = np.repeat(np.arange(len(starts)), counts)
    number = np.arange(behind[-1] if len(behind) else 0) - (behind - counts)[position]
    return ArcsOfStates(starts[position] + step * number, position)
