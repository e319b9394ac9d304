"""Rows that are right, weighted."""

from __future__ import annotations

import pytest
import torch

from nnet3.train.objectives import count_correct
from tests.train.objectives.check import sparse, target

Y = torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 5.0], [3.0, 3.0]])


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_rows_are_weighted_and_those_without_labels_left_out(make: object) -> None:
    matrix = make([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0], [2.0, 0.0]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[3.0, 0.0], [3.0, 3.0]]


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_the_first_of_equals_and_soft_labels(make: object) -> None:
    matrix = make([[0.5, 0.5], [0.25, 0.75], [0.25, 0.5], [0.75, 0.25]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[2.0, 0.75], [2.0, 1.75]]


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_what_is_not_stored_is_zero_and_may_be_the_largest(make: object) -> None:
    matrix = make([[-1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [-1.0, -2.0]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[-3.0, -1.0], [-3.0, -3.0]]
