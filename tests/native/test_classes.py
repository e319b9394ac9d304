"""Sums of chosen rows of a table, and the cross-entropy of classes, by native code against PyTorch in float64."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import classes
from tests.native.native_code import matrix, needs_native_code

pytestmark = needs_native_code

SIZES = st.integers(1, 40), st.integers(1, 70), st.integers(0, 10**6)  # rows, columns, a seed


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-5)


@given(*SIZES, st.integers(1, 5), st.booleans())
def test_sums_of_chosen_rows_in_both_directions(rows: int, columns: int, seed: int, num: int, is_mean: bool) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    table, indexes = matrix(rows, columns), torch.from_numpy(rng.integers(-1, rows, 30))
    group = torch.from_numpy(rng.integers(0, num, 30))
    sizes = group.bincount(minlength=num)
    found = classes.sum_chosen(table, indexes, group, sizes, is_mean)
    assert found is not None
    chosen = torch.cat([table, torch.zeros(1, columns)]).double()[indexes]
    divisor = sizes.clamp(min=1)[:, None] if is_mean else torch.ones(num, 1)
    close(found[0], torch.zeros(num, columns, dtype=torch.float64).index_add(0, group, chosen) / divisor)
    assert found[1] == int((indexes >= 0).sum())
    deriv = matrix(num, columns)
    close(classes.sum_chosen_backward(deriv, group, sizes, is_mean), (deriv.double() / divisor)[group])


@given(*SIZES, st.sampled_from([1.0, 1e3]), st.booleans())
def test_cross_entropy_in_both_directions(rows: int, columns: int, seed: int, scale: float, accumulate: bool) -> None:
    torch.manual_seed(seed)
    scores, labels = matrix(rows, columns, scale), torch.randint(-1, columns, (rows, 1)).float()
    exact = scores.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, labels[:, 0].long(), ignore_index=-1, reduction="sum")
    (-2.0 * expected).backward()
    value, deriv = torch.empty(1, 1), matrix(rows, columns)
    before = deriv.double() if accumulate else torch.zeros(rows, columns)
    posteriors = classes.class_cross_entropy(value, scores, labels)
    assert posteriors is not None
    close(value[0, 0], expected.detach())
    close(posteriors, torch.softmax(exact.detach(), 1))
    classes.class_cross_entropy_backward(deriv, posteriors, labels, torch.tensor([[-2.0]]), accumulate)
    assert exact.grad is not None
    close(deriv, before + exact.grad)


def test_numbers_that_are_not_finite_stay_so() -> None:
    value, labels = torch.empty(1, 1), torch.zeros(1, 1)
    for score in (torch.nan, torch.inf):
        assert classes.class_cross_entropy(value, torch.tensor([[score, 1.0]]), labels) is not None
        assert value.isnan()
    assert classes.class_cross_entropy(value, torch.tensor([[1.0, -torch.inf]]), labels) is not None
    assert value.item() == 0.0


def test_integers_that_are_classes() -> None:
    for numbers, expected in (([0, -1, 2], True), ([], True), ([3], False), ([-2], False), ([0.5], False)):
        assert classes.are_classes(torch.tensor(numbers, dtype=torch.float32), 3) == expected
    assert not classes.are_classes(torch.tensor([torch.nan]), 3)


def test_what_is_left_to_pytorch() -> None:
    table, group, sizes = torch.ones(3, 2), torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    assert classes.sum_chosen(table, torch.tensor([3]), group, sizes, False) is None
    assert classes.sum_chosen(table.double(), torch.tensor([2]), group, sizes, False) is None
    value = torch.empty(1, 1)
    for label in (3.0, -2.0, torch.nan):
        assert classes.class_cross_entropy(value, table, torch.full((3, 1), label)) is None
    assert classes.class_cross_entropy(value.double(), table.double(), torch.zeros(3, 1).double()) is None
