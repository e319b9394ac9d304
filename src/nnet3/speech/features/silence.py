"""Weights of frames by what the search takes them for: silence counts for little in ivectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nnet3.errors import ArgumentError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Doubles, Integers

_SILENCE_WEIGHT = 0.001  # in Vosk
_FRAMES_BACK = 100  # rows whose weights may still change
NEWEST_ROWS = 500
"""Whose transition-ids are kept."""
_NONE = -1


class SilenceWeighting:
    """Weights of the frames of one segment, by the phones on the best path of the search so far.

    `first_frame` is the first frame of features of the segment. A row is one step of the search,
    `frame_subsampling_factor` frames. Frames of silence weigh `silence_weight`, others 1. With `max_state_duration` > 0
    at least so many rows of one transition-id count as silence, too.
    """

    def __init__(
        self,
        transition_model: TransitionModel,
        silence_phones: Iterable[int],
        frame_subsampling_factor: int,
        first_frame: int = 0,
        silence_weight: float = _SILENCE_WEIGHT,
        max_state_duration: float = 0,
    ):
        phones = transition_model.phone(transition_model.transition_ids)
        silence = np.isin(phones, np.array(list(silence_phones), np.int64))
        if not silence.any():
            raise ArgumentError("no phone of the model is one of the silence phones")
        self._weight_of_id = np.concatenate([[0.0], np.where(silence, silence_weight, 1.0)])
        self._silence_weight, self._most_rows = silence_weight, int(max_state_duration)
        self.factor, self.first_frame = frame_subsampling_factor, first_frame
        self.first_row = 0  # rows before it keep their weights
        self.first_open = first_frame  # frames before it keep their weights
        self.first_kept = 0  # rows before it are forgotten
        self._ids, self._tokens = np.full(0, _NONE, np.int64), np.full(0, _NONE, np.int64)
        self._weights = np.zeros(0)

    def newest_ids(self) -> tuple[int, Integers]:
        """Returns the first row and the transition-ids of the last rows that have weights, at most `NEWEST_ROWS`.

        The id is -1 where the search has not come yet.
        """
        ids = self._ids[-NEWEST_ROWS:]
        return self.first_kept + len(self._ids) - len(ids), ids

    def trace(self, transition_ids: npt.ArrayLike, tokens: npt.ArrayLike, first: int = 0) -> bool:
        """Takes the best path so far from row `first` on, (rows,) each: the arc of each row, and the token before the
        arc. `first` must not be behind `first_row`.

        A token is any number >= 0, unique within a row. Only the rows behind the last row with the same token on the
        path before are looked at; the last common row, too, keeps its arc. Returns False, and takes nothing, if there
        is no such row and rows before `first` are kept: the path is needed from `first_kept` on.
        """
        ids, leaving = np.asarray(transition_ids, np.int64), np.asarray(tokens, np.int64)
        if ids.shape != leaving.shape or ids.ndim != 1:
            raise ArgumentError(f"a path has as many arcs as tokens, got {ids.shape} and {leaving.shape}")
        if first > self.first_row:
            raise ArgumentError(f"the path must have the rows from {self.first_row} on, got those from {first} on")
        begin = max(first, self.first_kept)
        ids, leaving, begin = ids[begin - first :], leaving[begin - first :], begin - self.first_kept
        end = begin + len(ids)
        met = np.flatnonzero(self._tokens[begin:end] == leaving[: len(self._tokens) - begin])
        if begin and not len(met):
            return False
        self._extend(end)
        unmet = int(met[-1]) + 1 if len(met) else 0
        self._ids[begin + unmet : end] = ids[unmet:]
        self._tokens[begin + unmet : end] = leaving[unmet:]
        return True

    def changes(self, ready: int) -> tuple[Integers, Doubles]:
        """Returns the frames whose weights change, and the changes, (n,) each, when `ready` frames have come.

        Frames beyond the search count as the last frame that the search has reached. The last row is always returned,
        even with an unchanged weight.
        """
        known = len(self._ids)
        self._extend(-(-(ready - self.first_frame) // self.factor) - self.first_kept)
        begin = max(0, known - _FRAMES_BACK)
        if len(self._ids) == begin:
            return np.zeros(0, np.int64), np.zeros(0)
        wanted = self._wanted(begin)
        change = wanted - self._weights[begin:]
        self._weights[begin:] = wanted
        changed = change != 0
        changed[-1] = True
        rows = self.first_kept + begin + np.flatnonzero(changed)
        frames = self.first_frame + self.factor * rows[:, np.newaxis] + np.arange(self.factor)
        self._settle(begin)
        return frames.reshape(-1), np.repeat(change[changed], self.factor)

    def of_path(self, transition_ids: npt.ArrayLike) -> Doubles:
        """Returns the weight of each frame, (rows * frame_subsampling_factor,), of a whole path, (rows,)."""
        return np.repeat(self._of_rows(np.asarray(transition_ids, np.int64)), self.factor)

    def _of_rows(self, ids: Integers) -> Doubles:
        weights = self._weight_of_id[ids]
        if self._most_rows > 0:
            first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
            lengths = np.diff(np.append(first, len(ids)))
            weights[np.repeat(lengths >= self._most_rows, lengths)] = self._silence_weight
        return weights

    def _wanted(self, begin: int) -> Doubles:
        ids = self._ids[begin:]
        if ids[0] == _NONE:
            return np.full(len(ids), self._weights[begin - 1] if begin else self._silence_weight)
        weights = self._of_rows(ids)
        source = np.maximum.accumulate(np.where(ids == _NONE, 0, np.arange(len(ids))))  # the last row with an arc
        return weights[source]

    def _settle(self, begin: int) -> None:
        """Keeps the weights of the kept rows before `begin`; later rows may take the weight of the last of them."""
        self.first_open = self.first_frame + self.factor * (self.first_kept + begin)
        settled = max(0, begin - 1)
        self.first_row = self.first_kept + settled
        forgotten = min(settled, max(0, len(self._ids) - NEWEST_ROWS))
        self.first_kept += forgotten
        self._ids, self._tokens = self._ids[forgotten:], self._tokens[forgotten:]
        self._weights = self._weights[forgotten:]

    def _extend(self, rows: int) -> None:
        more = rows - len(self._ids)
        if more > 0:
            self._ids, self._tokens = (
                np.concatenate([table, np.full(more, _NONE, np.int64)]) for table in (self._ids, self._tokens)
            )
            self._weights = np.concatenate([self._weights, np.zeros(more)])
