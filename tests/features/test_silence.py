"""Weights of frames against a version that keeps one record per row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import SilenceWeighting
from nnet3.errors import ArgumentError
from nnet3.speech.features.silence import NEWEST_ROWS
from tests.asr.small_model import SILENCE, chain_transition_model
from tests.effort import draws

MODEL = chain_transition_model()


class SlowWeighting:
    """A list of [id or None, token, weight], one for each row."""

    def __init__(self, factor: int, first: int, weight: float, longest: int):
        self.factor, self.first, self.rows = factor, first, []
        self.weight, self.longest = weight, longest

    def trace(self, ids: list[int], tokens: list[int]) -> None:
        while len(self.rows) < len(ids):
            self.rows.append([None, None, 0.0])
        for row in reversed(range(len(ids))):
            if self.rows[row][1] == tokens[row]:
                break
            self.rows[row][:2] = ids[row], tokens[row]

    def changes(self, ready: int) -> list[tuple[int, float]]:
        begin = max(0, len(self.rows) - 100)
        while len(self.rows) * self.factor < ready - self.first:
            self.rows.append([None, None, 0.0])
        if begin == len(self.rows):
            return []
        changes = []
        wanted = None
        if self.rows[begin][0] is None:
            same = self.rows[begin - 1][2] if begin else self.weight
        for row in range(begin, len(self.rows)):
            transition_id = self.rows[row][0]
            if self.rows[begin][0] is None:
                wanted = same
            elif transition_id is not None:
                is_silent = MODEL.phone(transition_id) in SILENCE or 0 < self.longest <= self.run(begin, row)
                wanted = self.weight if is_silent else 1.0
            delta, self.rows[row][2] = wanted - self.rows[row][2], wanted
            if delta != 0 or row == len(self.rows) - 1:
                changes += [(self.first + self.factor * row + j, delta) for j in range(self.factor)]
        return changes

    def run(self, begin: int, row: int) -> int:
        """How many rows from `begin` on have the id of this row, without a gap."""
        first = end = row
        while first > begin and self.rows[first - 1][0] == self.rows[row][0]:
            first -= 1
        while end < len(self.rows) and self.rows[end][0] == self.rows[row][0]:
            end += 1
        return end - first


steps = st.tuples(
    st.integers(0, 12),  # frames that come
    st.integers(0, 60),  # rows decoded, at most as many as there are
    st.integers(0, 40),  # how far back the path changes
    st.integers(0, 2**32),
)


@settings(max_examples=draws(40))
@given(
    *(st.sampled_from([1, 3]), st.sampled_from([0, 300]), st.lists(steps, max_size=40), st.booleans()),
    *(st.sampled_from([0.001, 0.0, 0.5]), st.sampled_from([-1.0, 1.0, 2.9, 4.0])),
)
def test_changes_are_those_of_the_slow_version(
    factor: int, first: int, rounds: list[tuple[int, int, int, int]], long: bool, weight: float, longest: float
) -> None:
    fast = SilenceWeighting(MODEL, SILENCE, factor, first, weight, longest)
    slow = SlowWeighting(factor, first, weight, int(longest))
    ready, ids, tokens = first, [], []
    for come, decoded, back, seed in rounds:
        ready += come * (20 if long else 1)
        random = np.random.default_rng(seed)
        count = min(len(ids) + decoded, (ready - first) // factor)
        keep = max(0, min(len(ids), count) - back)
        ids = ids[:keep] + random.integers(1, 7, count - keep).tolist()
        tokens = tokens[:keep] + random.integers(0, 3, count - keep).tolist()  # equal by chance here and there
        begin = int(random.integers(fast.first_row + 1))  # what comes before is not asked for any more
        if not fast.trace(ids[begin:], tokens[begin:], begin):
            assert fast.trace(ids[fast.first_kept :], tokens[fast.first_kept :], fast.first_kept)
        slow.trace(ids, tokens)
        settled = fast.first_open
        frames, deltas = fast.changes(ready)
        assert list(zip(frames.tolist(), deltas.tolist(), strict=True)) == slow.changes(ready)
        assert frames.min(initial=settled) >= settled
        assert len(fast._ids) <= NEWEST_ROWS + 101 + 20 * 12 // factor + max(decoded, 1)
        if seed % 2:  # the whole path once more, as for a result
            fast.trace(ids, tokens)
            slow.trace(ids, tokens)
        first_kept, kept = fast.newest_ids()
        assert first_kept == max(len(slow.rows) - NEWEST_ROWS, 0)
        assert kept.tolist() == [-1 if row[0] is None else row[0] for row in slow.rows[first_kept:]]


def test_frames_weigh_little_until_speech_is_found() -> None:
    weighting = SilenceWeighting(MODEL, SILENCE, 3)
    frames, changes = weighting.changes(7)
    assert frames.tolist() == list(range(9))
    assert changes.tolist() == [0.001] * 9
    weighting.trace([1, 3], [0, 5])
    frames, changes = weighting.changes(7)
    assert frames.tolist() == list(range(3, 9))
    np.testing.assert_allclose(changes, 0.999)
    frames, changes = weighting.changes(8)
    assert (frames.tolist(), changes.tolist()) == ([6, 7, 8], [0, 0, 0])


def test_the_row_where_paths_meet_keeps_its_arc() -> None:
    weighting = SilenceWeighting(MODEL, SILENCE, 1)
    weighting.trace([1, 1, 1], [0, 5, 6])
    weighting.changes(3)
    weighting.trace([1, 3, 3], [0, 5, 7])
    assert weighting.changes(3)[0].tolist() == [2]
    first, ids = weighting.newest_ids()
    assert (first, ids.tolist()) == (0, [1, 1, 3])


def test_before_the_segment_begins_nothing_changes() -> None:
    weighting = SilenceWeighting(MODEL, SILENCE, 3, first_frame=30)
    assert len(weighting.changes(30)[0]) == 0
    assert weighting.changes(31)[0].tolist() == [30, 31, 32]


def test_misuse_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="no phone of the model is one of the silence phones"):
        SilenceWeighting(MODEL, [17], 3)
    with pytest.raises(ArgumentError, match=r"as many arcs as tokens, got \(2,\) and \(3,\)"):
        SilenceWeighting(MODEL, SILENCE, 3).trace([1, 2], [1, 2, 3])
    with pytest.raises(ArgumentError, match="must have the rows from 0 on, got those from 2 on"):
        SilenceWeighting(MODEL, SILENCE, 3).trace([1], [1], 2)
