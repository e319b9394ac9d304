"""Statistics, files, configuration and self-repair of the pointwise nonlinearities, and their kernels."""

from __future__ import annotations

import math

import pytest
import torch

from nnet3 import components
from nnet3.errors import ComponentError
from nnet3.model.components.nonlinearity import Nonlinearity
from tests.components.component_text import check_round_trip, from_text, to_text
from tests.components.contract import component_contract

TYPES = [
    "SigmoidComponent",
    "TanhComponent",
    "RectifiedLinearComponent",
    "SoftmaxComponent",
    "LogSoftmaxComponent",
]
REPAIRING = TYPES[:3]

EXAMPLE = """<RectifiedLinearComponent> <Dim> 2 <ValueAvg>  [ 0.5 1.25 ]
<DerivAvg>  [ 0.5 1 ]
<Count> 8 <OderivRms>  [ 0.1 0.2 ]
<OderivCount> 4 <NumDimsSelfRepaired> 1 <NumDimsProcessed> 6 <SelfRepairScale> 1e-05 </RectifiedLinearComponent> """


def create(type_name: str, config: str) -> Nonlinearity:
    component = components.create(type_name, config)
    assert isinstance(component, Nonlinearity)
    return component


def with_average_deriv(component: Nonlinearity, averages: list[float], count: float = 10.0) -> Nonlinearity:
    """The component with statistics that say how saturated its dimensions are."""
    component.deriv_sum = torch.tensor(averages, dtype=torch.float64) * count
    component.value_sum = torch.zeros_like(component.deriv_sum)
    component.count = count
    return component


def repair_change(component: Nonlinearity, y: torch.Tensor, rounds: int = 40) -> tuple[torch.Tensor, int, Nonlinearity]:
    """The change that self-repair makes to x_deriv, in how many of the rounds, and where it was counted."""
    component = component.copy()
    counted = component.copy()
    counted.zero_stats()
    zero, result, times = torch.zeros_like(y), torch.zeros_like(y), 0
    for _ in range(rounds):
        x_deriv = component.backprop(y, y, zero, None, counted)
        if x_deriv.abs().sum() > 0:
            result, times = x_deriv, times + 1
    return result, times, counted


def test_values_of_large_inputs() -> None:
    x = torch.tensor([[-1000.0, -1.0, 0.0, 1000.0]])
    expected = {
        "SigmoidComponent": [0.0, 1 / (1 + math.e), 0.5, 1.0],
        "TanhComponent": [-1.0, -math.tanh(1), 0.0, 1.0],
        "RectifiedLinearComponent": [0.0, 0.0, 0.0, 1000.0],
        "SoftmaxComponent": [1e-20, 1e-20, 1e-20, 1.0],
        "LogSoftmaxComponent": [-2000.0, -1001.0, -1000.0, 0.0],
    }
    for type_name, values in expected.items():
        y, _ = components.create(type_name, "dim=4").propagate(x)
        torch.testing.assert_close(y, torch.tensor([values]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("type_name", TYPES)
def test_nan_is_not_hidden(type_name: str) -> None:
    x = torch.ones(2, 3)
    x[0, 1] = math.nan
    y, _ = components.create(type_name, "dim=3").propagate(x)
    assert bool(y[0, 1].isnan())
    assert not bool(y[1].isnan().any())


def test_an_example_file_is_rewritten_the_same() -> None:
    component = from_text(EXAMPLE)
    assert component.value_sum.tolist() == [4, 10]
    assert component.deriv_sum.tolist() == [4, 8]
    torch.testing.assert_close(component.oderiv_sumsq, torch.tensor([0.04, 0.16], dtype=torch.float64))
    assert to_text(component) == EXAMPLE
    assert component.info() == (
        "RectifiedLinearComponent, dim=2, self-repair-scale=1e-05, count=8, self-repaired-proportion=0.166667, "
        "value-avg=[ 0.50 1.2 ], deriv-avg=[ 0.50 1.0 ], oderiv-rms=[ 0.10 0.20 ], oderiv-count=4"
    )


@pytest.mark.parametrize("type_name", TYPES)
def test_what_is_written_is_read_back(type_name: str) -> None:
    config = "dim=6 block-dim=3 self-repair-lower-threshold=0.1 self-repair-scale=1e-5"
    component = create(type_name, config)
    check_round_trip(component)
    y, _ = component.propagate(torch.randn(4, 6))
    component.store_stats(y, y, None)
    component.backprop(y, y, torch.randn(4, 6), None, component)
    assert component.oderiv_count == 4
    check_round_trip(component)


def test_old_files_lack_the_last_fields() -> None:
    component = from_text("<TanhComponent> <Dim> 2 <ValueAvg> [ ]\n<DerivAvg> [ ]\n<Count> 0 </TanhComponent> ")
    assert component.info() == "TanhComponent, dim=2"
    assert component.oderiv_sumsq.numel() == 0


def test_statistics_are_sums_over_rows() -> None:
    x = torch.randn(6, 3)
    for type_name, deriv_of_output in (
        ("SigmoidComponent", lambda y: y * (1 - y)),
        ("TanhComponent", lambda y: 1 - y * y),
        ("RectifiedLinearComponent", lambda y: (y > 0).float()),
    ):
        component = create(type_name, "dim=3")
        y, _ = component.propagate(x)
        component.store_stats(x, y, None)
        torch.testing.assert_close(component.value_sum.float(), y.sum(0))
        torch.testing.assert_close(component.deriv_sum.float(), deriv_of_output(y).sum(0))
        assert component.count == 6


def test_statistics_are_stored_for_about_half_of_the_minibatches_but_always_for_the_first() -> None:
    component = create("TanhComponent", "dim=3")
    y = torch.zeros(1, 3)
    counts = []
    for _ in range(200):
        component.store_stats(y, y, None)
        counts.append(component.count)
    assert counts[0] == 1
    assert 70 < counts[-1] < 130
    component.zero_stats()
    component.store_stats(y, y, None)
    assert component.count == 1


def test_softmax_stores_every_output_and_log_softmax_none() -> None:
    y = torch.full((2, 3), 0.5)
    softmax, log_softmax = create("SoftmaxComponent", "dim=3"), create("LogSoftmaxComponent", "dim=3")
    for _ in range(10):
        softmax.store_stats(y, y, None)
        log_softmax.store_stats(y, y, None)
    assert softmax.count == 20
    assert softmax.value_sum.tolist() == [10, 10, 10]
    assert softmax.deriv_sum.numel() == 0
    assert log_softmax.count == 0


def test_output_derivatives_are_stored_for_three_of_four_minibatches() -> None:
    component = create("LogSoftmaxComponent", "dim=2")
    y, y_deriv = torch.zeros(1, 2), torch.tensor([[2.0, 3.0]])
    component.backprop(y, y, y_deriv, None, component)
    assert (component.oderiv_count, component.oderiv_sumsq.tolist()) == (1, [4, 9])
    for _ in range(400):
        component.backprop(y, y, y_deriv, None, component)
    assert 260 < component.oderiv_count < 340
    before = component.oderiv_count
    component.backprop(y, y, y_deriv, None, None)
    assert component.oderiv_count == before


def test_softmax_stores_the_output_derivative_that_it_overwrites() -> None:
    component = create("SoftmaxComponent", "dim=2")
    y, deriv = torch.full((1, 2), 0.5), torch.tensor([[2.0, 3.0]])
    component.backward(y, y, deriv, None, component, deriv)
    assert component.oderiv_sumsq.tolist() == [4, 9]


def test_scale_and_add_are_linear_in_all_statistics() -> None:
    component = from_text(EXAMPLE)
    total = create("RectifiedLinearComponent", "dim=2")
    total.add_(0.5, component)
    total.add_(1.5, component)
    assert total.value_sum.tolist() == [8, 20]
    assert (total.count, total.oderiv_count) == (16, 8)
    assert (float(total.num_dims_self_repaired), total.num_dims_processed) == (2, 12)
    total.scale_(0.5)
    assert total.deriv_sum.tolist() == [4, 8]
    assert component.value_sum.tolist() == [4, 10]
    copy = component.copy()
    copy.zero_stats()
    assert copy.count == copy.oderiv_count == copy.num_dims_processed == 0
    assert copy.value_sum.tolist() == [0, 0]
    assert component.count == 8


def test_saturated_sigmoids_are_repaired() -> None:
    component = with_average_deriv(create("SigmoidComponent", "dim=2 self-repair-scale=1e-5"), [0.01, 0.06])
    change, times, counted = repair_change(component, torch.tensor([[0.99, 0.99]]))
    torch.testing.assert_close(change, torch.tensor([[-1.96e-5, 0.0]]), rtol=1e-4, atol=0)
    assert 8 < times < 32
    assert counted.num_dims_processed == 80
    assert float(counted.num_dims_self_repaired) == times


def test_saturated_tanhs_are_repaired() -> None:
    component = with_average_deriv(create("TanhComponent", "dim=2 self-repair-scale=1e-5"), [0.1, 0.21])
    change, _, _ = repair_change(component, torch.tensor([[0.9, 0.9]]))
    torch.testing.assert_close(change, torch.tensor([[-1.8e-5, 0.0]]))
    component.self_repair_lower_threshold = 0.3
    change, _, _ = repair_change(component, torch.tensor([[0.9, 0.9]]))
    torch.testing.assert_close(change, torch.tensor([[-1.8e-5, -1.8e-5]]))


def test_rectified_linear_repair() -> None:
    component = with_average_deriv(create("RectifiedLinearComponent", "dim=3 self-repair-scale=1e-5"), [0.01, 0.5, 1])
    change, times, counted = repair_change(component, torch.zeros(2, 3))
    torch.testing.assert_close(change, torch.tensor([[2e-5, 0, -2e-5]] * 2))
    assert 8 < times < 32
    assert counted.num_dims_processed == 3 * times
    assert float(counted.num_dims_self_repaired) == 2 * times


def test_rectified_linear_repair_averages_over_blocks() -> None:
    config = "dim=4 block-dim=2 self-repair-scale=1e-5"
    component = with_average_deriv(create("RectifiedLinearComponent", config), [0, 0.5, 0.04, 1])
    change, times, counted = repair_change(component, torch.zeros(1, 4))
    torch.testing.assert_close(change, torch.tensor([[2e-5, 0, 2e-5, 0]]))
    assert counted.num_dims_processed == 2 * times


@pytest.mark.parametrize("type_name", REPAIRING)
def test_no_repair_without_scale_statistics_or_component_to_update(type_name: str) -> None:
    y = torch.full((1, 2), 0.9)
    never = create(type_name, "dim=2 self-repair-scale=1e-5")
    assert repair_change(never, y)[1] == 0
    off = with_average_deriv(create(type_name, "dim=2"), [0, 0])
    assert repair_change(off, y)[1] == 0
    on = with_average_deriv(create(type_name, "dim=2 self-repair-scale=1e-5"), [0, 0])
    assert all(float(on.backprop(y, y, torch.zeros(1, 2)).abs().sum()) == 0 for _ in range(20))


def test_a_scale_from_a_file_is_checked_when_repair_is_due() -> None:
    component = with_average_deriv(create("TanhComponent", "dim=2"), [0, 0])
    component.self_repair_scale = 0.5
    y = torch.zeros(1, 2)
    with pytest.raises(ComponentError, match=r"'self-repair-scale' must be >= 0 and < 0.1, got 0.5"):
        component.backprop(y, y, y, None, component)


TestRectifiedLinear = component_contract(
    "RectifiedLinearComponent",
    good=["dim=7"],
    rows=5,
    file=EXAMPLE,
    bad_files=[
        ("<Dim> 2", "<Dim> 0", "<Dim> must be >= 1, got 0"),
        ("<Dim> 2", "<Dim> 2 <BlockDim> 4", "<BlockDim> must divide dim=2, got 4"),
        ("[ 0.5 1.25 ]", "[ 0.5 ]", "<ValueAvg> must have 0 or 2 elements, got 1"),
        ("[ 0.5 1 ]", "[ 1 2 3 ]", "<DerivAvg> must have 0 or 2 elements, got 3"),
        ("[ 0.1 0.2 ]", "[ 0.1 ]", "<OderivRms> must have 0 or 2 elements, got 1"),
        ("<OderivCount>", "<Odd>", "expected <OderivCount>, got '<Odd>'"),
        ("<SelfRepairScale>", "<Scale>", "expected </RectifiedLinearComponent>, got '<Scale>'"),
    ],
)
TestTanh = component_contract(
    "TanhComponent",
    good=["dim=7"],
    rows=5,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=0", "'dim' must be >= 1, got 0", "0"),
        ("dim=4 block-dim=3", "'block-dim' must divide dim=4, got 3", "3"),
        ("dim=4 self-repair-scale=0.1", "must be >= 0 and < 0.1, got 0.1", "0.1"),
        ("dim=4 self-repair-scale=-1", "must be >= 0 and < 0.1, got -1", "-1"),
    ],
)
TestSigmoid = component_contract(
    "SigmoidComponent",
    good=["dim=7"],
    rows=5,
    bad_configs=[
        (
            "dim=4 self-repair-scale=1e-5 self-repair-upper-threshold=0.7",
            "'self-repair-upper-threshold' has no meaning for this type",
            "0.7",
        ),
    ],
)
TestLogSoftmax = component_contract("LogSoftmaxComponent", ["dim=7"], rows=5)
TestSoftmax = component_contract(
    "SoftmaxComponent",
    good=["dim=7"],
    rows=5,
    bad_configs=[
        ("dim=4 size=3", "unknown key 'size'", "size"),
    ],
)
