"""What examples say about output nodes."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.chain.target import ChainTarget, merge_targets
from nnet3.errors import ModelFormatError
from tests.chain.chain_data import indexes, random_acceptor, supervision_of

ONE = supervision_of([random_acceptor(1, 4, 3)], 4, 3)


def test_merging() -> None:
    first = ChainTarget("output", indexes(1, 4), ONE, np.array([1, 2, 3, 4], np.float32))
    second = ChainTarget("output", indexes(1, 4), ONE, np.array([5, 6, 7, 8], np.float32))
    assert first.is_finite
    merged = merge_targets([first, second])
    np.testing.assert_array_equal(merged.indexes, indexes(2, 4))
    assert merged.deriv_weights.tolist() == [1, 5, 2, 6, 3, 7, 4, 8]
    assert merged.supervision.num_sequences == 2
    assert merge_targets([first]) is first
    plain = ChainTarget("output", indexes(1, 4), ONE)
    assert len(merge_targets([plain, second]).deriv_weights) == 0
    with pytest.raises(ModelFormatError, match="have no deriv-weights"):
        merge_targets([first, plain])
    with pytest.raises(ModelFormatError, match="other indexes"):
        merge_targets([first, ChainTarget("output", indexes(1, 4, step=1), ONE)])


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
