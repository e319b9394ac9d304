"""Endpoints: rules that say when an utterance has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nnet3.base.options.recognizer import EndpointRule

RULES: Mapping[str, EndpointRule] = {
    "rule1": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=5.0),
    "rule2": EndpointRule(min_trailing_silence=0.5, max_relative_cost=2.0),
    "rule3": EndpointRule(min_trailing_silence=1.0, max_relative_cost=8.0),
    "rule4": EndpointRule(min_trailing_silence=2.0),
    "rule5": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=20.0),
}


@dataclass(frozen=True)
class Endpointing:
    """The rules of a recognizer: an utterance has ended if any of them says so.

    `seconds_per_row` is the time between rows of the search.
    """

    rules: Mapping[str, EndpointRule] = field(default_factory=lambda: RULES)
    seconds_per_row: float = 0.03

    def which(self, rows: int, trailing_rows: int, relative_cost: float = math.inf) -> str:
        """Returns the name of the first rule by which the utterance has ended, or "".

        `rows`: rows of the search since the utterance began. `trailing_rows`: rows of silence at the end of the best
        path. `relative_cost`: the cost of ending now beyond the cost of the best path, infinite if no path can end.
        """
        if rows == 0:
            return ""
        length, trailing = rows * self.seconds_per_row, trailing_rows * self.seconds_per_row
        for name, rule in self.rules.items():
            if (
                (length > trailing or not rule.must_contain_nonsilence)
                and trailing >= rule.min_trailing_silence
                and relative_cost <= rule.max_relative_cost
                and length >= rule.min_utterance_length
            ):
                return name
        return ""


def trailing_silence(phones: npt.ArrayLike, silence_phones: npt.ArrayLike) -> int:
    """Returns how many of the phones at the end of a path, (rows,), are silence without a break."""
    speech = np.flatnonzero(~np.isin(phones, silence_phones))
    return len(np.asarray(phones)) - (int(speech[-1]) + 1 if len(speech) else 0)
