"""Supervisions: what cannot be one, and merging."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.chain import Supervision, merge_supervisions
from nnet3.chain.supervision import concatenate
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.fst import Fst
from tests.chain.chain_data import fst_of, random_acceptor, supervision_of

INF = np.inf
CHAIN = fst_of([(0, 1, 1, 0.5), (1, 2, 2, 0.0)], [INF, INF, 0.25])
TWO_ENDS = fst_of([(0, 1, 1, 1.0), (0, 2, 2, 2.0), (1, 3, 1, 0.0), (2, 4, 3, 4.0)], [INF, INF, INF, 0.5, 0.25])


def _lines(fst: Fst) -> list[tuple[int, int, int, float]]:
    return list(zip(fst.src.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.cost.tolist(), strict=True))


def test_concatenation() -> None:
    """Ends get the next one's first arcs; the arcs of each state are in reverse order; states are breadth-first."""
    merged = concatenate([TWO_ENDS, CHAIN])
    expected = [(0, 1, 2, 2.0), (0, 2, 1, 1.0), (1, 3, 3, 4.0), (2, 4, 1, 0.0), (3, 5, 1, 0.75), (4, 5, 1, 1.0)]
    assert _lines(merged) == [*expected, (5, 6, 2, 0.0)]
    assert merged.final.tolist() == [INF] * 6 + [0.25]


def test_states_that_lead_nowhere_are_left_out() -> None:
    dead = fst_of([(0, 1, 1, 0.0), (0, 2, 2, 0.0), (1, 3, 1, 0.0)], [INF, INF, INF, 0.0])
    assert concatenate([dead, CHAIN]).num_states == 5
    never = fst_of([(0, 1, 1, 0.0)], [INF, INF])
    assert concatenate([CHAIN, never]).num_states == 0
    assert concatenate([CHAIN, Fst.empty()]).num_states == 0


def test_merging_keeps_what_all_have_in_common() -> None:
    single = [supervision_of([random_acceptor(s, 3, 4)], 3, 4, weight=0.5) for s in range(3)]
    merged = merge_supervisions(single)
    assert (merged.weight, merged.num_sequences, merged.frames_per_sequence) == (0.5, 3, 3)
    assert merged.num_frames == 9
    assert merge_supervisions(single[:1]) is single[0]


def test_merging_end_to_end() -> None:
    with_pdfs = Supervision(2.0, 1, 3, 4, (CHAIN,), True, np.array([1, 2, 3], np.int32))
    other = Supervision(1.0, 1, 3, 5, (TWO_ENDS,), True)
    merged = merge_supervisions([with_pdfs, other])
    assert (merged.weight, merged.num_sequences, merged.label_dim) == (2.0, 2, 4)
    assert merged.fsts == (CHAIN, TWO_ENDS)
    assert len(merged.alignment_pdfs) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 0.5}, "weight are equal, got 1, 0.5"),
        ({"frames_per_sequence": 3}, "frames are equal, got 2, 3"),
        ({"label_dim": 5}, "labels are equal, got 4, 5"),
        ({"end_to_end": True}, "end_to_end"),
        ({"num_sequences": 2}, "only supervisions of one sequence"),
    ],
)
def test_what_does_not_merge(change: dict[str, float], message: str) -> None:
    same = {"weight": 1.0, "num_sequences": 1, "frames_per_sequence": 2, "label_dim": 4, "fsts": (CHAIN,)}
    with pytest.raises(ModelFormatError, match=message):
        merge_supervisions([Supervision(**same), Supervision(**(same | change))])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": float("nan")}, "weight of a supervision is nan"),
        ({"num_sequences": 0}, "0 sequences"),
        ({"frames_per_sequence": -1}, "-1 frames"),
        ({"label_dim": 2**31}, "labels"),
        ({"label_dim": 1}, "label 2 of a supervision is above its 1"),
        ({"fsts": (CHAIN, CHAIN)}, "1 sequences has 2 FSTs"),
        ({"end_to_end": True, "num_sequences": 2}, "2 sequences has 1 FSTs"),
        ({"weight": float("inf")}, "weight of a supervision is inf"),
        ({"fsts": (Fst.from_arcs(0, [0.0], [0], [0], [1], [0.5], [2]),)}, "acceptor"),
    ],
)
def test_what_cannot_be_a_supervision(change: dict[str, object], message: str) -> None:
    arguments = {"weight": 1.0, "num_sequences": 1, "frames_per_sequence": 2, "label_dim": 3, "fsts": (CHAIN,)}
    for label_dim in (2, 2**31 - 1):
        Supervision(**(arguments | {"label_dim": label_dim}))  # type: ignore[arg-type]
    with pytest.raises(ModelFormatError, match=message):
        Supervision(**(arguments | change))  # type: ignore[arg-type]
