"""Supervisions: what cannot be one, and merging."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import breadth_first
from nnet3.chain import Supervision, merge_supervisions
from nnet3.errors import ModelFormatError
from nnet3.training.chain.supervision import ChainTarget, concatenate
from nnet3.training.examples.sequence_target import merge_targets
from tests.chain.chain_data import fst_of, indexes, random_acceptor, supervision_of

INF = np.inf
CHAIN = fst_of([(0, 1, 1, 0.5), (1, 2, 2, 0.0)], [INF, INF, 0.25])
TWO_ENDS = fst_of([(0, 1, 1, 1.0), (0, 2, 2, 2.0), (1, 3, 1, 0.0), (2, 4, 3, 4.0)], [INF, INF, INF, 0.5, 0.25])


def _lines(fst: Fst) -> list[tuple[int, int, int, float]]:
    return list(zip(fst.src.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.cost.tolist(), strict=True))


def test_ends_get_the_first_arcs_of_the_next_one() -> None:
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


@pytest.mark.parametrize("seed", range(8))
def test_states_come_breadth_first_however_long_paths_are(seed: int) -> None:
    """Acceptors of one length for all paths, and some whose paths differ in length, or with cycles."""
    rng = np.random.default_rng(seed)
    fsts = [random_acceptor(10 * seed + k, int(rng.integers(1, 5)), 4) for k in range(4)]
    if seed % 2:
        longer = fst_of([(0, 1, 1, 0.5), (0, 2, 2, 0.5), (1, 2, 3, 0.1)], [INF, INF, 0.0])
        cyclic = fst_of([(0, 1, 1, 0.5), (1, 0, 2, 0.5), (1, 2, 3, 0.1)], [INF, INF, 0.0])
        fsts.insert(int(rng.integers(4)), longer if seed % 4 == 1 else cyclic)
    merged = concatenate(fsts)
    assert merged.start == 0
    np.testing.assert_array_equal(breadth_first(merged, np.array([0])), np.arange(merged.num_states))


def test_merging_keeps_what_all_have_in_common() -> None:
    single = [supervision_of([random_acceptor(s, 3, 4)], 3, 4, weight=0.5) for s in range(3)]
    merged = merge_supervisions(single)
    assert (merged.weight, merged.num_sequences, merged.frames_per_sequence) == (0.5, 3, 3)
    assert merged.num_frames == 9
    assert merge_supervisions(single[:1]) is single[0]


def test_merging_removes_the_epsilons_of_unnormalized_examples() -> None:
    """As `nnet3-chain-merge-egs` does: of an example cut out of an utterance, epsilons lead to its first states."""
    first = [(0, 1, 0, 0.0), (0, 2, 0, 0.0), (1, 3, 1, 0.5), (2, 3, 2, 0.0), (2, 4, 3, 0.0), (3, 5, 1, 0.0)]
    second = [(0, 1, 0, 1.0), (0, 2, 0, 0.0), (1, 3, 1, 0.0), (1, 3, 2, 0.0), (2, 3, 3, 0.0), (3, 4, 1, 0.0)]
    fsts = [fst_of([*first, (4, 5, 2, 0.25)], [INF] * 5 + [0.125]), fst_of(second, [INF] * 4 + [0.0])]
    merged = merge_supervisions([supervision_of([fst], 2, 3) for fst in fsts]).fsts[0]
    expected = [(0, 1, 1, 0.5), (0, 2, 3, 0.0), (0, 1, 2, 0.0), (1, 3, 1, 0.0), (2, 3, 2, 0.25)]
    expected += [(3, 4, 2, 1.125), (3, 4, 1, 1.125), (3, 4, 3, 0.125), (4, 5, 1, 0.0)]
    assert _lines(merged) == expected
    assert merged.final.tolist() == [INF] * 5 + [0.0]
    with_nothing = [supervision_of([fsts[0]], 2, 3), supervision_of([Fst.empty()], 2, 3)]
    assert merge_supervisions(with_nothing).fsts[0].num_states == 0


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


ONE = supervision_of([random_acceptor(1, 4, 3)], 4, 3)


def test_merged_targets_interleave_their_sequences() -> None:
    first = ChainTarget("output", indexes(1, 4), ONE, np.array([1, 2, 3, 4], np.float32))
    second = ChainTarget("output", indexes(1, 4), ONE, np.array([5, 6, 7, 8], np.float32))
    assert first.is_finite
    merged = merge_targets([first, second], merge_supervisions)
    np.testing.assert_array_equal(merged.indexes, indexes(2, 4))
    assert merged.deriv_weights.tolist() == [1, 5, 2, 6, 3, 7, 4, 8]
    assert merged.supervision.num_sequences == 2
    assert merge_targets([first], merge_supervisions) is first
    plain = ChainTarget("output", indexes(1, 4), ONE)
    assert len(merge_targets([plain, second], merge_supervisions).deriv_weights) == 0
    with pytest.raises(ModelFormatError, match="have no deriv-weights"):
        merge_targets([first, plain], merge_supervisions)
    with pytest.raises(ModelFormatError, match="other indexes"):
        merge_targets([first, ChainTarget("output", indexes(1, 4, step=1), ONE)], merge_supervisions)


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (indexes(1, 3), (), "3 indexes"),
        (indexes(1, 4)[::-1].copy() * [[1, 1, 0]] + [[0, 0, 1]], (), "must be"),
        (indexes(1, 4)[[0, 1, 3, 2]], (), "must be"),
        (indexes(2, 2), (), "must be"),
        (indexes(1, 4) + np.int32([1, 0, 0]), (), "the sequences 0 to 0"),
        (indexes(1, 4) + np.int32([0, 0, 1]), (), "the sequences 0 to 0"),
        (indexes(1, 4, step=0), (), "4 frames at equal distances"),
        (indexes(1, 4, step=-3), (), "4 frames at equal distances"),
        (indexes(1, 4), (1.0, 2.0), "4 indexes and 2 deriv-weights"),
        (indexes(1, 4), (1.0, 2.0, 3.0, -1.0), "finite and >= 0"),
        (indexes(1, 4), (1.0, 2.0, 3.0, np.nan), "finite and >= 0"),
    ],
)
def test_what_does_not_fit_together(rows: np.ndarray, weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        ChainTarget("output", rows, ONE, np.array(weights, np.float32))


def test_one_frame_is_too_few() -> None:
    with pytest.raises(ModelFormatError, match="at least two frames"):
        ChainTarget("output", indexes(1, 1), supervision_of([random_acceptor(1, 1, 3)], 1, 3))
