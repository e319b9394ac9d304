"""LinearComponent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import components
from nnet3.model.components.affine import LinearComponent
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from tests.components.component_text import check_config_error, from_text, to_text
from tests.components.contract import component_contract
from tests.components.finite_differences import strided

TEXT = (
    "<LinearComponent> <LearningRate> 0.5 <Params>  [\n  1 2 3 ]\n<OrthonormalConstraint> -1 <UseNaturalGradient> F "
    "<RankInOut> 2 1 <Alpha> 4 <NumSamplesHistory> 2000 <UpdatePeriod> 3 </LinearComponent> "
)


def test_output_is_a_matrix_product() -> None:
    component = LinearComponent(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert component.propagate(torch.tensor([[1.0, -1.0]]))[0].tolist() == [[-1.0, -1.0]]
    assert component.orthonormal_matrix is component.params


@pytest.mark.parametrize("use", ["true", "false"])
@pytest.mark.parametrize("rows", [30, 9])
def test_natural_gradient_whatever_the_flag_says(rows: int, use: str) -> None:
    torch.manual_seed(0)
    config = f"input-dim=12 output-dim=8 use-natural-gradient={use} param-stddev=0 learning-rate=0.1"
    component = components.create("LinearComponent", config)
    assert isinstance(component, LinearComponent)
    x, g = torch.randn(rows, 12), torch.randn(rows, 8)
    component.backward(strided(x), g, strided(g), None, component, None)
    x_hat, s_in = OnlineNaturalGradient(6, 4).precondition(x)
    g_hat, s_out = OnlineNaturalGradient(4, 4).precondition(g)
    torch.testing.assert_close(component.params, (0.1 * s_in * s_out * g_hat.t() @ x_hat).float(), rtol=1e-3, atol=1e-4)


def test_a_file_is_read_with_its_options() -> None:
    component = from_text(TEXT)
    assert isinstance(component, LinearComponent)
    assert component.params.tolist() == [[1, 2, 3]]
    assert component.orthonormal_constraint == -1
    assert not component.use_natural_gradient
    assert component.preconditioner_out.update_period == 3
    assert to_text(component) == TEXT


def test_reduced_rank_is_written() -> None:
    torch.manual_seed(0)
    component = components.create("LinearComponent", "input-dim=4 output-dim=3 rank-in=9 rank-out=9")
    x = torch.randn(5, 4)
    y, memo = component.propagate(x)
    assert "rank-in=9, rank-out=9" in component.info()
    component.backprop(x, y, y, memo, component)
    assert "rank-in=3, rank-out=2" in component.info()
    assert "<RankInOut> 3 2" in to_text(component)


def test_a_matrix_file_gives_the_dimensions(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    component = components.create("LinearComponent", f"matrix={tmp_path}/m output-dim=2")
    assert (component.input_dim, component.output_dim) == (3, 2)
    check_config_error(
        "LinearComponent", f"matrix={tmp_path}/m input-dim=2", "'input-dim' is 2, but the matrix has 3", "2"
    )


TestLinear = component_contract(
    "LinearComponent",
    good=["input-dim=7 output-dim=5 max-change=0.75 rank-in=3 alpha=2"],
    file=TEXT,
    bad_configs=[
        ("input-dim=3", "'output-dim=' is missing", ""),
        ("input-dim=3 output-dim=2 bias-stddev=0", "unknown key 'bias-stddev'", "bias-stddev"),
        ("input-dim=3 output-dim=2 use-natural-gradient=yes", "'use-natural-gradient' must be true or false", "yes"),
    ],
    bad_files=[
        ("[\n  1 2 3 ]", "[ ]", "<Params> must be a matrix that is not empty"),
        ("<RankInOut> 2 1", "<RankInOut> 2 0", "rank-out must be >= 1, got 0"),
        (
            "<OrthonormalConstraint> -1",
            "<OrthonormalConstraint> inf",
            "<OrthonormalConstraint> must be a finite number, got inf",
        ),
        ("<UseNaturalGradient> F", "<UseNaturalGradient> 0", "expected T or F, got '0'"),
        ("</LinearComponent>", "</AffineComponent>", "expected </LinearComponent>, got '</AffineComponent>'"),
    ],
)
