"""The orthonormal constraint: by hand, its convergence, its probability."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from nnet3.components import RandomSource
from nnet3.nnet import Nnet
from nnet3.train.orthonormal import constrain_orthonormal, make_more_orthonormal_


def test_worked_examples() -> None:
    for start, end in ((2.0, -1.0), (1.2, 0.936)):
        m = torch.tensor([[start, 0.0]])
        make_more_orthonormal_(m, 1.0)
        torch.testing.assert_close(m, torch.tensor([[end, 0.0]]))


@pytest.mark.parametrize("shape", [(4, 7), (7, 4)])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_fixed_scale_becomes_every_singular_value(shape: tuple[int, int], scale: float) -> None:
    torch.manual_seed(0)
    m = torch.nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64)) * scale
    m += 0.1 * scale * torch.randn(shape, dtype=torch.float64)
    distances = []
    for _ in range(6):
        make_more_orthonormal_(m, scale)
        distances.append(float((torch.linalg.svdvals(m) / scale - 1).abs().max()))
    assert distances[-1] < 1e-9
    assert all(later < 2 * earlier**2 + 1e-12 for earlier, later in pairwise(distances))


def test_a_floating_scale_makes_singular_values_equal_and_keeps_the_size() -> None:
    torch.manual_seed(0)
    m = 3.0 * torch.randn(5, 20, dtype=torch.float64)
    for _ in range(60):
        before = m.clone()
        make_more_orthonormal_(m, -1.0)
        assert abs(float(((m - before) * before).sum())) < 1e-9 * float(before.square().sum())
    values = torch.linalg.svdvals(m)
    assert float(values.max() / values.min() - 1) < 1e-9
    assert float(values.mean()) > 5.0


@pytest.mark.parametrize(("ratio", "speed"), [(1.05, 0.125), (1.2, 0.0625), (1.8, 0.03125)])
def test_a_floating_scale_goes_slowly_while_singular_values_are_far_apart(ratio: float, speed: float) -> None:
    m = torch.diag(torch.tensor([1.0, ratio], dtype=torch.float64))
    p = m @ m.t()
    square = float((p @ p).trace() / p.trace())
    expected = m - 4 * speed / square * (p - square * torch.eye(2)) @ m
    make_more_orthonormal_(m, -0.5)
    torch.testing.assert_close(m, expected)


def test_a_matrix_of_zeros_stays() -> None:
    m = torch.zeros(2, 3)
    make_more_orthonormal_(m, -1.0)
    assert m.tolist() == torch.zeros(2, 3).tolist()


def test_a_quarter_of_the_components_is_treated_each_time() -> None:
    config = "input-node name=input dim=3\n"
    for name, constraint in (("a", 1.0), ("b", -1.0), ("free", 0.0)):
        config += f"component name={name} type=LinearComponent input-dim=3 output-dim=2 "
        config += f"orthonormal-constraint={constraint}\ncomponent-node name={name} component={name} input=input\n"
    nnet = Nnet.from_config(config + "output-node name=output input=Sum(a, Sum(b, free))\n", seed=1)
    start = {name: component.parameters()["params"].clone() for name, component in nnet.components.items()}
    changed = dict.fromkeys(start, 0)
    rng = RandomSource(5)
    for _ in range(400):
        constrain_orthonormal(nnet, rng)
        for name, component in nnet.components.items():
            params = component.parameters()["params"]
            changed[name] += not torch.equal(params, start[name])
            params.copy_(start[name])
    assert changed["free"] == 0
    assert 70 < changed["a"] < 130
    assert 70 < changed["b"] < 130
