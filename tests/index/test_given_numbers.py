"""Numbers that users give: what becomes an array, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3.base.index.given_numbers import real_numbers, whole_numbers
from nnet3.errors import ArgumentError


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (3, 3),
        ([], []),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (range(2), [0, 1]),
        (np.array([1, 2], np.uint8), [1, 2]),
        (torch.tensor([5, -6], dtype=torch.int32), [5, -6]),
        (torch.zeros(0, requires_grad=True), []),
    ],
)
def test_integers_become_an_array(values: Any, wanted: Any) -> None:
    found = whole_numbers(values, "none")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "values",
    [
        *(None, "x", 1.5, [1.5], [True], [None], [1, [2, 3]], [2**70], iter([1]), {1: 2}),
        *(torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.int64, device="meta")),
        torch.zeros(2, 2, dtype=torch.int64).to_sparse(),
    ],
)
def test_anything_else_is_refused(values: Any) -> None:
    with pytest.raises(ArgumentError, match="words must be whole numbers, got "):
        whole_numbers(values, "words must be whole numbers")


def test_real_numbers_are_floats_or_integers() -> None:
    found = real_numbers([1, 2.5], "none")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.5]
    for values in (None, "x", [True], [1j], [[1.0], [2.0, 3.0]]):
        with pytest.raises(ArgumentError, match="scores must be numbers, got "):
            real_numbers(values, "scores must be numbers")
