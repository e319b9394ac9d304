"""NormalizeComponent."""

from __future__ import annotations

import math

import pytest
import torch

from nnet3 import components
from nnet3.components import Properties
from tests.components.component_text import from_text
from tests.components.contract import component_contract

CONFIGS = [
    "dim=6",
    "dim=6 block-dim=3 target-rms=0.5",
    "input-dim=6 block-dim=2 add-log-stddev=true",
    "dim=6 add-log-stddev=true target-rms=2",
]


def create(config: str) -> components.Component:
    return components.create("NormalizeComponent", config)


def test_a_worked_example_has_its_output() -> None:
    y, _ = create("dim=2 add-log-stddev=true").propagate(torch.tensor([[3.0, 4.0]]))
    torch.testing.assert_close(y, torch.tensor([[0.848528, 1.131371, 1.262864]]))


def test_each_block_gets_the_target_rms_and_its_log_stddev() -> None:
    x = torch.randn(10, 6) * 100
    component = create("dim=6 block-dim=3 target-rms=0.5 add-log-stddev=true")
    assert component.output_dim == 8
    blocks = component.propagate(x)[0].unflatten(1, (2, 4))
    torch.testing.assert_close(blocks[..., :3].square().mean(2).sqrt(), torch.full((10, 2), 0.5))
    torch.testing.assert_close(blocks[..., 3], x.unflatten(1, (2, 3)).square().mean(2).sqrt().log())


def test_a_row_of_zeros_stays_zero_and_gets_a_finite_derivative() -> None:
    component = create("dim=2 add-log-stddev=true")
    x = torch.zeros(1, 2)
    y, _ = component.propagate(x)
    torch.testing.assert_close(y, torch.tensor([[0.0, 0.0, -33 * math.log(2)]]))
    x_deriv = component.backprop(x, y, torch.ones(1, 3))
    torch.testing.assert_close(x_deriv, torch.full((1, 2), 2.0**33))


def test_floored_rows_are_scaled_by_a_constant() -> None:
    x = torch.full((1, 4), 1e-12)
    component = create("dim=4")
    y, _ = component.propagate(x)
    torch.testing.assert_close(y, x * 2**33)
    torch.testing.assert_close(component.backprop(x, y, torch.ones(1, 4)), torch.full((1, 4), 2.0**33))


def test_in_place_only_without_the_extra_column() -> None:
    assert create("dim=4").properties & Properties.BACKPROP_IN_PLACE
    assert not create("dim=4 add-log-stddev=true").properties & Properties.PROPAGATE_IN_PLACE


@pytest.mark.parametrize(
    "old",
    [
        "<NormalizeComponent> <Dim> 4 </NormalizeComponent> ",
        "<NormalizeComponent> <InputDim> 4 <TargetRms> 1 <ValueAvg> [ ]\n"
        "<DerivAvg> [ ]\n<Count> 0 </NormalizeComponent> ",
    ],
)
def test_old_files_are_read(old: str) -> None:
    expected = "NormalizeComponent, input-dim=4, output-dim=4, target-rms=1, add-log-stddev=false"
    assert from_text(old).info() == expected


TestNormalize = component_contract(
    "NormalizeComponent",
    good=CONFIGS,
    rows=5,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("input-dim=0", "'input-dim' must be >= 1", "0"),
        ("dim=4 block-dim=3", "'block-dim' must divide dim=4, got 3", "3"),
        ("dim=4 target-rms=0", "'target-rms' must be > 0", "0"),
        ("dim=4 input-dim=4", "unknown key 'input-dim'", "input-dim"),
    ],
    bad_files=[
        ("<InputDim> 4 <BlockDim> 3", "<BlockDim> must divide dim=4, got 3"),
        ("<InputDim> -4", "<InputDim> must be >= 1, got -4"),
        ("<InputDim> 4 <TargetRms> 0", "<TargetRms> must be > 0, got 0"),
        ("<OutputDim> 4", "expected <InputDim> or <Dim>, got '<OutputDim>'"),
    ],
)
