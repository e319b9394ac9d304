"""AffineComponent and NaturalGradientAffineComponent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import components
from nnet3.model.components.affine import AffineComponent, NaturalGradientAffineComponent
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from tests.components.component_text import check_config_error, from_text, to_text
from tests.components.contract import component_contract
from tests.components.finite_differences import strided

TYPES = ["AffineComponent", "NaturalGradientAffineComponent"]
GOOD = "input-dim=7 output-dim=5 learning-rate=0.1 orthonormal-constraint=-1"
OLD_NATURAL_GRADIENT = (
    "<NaturalGradientAffineComponent> <LearningRate> 0.5 <LinearParams> [\n 1 2 ]\n<BiasParams> [ 3 ]\n"
    "<RankIn> 1 <RankOut> 1 <UpdatePeriod> 4 <NumSamplesHistory> 2000 <Alpha> 4 "
)


def test_output_is_a_product_plus_bias() -> None:
    component = AffineComponent(torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, -1.0]]), torch.tensor([10.0, 20.0, 30.0]))
    assert component.propagate(torch.tensor([[1.0, -1.0]]))[0].tolist() == [[9.0, 19.0, 31.0]]
    assert list(component.parameters()) == ["linear_params", "bias_params"]
    assert component.num_parameters == 9


def test_a_plain_update_is_rate_times_gradient() -> None:
    component = AffineComponent(torch.zeros(1, 2), torch.zeros(1))
    component.learning_rate_factor = 2.0
    component.set_learning_rate(0.1)
    x, g = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [10.0]])
    component.backprop(x, g, g, None, component)
    torch.testing.assert_close(component.linear_params, 0.2 * torch.tensor([[31.0, 42.0]]))
    torch.testing.assert_close(component.bias_params, 0.2 * torch.tensor([11.0]))


@pytest.mark.parametrize("rows", [30, 9])
def test_natural_gradient_update(rows: int) -> None:
    torch.manual_seed(0)
    component = components.create("NaturalGradientAffineComponent", "input-dim=12 output-dim=8 learning-rate=0.1")
    updated = component.copy()
    into, out = OnlineNaturalGradient(6, 4), OnlineNaturalGradient(4, 4)
    for _ in range(3):
        x, g = torch.randn(rows, 12), torch.randn(rows, 8)
        before = updated.copy()
        component.backward(strided(x), g, strided(g), None, updated, None)
        x_hat, s_in = into.precondition(torch.cat([x, torch.ones(rows, 1)], dim=1))
        g_hat, s_out = out.precondition(g)
        change = 0.1 * s_in * s_out * g_hat.t() @ x_hat
        torch.testing.assert_close(updated.linear_params - before.linear_params, change[:, :-1], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(updated.bias_params - before.bias_params, change[:, -1], rtol=1e-3, atol=1e-4)


def test_default_ranks_and_freezing() -> None:
    component = components.create("NaturalGradientAffineComponent", "input-dim=30 output-dim=200 rank-in=-5")
    assert isinstance(component, NaturalGradientAffineComponent)
    assert (component.preconditioner_in.rank, component.preconditioner_out.rank) == (15, 80)
    component.freeze_natural_gradient(True)
    assert component.preconditioner_in.frozen
    assert component.copy().preconditioner_out.frozen
    component.freeze_natural_gradient(False)
    assert not component.preconditioner_in.frozen
    assert not component.preconditioner_out.frozen


def test_orthonormal_matrix_is_the_linear_part() -> None:
    component = components.create("AffineComponent", "input-dim=3 output-dim=2 orthonormal-constraint=1.5")
    assert isinstance(component, AffineComponent)
    assert component.orthonormal_constraint == 1.5
    assert component.orthonormal_matrix is component.linear_params


def test_a_matrix_file_has_the_bias_as_its_last_column(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    for type_name in TYPES:
        component = components.create(type_name, f"input-dim=2 matrix={tmp_path}/m")
        assert isinstance(component, AffineComponent)
        assert component.linear_params.tolist() == [[1, 2], [4, 5]]
        assert component.bias_params.tolist() == [3, 6]
        check_config_error(
            type_name, f"matrix={tmp_path}/m output-dim=3", "'output-dim' is 3, but the matrix has 2", "3"
        )
        check_config_error(type_name, f"matrix={tmp_path}/m bias-stddev=0", "unknown key 'bias-stddev'", "bias-stddev")
    (tmp_path / "column").write_text(" [\n 1\n 4 ]\n")
    check_config_error("AffineComponent", f"matrix={tmp_path}/column", "at least 2 columns", f"{tmp_path}/column")


def test_initial_values_have_their_mean_and_deviation() -> None:
    component = components.create("AffineComponent", "input-dim=400 output-dim=100 bias-stddev=2")
    assert float(component.parameters()["linear_params"].std()) == pytest.approx(0.05, rel=0.05)
    assert float(component.parameters()["bias_params"].std()) == pytest.approx(2, rel=0.3)
    config = "input-dim=2 output-dim=3 bias-mean=5 bias-stddev=0 param-stddev=0"
    component = components.create("NaturalGradientAffineComponent", config)
    assert component.parameters()["bias_params"].tolist() == [5, 5, 5]
    assert float(component.parameters()["linear_params"].abs().max()) == 0


@pytest.mark.parametrize(
    "tail",
    [
        "</NaturalGradientAffineComponent> ",
        "<MaxChangePerSample> 0.075 <IsGradient> T </OldNaturalGradientAffineComponent> ",
        "<IsGradient> F <UpdateCount> 1 <ActiveScalingCount> 2 <MaxChangeScaleStats> 3 "
        "</NaturalGradientAffineComponent> ",
    ],
)
def test_old_layouts_are_read(tail: str) -> None:
    component = from_text(OLD_NATURAL_GRADIENT + tail)
    assert isinstance(component, NaturalGradientAffineComponent)
    assert component.is_gradient == ("<IsGradient> T" in tail)
    assert component.preconditioner_in.alpha == 4.0


def test_old_affine_layout() -> None:
    text = "<AffineComponent> <LearningRate> 0.5 <LinearParams> [\n 1 2 ]\n<BiasParams> [ 3 ]\n"
    component = from_text(f"{text}<IsGradient> T </AffineComponent> ")
    assert isinstance(component, AffineComponent)
    assert component.is_gradient
    assert "<IsGradient> T <LearningRate> 0.5" in to_text(component)


def test_info_with_all_settings() -> None:
    component = components.create(
        "AffineComponent",
        "input-dim=1 output-dim=1 learning-rate=0.5 learning-rate-factor=2 l2-regularize=0.25 max-change=0.75 "
        "orthonormal-constraint=-1 param-stddev=0 bias-stddev=0",
    )
    assert component.info() == (
        "AffineComponent, input-dim=1, output-dim=1, learning-rate=0.5, l2-regularize=0.25, learning-rate-factor=2, "
        "max-change=0.75, orthonormal-constraint=-1, linear-params-rms=0, linear-params-row-norms=[ 0 ], "
        "linear-params-col-norms=[ 0 ], bias-{mean,stddev}=0,0"
    )


def test_parameters_are_scaled_and_added() -> None:
    component = components.create("AffineComponent", "input-dim=3 output-dim=2")
    other = components.create("AffineComponent", "input-dim=3 output-dim=2", seed=1)
    expected = 0.5 * component.parameters()["bias_params"] + 2 * other.parameters()["bias_params"]
    component.scale_(0.5)
    component.add_(2.0, other)
    torch.testing.assert_close(component.parameters()["bias_params"], expected)
    component.parameters()["linear_params"][0, 0] = torch.nan
    component.scale_(0.0)
    assert float(component.parameters()["linear_params"].abs().max()) == 0


TestAffine = component_contract(
    "AffineComponent",
    good=[GOOD],
    bad_configs=[("input-dim=1 output-dim=1 bias-mean=0", "unknown key", "bias-mean")],
)
TestNaturalGradientAffine = component_contract(
    "NaturalGradientAffineComponent",
    good=[GOOD],
    file=OLD_NATURAL_GRADIENT + "</NaturalGradientAffineComponent> ",
    bad_configs=[
        ("output-dim=3", "'input-dim=' is missing", ""),
        ("input-dim=3 output-dim=0", "'output-dim' must be >= 1", "0"),
        ("input-dim=3 output-dim=2 param-stddev=-1", "'param-stddev' must be >= 0", "-1"),
        ("input-dim=3 output-dim=2 max-change=-0.1", "'max-change' must be >= 0", "-0.1"),
        ("input-dim=3 output-dim=2 rank-in=0", "'rank-in' must be positive, or negative for the default", "0"),
        ("input-dim=3 output-dim=2 rank-out=x", "'rank-out' must be an integer", "x"),
        ("input-dim=3 output-dim=2 alpha=-1", "'alpha' must be >= 0", "-1"),
        ("input-dim=3 output-dim=2 update-period=0", "'update-period' must be >= 1", "0"),
        ("input-dim=3 output-dim=2 num-samples-history=0", "'num-samples-history' must be > 0", "0"),
        ("input-dim=3 output-dim=2 bias-means=0", "unknown key 'bias-means'", "bias-means"),
        ("matrix=/no/such/file", "cannot read matrix=/no/such/file", "/no/such/file"),
    ],
    bad_files=[
        ("[ 3 ]", "[ 3 4 ]", "<BiasParams> must have 1 elements, got 2"),
        ("[\n 1 2 ]", "[ ]", "<LinearParams> must be a matrix that is not empty, got 0 x 0"),
        ("<RankIn> 1", "<RankIn> 0", "<RankIn> must be >= 1, got 0"),
        ("<UpdatePeriod> 4", "<UpdatePeriod> -4", "<UpdatePeriod> must be >= 1, got -4"),
        ("<NumSamplesHistory> 2000", "<NumSamplesHistory> 0", "<NumSamplesHistory> must be > 0, got 0"),
        ("<Alpha> 4", "<Alpha> nan", "<Alpha> must be >= 0, got nan"),
        ("<BiasParams>", "<Bias>", "expected <BiasParams>, got '<Bias>'"),
        ("<Alpha> 4", "<Alpha> 4 </LinearComponent>", "expected </NaturalGradientAffineComponent>, got '</Linear"),
    ],
)
