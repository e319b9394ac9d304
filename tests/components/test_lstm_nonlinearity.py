"""LstmNonlinearityComponent: derivatives, self-repair, statistics, configuration and files."""

from __future__ import annotations

from pathlib import Path

import torch

from nnet3 import components
from nnet3.model.components.lstm_nonlinearity import LstmNonlinearityComponent
from tests.components.contract import component_contract, written


def lstm(config: str) -> LstmNonlinearityComponent:
    component = components.create("LstmNonlinearityComponent", config, seed=1)
    assert isinstance(component, LstmNonlinearityComponent)
    return component


def with_statistics(component: LstmNonlinearityComponent, rows: int = 50) -> LstmNonlinearityComponent:
    """The same component after a backward pass over random rows that stored its statistics in itself."""
    x, y_deriv = torch.randn(rows, component.input_dim), torch.zeros(rows, component.output_dim)
    y, memo = component.propagate(x)
    component.backprop(x, y, y_deriv, memo, to_update=component)
    return component


def test_derivatives_with_dropout_scales() -> None:
    """Against autograd through the formula: the three scales themselves get no derivative."""
    component = lstm("cell-dim=3 use-dropout=true self-repair-scale=0").to(dtype=torch.float64)
    x = torch.randn(7, 18, dtype=torch.float64)
    x_part = x[:, :15].clone().requires_grad_()
    params = component.params.clone().requires_grad_()
    i, f, candidate, o, previous = x_part.split(3, dim=1)
    i = x[:, 15:16] * torch.sigmoid(i + params[0] * previous)
    f = x[:, 16:17] * torch.sigmoid(f + params[1] * previous)
    c = f * previous + i * candidate.tanh()
    m = x[:, 17:18] * torch.sigmoid(o + params[2] * c) * c.tanh()
    expected, y_deriv = torch.cat([c, m], dim=1), torch.randn(7, 6, dtype=torch.float64)
    y, _ = component.propagate(x)
    torch.testing.assert_close(y, expected.detach())
    expected.backward(y_deriv)
    gradient = component.gradient_copy()
    x_deriv = component.backprop(x, y, y_deriv, to_update=gradient)
    torch.testing.assert_close(x_deriv, torch.cat([x_part.grad, torch.zeros(7, 3)], dim=1))
    torch.testing.assert_close(gradient.params, params.grad)


def test_dropout_scales_get_no_derivative_and_multiply_the_gates() -> None:
    plain, scaled = lstm("cell-dim=2"), lstm("cell-dim=2 use-dropout=true")
    x = torch.randn(5, 10)
    ones = torch.cat([x, torch.ones(5, 3)], dim=1)
    torch.testing.assert_close(scaled.propagate(ones)[0], plain.propagate(x)[0])
    closed = ones.clone()
    closed[:, 10:12] = 0.0  # input and forget gate shut: the cell is empty
    y, _ = scaled.propagate(closed)
    assert torch.equal(y, torch.zeros_like(y))
    x_deriv = scaled.backprop(ones, y, torch.ones(5, 4))
    assert torch.equal(x_deriv[:, 10:], torch.zeros(5, 3))


def test_self_repair_adds_its_terms_without_output_derivative() -> None:
    """With no output derivative what is left are the terms of the formula: -(2v - 1) r and -v r, and what they feed."""
    component = with_statistics(lstm("cell-dim=3 self-repair-scale=0.01"))
    scales = torch.zeros(5, 3)
    scales[0, 1] = scales[2, 0] = 0.01
    component.deriv_sum[:] = component.count
    component.deriv_sum[0, 1] = component.deriv_sum[2, 0] = 0.0
    x = torch.randn(6, 15)
    y, _ = component.propagate(x)
    x_deriv = component.backprop(x, y, torch.zeros(6, 6))
    i = torch.sigmoid(x[:, :3] + component.params[0] * x[:, 12:])
    expected = torch.zeros(6, 15)
    expected[:, :3] = -(2 * i - 1) * scales[0]
    expected[:, 6:9] = -x[:, 6:9].tanh() * scales[2]
    expected[:, 12:] = expected[:, :3] * component.params[0]
    torch.testing.assert_close(x_deriv, expected)


def test_statistics_go_to_the_component_to_update_and_add_up() -> None:
    component = lstm("cell-dim=2 learning-rate=0")
    delta = component.gradient_copy()
    x = torch.randn(9, 10)
    y, _ = component.propagate(x)
    component.backprop(x, y, torch.randn(9, 4), to_update=delta)
    assert component.count == 0
    assert delta.count == 9
    torch.testing.assert_close(delta.value_sum[2].float(), x[:, 4:6].tanh().sum(0))  # both are sums of float32
    torch.testing.assert_close(delta.deriv_sum[4].float(), (1 - y[:, :2].tanh() ** 2).sum(0))
    assert delta.self_repair_total.tolist() == [18.0] * 5  # nothing stored before: every dimension is below
    component.add_(2.0, delta)
    assert component.count == 18
    torch.testing.assert_close(component.deriv_sum, 2 * delta.deriv_sum)
    component.zero_stats()
    assert component.count == 0
    assert not component.value_sum.any()
    assert component.params.any()


def test_many_rows_teach_what_few_do_together() -> None:
    """They are gone through in blocks; the derivatives are those of the rows alone."""
    component = with_statistics(lstm("cell-dim=3 self-repair-scale=0.01"))
    whole, pieces = component.gradient_copy(), component.gradient_copy()
    x, y_deriv = torch.randn(20_001, 15), torch.randn(20_001, 6)
    y, _ = component.propagate(x)
    x_deriv = component.backprop(x, y, y_deriv, to_update=whole)
    for rows in (slice(0, 7_000), slice(7_000, 20_001)):
        found = component.backprop(x[rows], y[rows], y_deriv[rows], to_update=pieces)
        torch.testing.assert_close(found, x_deriv[rows])
    for name in ("params", "value_sum", "deriv_sum", "self_repair_total"):
        torch.testing.assert_close(getattr(whole, name), getattr(pieces, name), rtol=1e-4, atol=1e-3)
    assert whole.count == pieces.count


def test_written_file_is_read_back(tmp_path: Path) -> None:
    component = with_statistics(lstm("cell-dim=3 use-dropout=true learning-rate=0.5 max-change=0.75"))
    for binary in (True, False):
        component.write(str(tmp_path / "a"), binary=binary)
        again = components.read(tmp_path / "a")
        again.write(str(tmp_path / "b"), binary=binary)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert isinstance(again, LstmNonlinearityComponent)
        assert again.use_dropout
        torch.testing.assert_close(again.deriv_sum, component.deriv_sum, rtol=1e-6, atol=0.0)
        assert again.info() == component.info()
        assert "self-repaired-proportion=" in again.info()


TestLstmNonlinearity = component_contract(
    "LstmNonlinearityComponent",
    good=["cell-dim=4 self-repair-scale=0"],
    rows=7,
    file=written("LstmNonlinearityComponent", "cell-dim=2", params=torch.tensor([1.0, 2.0]), self_repair_config=0.5),
    bad_configs=[
        ("", "'cell-dim=' is missing"),
        ("cell-dim=0", "'cell-dim' must be >= 1"),
        ("cell-dim=2 param-stddev=-1", "'param-stddev' must be >= 0"),
        ("cell-dim=2 tanh-self-repair-threshold=1.1", "must be within [0, 1]"),
        ("cell-dim=2 sigmoid-self-repair-threshold=0.3", "must be within [0, 0.25]"),
        ("cell-dim=2 self-repair-scale=0.2", "must be within [0, 0.1]"),
        ("cell-dim=2 dim=3", "unknown key 'dim'"),
    ],
    bad_files=[
        ("<Params>  [\n  1 2 \n", "<Params>  [\n", "<Params> must be 3 x columns"),
        ("<ValueAvg>  [\n  0 0 \n", "<ValueAvg>  [\n", "<ValueAvg> must be 5 x 2"),
        ("<SelfRepairConfig>  [ 0.5", "<SelfRepairConfig>  [", "<SelfRepairConfig> must have 10 elements"),
        ("<Count>", "<Cuont>", "expected <Count>"),
    ],
)
