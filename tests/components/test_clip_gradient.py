"""ClipGradientComponent."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.model.components.identity import ClipGradientComponent
from tests.components.component_text import check_round_trip, from_text, to_text
from tests.components.contract import component_contract


def create(config: str) -> ClipGradientComponent:
    component = components.create("ClipGradientComponent", config)
    assert isinstance(component, ClipGradientComponent)
    return component


def backprop(
    component: ClipGradientComponent, y_deriv: Tensor, to_update: ClipGradientComponent | None = None
) -> Tensor:
    x = torch.ones_like(y_deriv)
    return component.backprop(x, x, y_deriv, None, to_update)


def test_norm_based_clipping_shortens_long_rows() -> None:
    component = create("dim=2 clipping-threshold=5 norm-based-clipping=true")
    y_deriv = torch.tensor([[3.0, 4.0], [30.0, 40.0], [0.3, 0.4], [0.0, 0.0]])
    x_deriv = backprop(component, y_deriv, component)
    torch.testing.assert_close(x_deriv, torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]))
    assert (component.count, float(component.num_clipped), component.num_backpropped) == (4, 2, 1)


def test_element_wise_clipping_counts_nothing() -> None:
    component = create("dim=3 clipping-threshold=5")
    assert backprop(component, torch.tensor([[3.0, 40.0, -6.0]]), component).tolist() == [[3, 5, -5]]
    assert (component.count, float(component.num_clipped), component.num_backpropped) == (0, 0, 1)


def test_threshold_zero_blocks_the_derivative() -> None:
    component = create("dim=2 clipping-threshold=0")
    assert backprop(component, torch.ones(1, 2), component).tolist() == [[0, 0]]
    assert component.num_backpropped == 0


def test_nothing_is_counted_without_a_component_to_update() -> None:
    component = create("dim=2 norm-based-clipping=true")
    backprop(component, torch.ones(1, 2) * 100)
    assert component.count == 0


def repaired(component: ClipGradientComponent, x: Tensor, y_deriv: Tensor) -> tuple[Tensor, int]:
    """The derivative of a round with repair, and how many of 40 rounds had it."""
    component, result, times = component.copy(), y_deriv, 0
    for _ in range(40):
        counted = component.copy()
        counted.zero_stats()
        x_deriv = component.backprop(x, x, y_deriv, None, counted)
        if counted.num_self_repaired:
            result, times = x_deriv, times + 1
    return result, times


def test_self_repair_pushes_inputs_to_the_target() -> None:
    config = "dim=2 clipping-threshold=5 norm-based-clipping=true self-repair-target=1 self-repair-scale=0.5"
    component = create(config)
    component.count, component.num_clipped = 10.0, torch.tensor(4.0, dtype=torch.float64)
    x, y_deriv = torch.tensor([[3.0, -1.0], [0.5, -2.0]]), torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    excess = torch.tensor([[2.0, 0.0], [0.0, -1.0]])
    z = 0.5 * 0.4 * 6 / 3
    expected = y_deriv - 2 * z * excess
    expected *= 6 / expected.norm(dim=1).sum()
    x_deriv, times = repaired(component, x, y_deriv)
    torch.testing.assert_close(x_deriv, expected)
    assert 8 < times < 32


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("self_repair_scale", 0.0),
        ("self_repair_clipped_proportion_threshold", 1.0),
        ("self_repair_clipped_proportion_threshold", 0.4),
        ("count", 0.0),
    ],
)
def test_when_self_repair_is_skipped(attribute: str, value: float) -> None:
    component = create("dim=2 norm-based-clipping=true")
    component.count, component.num_clipped = 10.0, torch.tensor(4.0, dtype=torch.float64)
    ones = torch.ones(1, 2)
    assert repaired(component, ones, ones)[1] > 0
    setattr(component, attribute, value)
    assert repaired(component, ones, ones)[1] == 0


def test_self_repair_of_inputs_within_the_target_changes_nothing() -> None:
    component = create("dim=2 norm-based-clipping=true self-repair-target=2")
    component.count, component.num_clipped = 10.0, torch.tensor(4.0, dtype=torch.float64)
    x_deriv, times = repaired(component, torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
    assert times > 0
    torch.testing.assert_close(x_deriv, torch.tensor([[1.0, 2.0]]))
    x_deriv, _ = repaired(component, torch.full((1, 2), 9.0), torch.zeros(1, 2))
    assert x_deriv.tolist() == [[0, 0]]


def test_scale_and_add_change_only_the_clipped_proportion() -> None:
    component = create("dim=2 clipping-threshold=1 norm-based-clipping=true")
    backprop(component, torch.ones(3, 2), component)
    component.num_self_repaired = 2
    component.scale_(2.0)
    component.add_(1.0, component.copy())
    assert (component.count, float(component.num_clipped)) == (12, 12)
    assert (component.num_self_repaired, component.num_backpropped) == (2, 1)
    assert component.counter_names == {"num_self_repaired", "num_backpropped"}
    check_round_trip(component)
    component.zero_stats()
    assert (component.count, float(component.num_clipped)) == (0, 0)
    assert (component.num_self_repaired, component.num_backpropped) == (0, 0)


FIELDS = "<Dim> 2 <ClippingThreshold> 3 <NormBasedClipping> T "


def test_old_files_are_read() -> None:
    text = f"<ClipGradientComponent> {FIELDS}<NumElementsClipped> 1 <NumElementsProcessed> 4 </ClipGradientComponent> "
    component = from_text(text)
    assert component.info() == (
        "ClipGradientComponent, dim=2, norm-based-clipping=true, clipping-threshold=3, clipped-proportion=0.25"
    )
    assert to_text(component) == (
        f"<ClipGradientComponent> {FIELDS}<SelfRepairClippedProportionThreshold> 1 <SelfRepairTarget> 0 "
        "<SelfRepairScale> 0 <NumElementsClipped> 1 <NumElementsProcessed> 4 <NumSelfRepaired> 0 <NumBackpropped> 0 "
        "</ClipGradientComponent> "
    )


def test_counts_beyond_32_bits_can_be_written() -> None:
    component = create("dim=2")
    component.count = 1e12
    assert "<NumElementsProcessed> 2147483647 " in to_text(component)


TestClipGradient = component_contract(
    "ClipGradientComponent",
    good=[f"dim=4 clipping-threshold=100 norm-based-clipping={norm_based}" for norm_based in ("true", "false")],
    rows=5,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=2 clipping-threshold=-1", "'clipping-threshold' must be >= 0", "-1"),
        ("dim=2 self-repair-scale=-1", "'self-repair-scale' must be >= 0", "-1"),
        ("dim=2 self-repair-target=-1", "'self-repair-target' must be >= 0", "-1"),
        ("dim=2 self-repair-clipped-proportion-threshold=-1", "must be >= 0", "-1"),
    ],
    bad_files=[
        ("<Dim> 0", "<Dim> must be >= 1, got 0"),
        ("<Dim> 2 <ClippingThreshold> -3", "<ClippingThreshold> must be >= 0, got -3"),
        (f"{FIELDS} <NumElementsClipped> -1", "<NumElementsClipped> must be >= 0, got -1"),
        (f"{FIELDS} <SelfRepairTarget> 1", "expected <NumElementsClipped>, got '<SelfRepairTarget>'"),
    ],
)
