"""Gradients that say that they have no derivatives of their own."""

from __future__ import annotations

import pytest
import torch

from nnet3.errors import GradientError
from nnet3.training.train.autograd import only_once


def test_they_are_the_same_and_only_a_second_backward_is_an_error() -> None:
    given = (torch.tensor([2.0, 3.0]), None, torch.tensor([4.0], requires_grad=True))
    guarded = only_once(lambda tensors: tuple(tensors), "a thing", given)
    assert [None if each is None else each.tolist() for each in guarded] == [[2.0, 3.0], None, [4.0]]
    first, last = guarded[0], guarded[2]
    assert first is not None
    assert last is not None
    assert (first + last).sum().item() == 13.0
    with pytest.raises(GradientError, match="the gradients of a thing cannot be differentiated again"):
        last.sum().backward()


def test_where_no_graph_is_made_nothing_is_done() -> None:
    given = [torch.tensor([2.0], requires_grad=True), None]
    with torch.no_grad():
        same = only_once(lambda tensors: (2 * tensors[0], None), "a thing", given)
    assert same[0] is not None
    assert same[0].tolist() == [4.0]
    assert not same[0].requires_grad
    assert same[1] is None
