"""Inputs, parameters and constants: their values, kinds of numbers and first values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ShapeError


def test_values_of_stored_nodes() -> None:
    W = cn.parameter("W", (2, 3), [[1.0, 2, 3], [4, 5, 6]])
    assert W.memory.tolist() == [[1, 4], [2, 5], [3, 6]]
    copy = W.value
    copy[0, 0] = 9
    assert W.value.tolist() == [[1, 2, 3], [4, 5, 6]]
    W.value = torch.arange(6).reshape(2, 3)
    assert W.value.tolist() == [[0, 1, 2], [3, 4, 5]]
    b = cn.parameter("b", (3, 1), [1.0, 2.0, 3.0])  # a column may be flat
    assert b.value.tolist() == [[1], [2], [3]]
    for wrong in (np.ones((3, 2)), np.ones(3), np.ones((1, 3)), 1.0):
        with pytest.raises(ShapeError, match=r"value of 'W': expected shape \(2, 3\), got"):
            W.value = wrong
    with pytest.raises(ShapeError, match=r"value of 'r': expected shape \(1, 3\), got \(3,\)"):
        cn.parameter("r", (1, 3), [1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="value of 'W': expected numbers, got bool"):
        W.value = np.ones((2, 3), bool)


def test_parameters_are_of_32_bits_whatever_torch_makes_by_default() -> None:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        W = cn.parameter("W", (2, 3))
        assert cn.Network(outputs=[W @ cn.input("x", 3)]).dtype == W.memory.dtype == torch.float32
    finally:
        torch.set_default_dtype(default)


def test_initial_values_are_uniform_and_follow_from_the_name() -> None:
    W = cn.parameter("W", (40, 50))
    limit = (6 / 90) ** 0.5
    assert np.abs(W.value).max() <= limit
    assert np.abs(W.value).max() > 0.99 * limit
    assert abs(W.value.mean()) < 0.1 * limit
    np.testing.assert_array_equal(cn.parameter("W", (40, 50)).value, W.value)  # by the name
    assert not np.array_equal(cn.parameter("V", (40, 50)).value, W.value)
    seeded = [cn.parameter(name, (40, 50), seed=seed).value for name, seed in (("W", 1), ("V", 1), ("W", 2))]
    np.testing.assert_array_equal(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0], seeded[2])
    assert not np.array_equal(seeded[0], W.value)
    for value in (2, 2.0, np.float32(2), np.array(2.0), torch.tensor(2.0)):
        assert (cn.parameter("W", (2, 3), value).value == 2).all()
    assert cn.parameter("W", (2, 3)).trainable
    assert not cn.parameter("W", (2, 3), trainable=False).trainable
    assert not cn.constant(np.ones((2, 3))).trainable
    assert cn.constant([1.0, 2.0]).shape == cn.Shape(2, 1)
    assert cn.constant(1).shape == cn.Shape(1, 1)
    assert cn.constant([[1.0, 2.0]], "row").name == "row"
