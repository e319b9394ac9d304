"""FixedAffineComponent, FixedScaleComponent and FixedBiasComponent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import components
from tests.components.component_text import check_config_error, to_text
from tests.components.contract import component_contract


def test_fixed_components_compute_their_formulas() -> None:
    x = torch.randn(3, 5)
    affine = components.create("FixedAffineComponent", "input-dim=5 output-dim=3")
    torch.testing.assert_close(affine.propagate(x)[0], x @ affine.linear_params.t() + affine.bias_params)
    scale = components.create("FixedScaleComponent", "dim=5 scale=0.5")
    torch.testing.assert_close(scale.propagate(x)[0], x * 0.5)
    bias = components.create("FixedBiasComponent", "dim=5")
    torch.testing.assert_close(bias.propagate(x)[0], x + bias.bias)


def test_values_from_files(tmp_path: Path) -> None:
    (tmp_path / "matrix").write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    affine = components.create("FixedAffineComponent", f"matrix={tmp_path}/matrix")
    assert affine.linear_params.tolist() == [[1, 2], [4, 5]]
    assert affine.bias_params.tolist() == [3, 6]
    (tmp_path / "vector").write_text(" [ 1 2 3 ]\n")
    scale = components.create("FixedScaleComponent", f"scales={tmp_path}/vector")
    assert to_text(scale) == "<FixedScaleComponent> <Scales>  [ 1 2 3 ]\n</FixedScaleComponent> "
    bias = components.create("FixedBiasComponent", f"bias={tmp_path}/vector")
    assert bias.bias.tolist() == [1, 2, 3]


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "column").write_text(" [\n 1\n 4 ]\n")
    path = str(tmp_path / "column")
    check_config_error("FixedAffineComponent", f"matrix={path}", "a column more than there are inputs", path)
    check_config_error("FixedScaleComponent", f"scales={tmp_path}/none", "cannot read scales=", f"{tmp_path}/none")
    check_config_error("FixedBiasComponent", f"bias={path} dim=2", "cannot read bias=", path)


def test_they_have_no_parameters_but_change_with_type() -> None:
    component = components.create("FixedScaleComponent", "dim=4")
    assert component.parameters() == {}
    component.scale_(0.0)
    assert float(component.scales.abs().sum()) > 0
    assert component.copy().to(torch.float64).scales.dtype == torch.float64
    assert component.scales.dtype == torch.float32


def test_random_values_depend_on_the_seed_only() -> None:
    one, same, other = (components.create("FixedBiasComponent", "dim=9", seed=seed).bias for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


TestFixedAffine = component_contract(
    "FixedAffineComponent",
    good=["input-dim=5 output-dim=3"],
    rows=6,
    bad_configs=[
        ("input-dim=5", "'output-dim=' is missing", ""),
        ("input-dim=0 output-dim=3", "'input-dim' must be >= 1", "0"),
    ],
    bad_files=[
        (
            "<FixedAffineComponent> <LinearParams> [\n 1 2\n 3 4 ]\n<BiasParams> [ 1 ]\n</FixedAffineComponent> ",
            "<BiasParams> must have 2 elements, got 1",
        ),
        (
            "<FixedAffineComponent> <LinearParams> [ ]\n<BiasParams> [ ]\n</FixedAffineComponent> ",
            "<LinearParams> must be a matrix that is not empty",
        ),
    ],
)
TestFixedScale = component_contract(
    "FixedScaleComponent",
    good=["dim=4", "dim=4 scale=0.5"],
    rows=6,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=3 scale=nan", "'scale' must be a finite number", "nan"),
    ],
    bad_files=[
        ("<FixedScaleComponent> <Scales> [ ]\n</FixedScaleComponent> ", "<Scales> must have at least one element"),
    ],
)
TestFixedBias = component_contract(
    "FixedBiasComponent",
    good=["dim=4"],
    rows=6,
    bad_configs=[
        ("dim=-1", "'dim' must be >= 1", "-1"),
    ],
    bad_files=[
        ("<FixedBiasComponent> <Scales> [ 1 ]\n</FixedBiasComponent> ", "expected <Bias>, got '<Scales>'"),
    ],
)


@pytest.mark.parametrize("rows", [1, 512, 1300])
def test_a_part_packs_its_columns_transposed_where_there_are_no_panels(rows: int) -> None:
    affine = components.create("FixedAffineComponent", f"input-dim=7 output-dim={rows}").to(dtype=torch.float64)
    packed = torch.empty(3, rows, dtype=torch.float64)
    affine.slice(2, 5, adds=False, goes_backward=False).run_forward((), packed, None)
    torch.testing.assert_close(packed, affine.linear_params[:, 2:5].t(), rtol=0, atol=0)
