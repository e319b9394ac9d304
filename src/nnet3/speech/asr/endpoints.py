"""Endpoints: rules that say when an utterance has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nnet3.base.options.recognizer import ENDPOINT_RULES, EndpointRule
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.asr.beam_search import BeamSearch

_ROWS_BACK = 64  # that are looked at first for silence at the end

RULES = ENDPOINT_RULES


@dataclass(frozen=True)
class Endpointing:
    """The rules of a recognizer: an utterance has ended if any of them says so.

    `seconds_per_row` is the time between rows of the search. Lengths are compared in float32, as in Kaldi: 3 rows of
    0.03 s are shorter than 0.09 s.
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
        row = np.float32(self.seconds_per_row)
        length, trailing = np.float32(rows) * row, np.float32(trailing_rows) * row
        for name, rule in self.rules.items():
            if (
                (length > trailing or not rule.must_contain_nonsilence)
                and trailing >= np.float32(rule.min_trailing_silence)
                and relative_cost <= rule.max_relative_cost
                and length >= np.float32(rule.min_utterance_length)
            ):
                return name
        return ""


def silent_rows(search: BeamSearch, model: TransitionModel, silence_phones: npt.ArrayLike) -> int:
    """Returns the rows of silence at the end of a search's best path, without looking back much further."""
    rows, looked_at, trailing = search.num_rows, 0, 0
    while trailing == looked_at < rows:
        looked_at = min(2 * looked_at or _ROWS_BACK, rows)
        path = search.newest(rows - looked_at)
        if path is None:
            return 0
        trailing = trailing_silence(model.phone(path[0]), silence_phones)
    return trailing


def trailing_silence(phones: npt.ArrayLike, silence_phones: npt.ArrayLike) -> int:
    """Returns how many of the phones at the end of a path, (rows,), are silence without a break."""
    speech = np.flatnonzero(~np.isin(phones, silence_phones))
    return len(np.asarray(phones)) - (int(speech[-1]) + 1 if len(speech) else 0)
