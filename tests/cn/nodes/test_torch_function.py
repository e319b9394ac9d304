"""Functions of PyTorch as nodes: autograd's gradient, loops and frames, functions that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError, Nnet3Error, ShapeError
from tests.cn.check_node import check_node, random

x, y, W = cn.input("x", 4), cn.input("y", 2), cn.parameter("W", (3, 4))


def gelu(x):
    return torch.nn.functional.gelu(x)


def mixed(w, x, y):
    return torch.tanh(w @ x) * y.sum(0)


def test_values_and_gradients():
    check_node(cn.torch_function(gelu, x), [random(4, 5)], gelu)
    check_node(cn.torch_function(mixed, W, x, y, shape=3), [random(3, 4), random(4, 5), random(2, 5)], mixed)
    check_node(cn.torch_function(torch.linalg.pinv, W, shape=(4, 3)), [random(3, 4)], torch.linalg.pinv)
    check_node(
        cn.torch_function(lambda a: a.abs().max()[None, None], x, shape=(1, 1)),
        [random(4, 5)],
        lambda a: a.abs().max()[None, None],
    )
    check_node(cn.torch_function(lambda a, b: gelu(a), x, x), [random(4, 5), random(4, 5)], lambda a, b: gelu(a))


def test_in_a_loop():
    """A recurrence with a cell of PyTorch's functions learns as one made of nodes."""

    def network(cell):
        d = cn.delay(None, dim=3, name="d")
        R = cn.parameter("R", (3, 3))
        h = d.connect(cell(cn.parameter("W", (3, 4)), cn.input("x", 4), R, d))
        return cn.Network(cn.squared_norm(h), {"h": h}, dtype=torch.float64)

    ours = network(lambda w, x, r, d: cn.tanh(w @ x + r @ d))
    theirs = network(
        lambda w, x, r, d: cn.torch_function(lambda w, x, r, d: torch.tanh(w @ x + r @ d), w, x, r, d, shape=3)
    )
    batch = {"x": cn.sequences([random(4, 6).numpy(), random(4, 3).numpy()])}
    one, other = ours.criterion_and_gradients(batch), theirs.criterion_and_gradients(batch)
    assert one[0] == pytest.approx(other[0])
    for name, gradient in one[1].items():
        np.testing.assert_allclose(other[1][name], gradient, rtol=1e-9)


def test_functions_that_do_not_fit(tmp_path):
    for function, says in (
        (lambda a: a[:2], "expected a tensor of shape"),
        (lambda a: 3, "got int"),
        (lambda a: a.float(), "got .* of torch.float32"),
    ):
        with pytest.raises(Nnet3Error, match=says):
            cn.Network(outputs=[cn.torch_function(function, x, name="v")], dtype=torch.float64).evaluate(
                "v", {"x": np.ones((4, 2))}
            )
    with pytest.raises(NetworkError, match=r"torch_function: RuntimeError: mat1 and mat2 .*\n  'v': .*test_torch"):
        cn.Network(outputs=[cn.torch_function(lambda a: a @ a, x, name="v")]).evaluate("v", {"x": np.ones((4, 2))})
    with pytest.raises(NetworkError, match="needs an operand at least"):
        cn.torch_function(gelu)
    with pytest.raises(Nnet3Error, match="must be a function of tensors"):
        cn.torch_function(3, x)
    with pytest.raises(ShapeError, match="samples of one axis"):
        cn.torch_function(gelu, W, shape=3)
    with pytest.raises(NetworkError, match="cannot be read again: a function is not written to a file"):
        cn.save(cn.Network(outputs=[cn.torch_function(gelu, x)]), tmp_path / "net.cn")
