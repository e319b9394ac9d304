"""BatchNormComponent: training and test mode, statistics."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from nnet3 import components
from nnet3.components import Properties
from nnet3.model.components.batch_norm import BatchNormComponent
from nnet3.model.components.row_sums import summed_by
from nnet3.training.runs.process_group import ProcessGroup
from tests.components.component_text import check_round_trip
from tests.components.contract import component_contract
from tests.runs.thread_group import in_threads

CONFIGS = ["dim=6", "dim=6 block-dim=2 target-rms=0.5", "dim=6 block-dim=6 epsilon=0.2"]


def create(config: str) -> BatchNormComponent:
    component = components.create("BatchNormComponent", config)
    assert isinstance(component, BatchNormComponent)
    return component


def trained(config: str, x: torch.Tensor) -> BatchNormComponent:
    """A component that has stored the statistics of x."""
    component = create(config)
    y, memo = component.propagate(x)
    component.store_stats(x, y, memo)
    return component


def in_test_mode(config: str) -> BatchNormComponent:
    component = trained(config, torch.randn(20, 6) * 2 + 1)
    component.set_test_mode(True)
    return component


def test_formula_of_training_mode() -> None:
    x = torch.randn(50, 3) * 4 + 2
    y, _ = create("dim=3 target-rms=0.5 epsilon=0.1").propagate(x)
    expected = (x - x.mean(0)) * 0.5 / (x.var(0, correction=0) + 0.1).sqrt()
    torch.testing.assert_close(y, expected)


def test_blocks_share_their_statistics() -> None:
    x = torch.randn(12, 6)
    y, memo = create("dim=6 block-dim=2").propagate(x)
    expected, _ = create("dim=2").propagate(x.view(-1, 2))
    torch.testing.assert_close(y, expected.view(12, 6))
    assert memo.num_rows == 36


def test_sums_of_half_types_do_not_overflow() -> None:
    """The sum of 20,000 rows around 10 is more than float16 has numbers for."""
    x, y_deriv = torch.randn(20000, 3, dtype=torch.float64) + 10, torch.randn(20000, 3, dtype=torch.float64)
    component = create("dim=3")
    found = []
    for dtype in (torch.float64, torch.float16):
        rows, x_deriv = x.to(dtype), torch.empty_like(x, dtype=dtype)
        y, memo = component.propagate(rows)
        component.backward(rows, y, y_deriv.to(dtype), memo, None, x_deriv)
        found.append((y.double(), x_deriv.double()))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0.02)


def test_info_is_in_float32_as_kaldi_prints_it() -> None:
    """In float64 these are 0.36 and 0.14."""
    component = create("dim=2")
    component.count = 7.0
    mean = torch.tensor([0.365, -300.1], dtype=torch.float64)
    component.stats_sum = mean * 7
    component.stats_sumsq = (torch.tensor([0.25, 0.02], dtype=torch.float64) + mean.square()) * 7
    assert component.info().endswith("data-mean=[ 0.37 -300 ], data-stddev=[ 0.50 0.12 ]")


def test_a_scale_below_0_is_written_and_read() -> None:
    """Sums and count change their signs together, so mean and variance stay."""
    component = trained("dim=2", torch.randn(5, 2))
    mean, variance = component.stats_mean, component.stats_var
    component.scale_(-1.0)
    assert component.count == -5
    torch.testing.assert_close((component.stats_mean, component.stats_var), (mean, variance))
    check_round_trip(component)


def test_one_row_becomes_zero() -> None:
    y, memo = create("dim=3").propagate(torch.full((1, 3), 5.0))
    assert y.tolist() == [[0, 0, 0]]
    torch.testing.assert_close(memo.scale, torch.full((3,), 1 / math.sqrt(1e-3)))


def test_a_large_mean_does_not_spoil_the_variance() -> None:
    x = torch.randn(64, 2, dtype=torch.float64)
    y, _ = create("dim=2").propagate((x + 1000).float())
    expected, _ = create("dim=2").propagate(x)
    torch.testing.assert_close(y, expected.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("config", CONFIGS)
def test_processes_together_normalise_as_one(config: str) -> None:
    """Also where their means differ and are large, and where one has fewer rows, or none at all."""
    x, g = torch.randn(2, 30, 6, dtype=torch.float64)
    x += 1000 * torch.tensor([1, -1, 2, 0, 1, 1])
    x[:9] += 3
    parts = [slice(0, 9), slice(9, 30), slice(30, 30)]

    def work(group: ProcessGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        component, own = create(config), parts[group.rank]
        with summed_by(group):
            y, memo = component.propagate(x[own])
            derivative = component.backprop(x[own], y, g[own], memo=memo)
        component.store_stats(x[own], y, memo)
        return y, derivative, component.stats_sum

    found = in_threads(3, work)
    alone = create(config)
    y, memo = alone.propagate(x)
    torch.testing.assert_close(torch.cat([part[0] for part in found]), y, rtol=1e-9, atol=1e-9)
    derivative = alone.backprop(x, y, g, memo=memo)
    torch.testing.assert_close(torch.cat([part[1] for part in found]), derivative, rtol=1e-9, atol=1e-9)
    alone.store_stats(x, y, memo)
    torch.testing.assert_close(sum(part[2] for part in found), alone.stats_sum, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS)
def test_going_backward_the_input_serves_as_well_as_the_output(config: str) -> None:
    component, x, y_deriv = create(config), torch.randn(500, 6), torch.randn(500, 6)
    y, memo = component.propagate(x)
    given = [component.backward(*values, y_deriv, memo, None, found := torch.empty(500, 6)) or found
             for values in ((x, y), (x, y[:0]), (x[:0], y))]  # fmt: skip
    assert torch.equal(given[1], given[0])
    assert torch.equal(given[2], given[0])


def test_statistics_are_sums() -> None:
    first, second = torch.randn(10, 3) + 2, torch.randn(6, 3)
    component = create("dim=3")
    for x in (first, second):
        y, memo = component.propagate(x)
        component.store_stats(x, y, memo)
    both = torch.cat((first, second)).double()
    assert component.count == 16
    torch.testing.assert_close(component.stats_sum, both.sum(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(component.stats_sumsq, both.square().sum(0), rtol=1e-6, atol=1e-6)
    mean, variance = component.stats_mean, component.stats_var
    torch.testing.assert_close(mean, both.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(variance, both.var(0, correction=0), rtol=1e-5, atol=1e-6)


def test_test_mode_uses_the_stored_statistics() -> None:
    x = torch.randn(100, 4) * 3 + 5
    component = trained("dim=4 block-dim=2 target-rms=0.5", x)
    in_training, _ = component.propagate(x)
    component.set_test_mode(True)
    y, memo = component.propagate(x)
    torch.testing.assert_close(y, in_training, rtol=1e-4, atol=1e-5)
    assert memo is None
    one_row, _ = component.propagate(x[:1])
    torch.testing.assert_close(one_row, y[:1])


def test_test_mode_follows_changes_of_the_statistics() -> None:
    x = torch.randn(20, 3)
    component, other = trained("dim=3 test-mode=false", x), trained("dim=3", 5 * x + 1)
    component.set_test_mode(True)
    before, _ = component.propagate(x)
    component.add_(1.0, other)
    merged, _ = component.propagate(x)
    assert float((merged - before).abs().max()) > 0.1
    component.scale_(0.5)
    torch.testing.assert_close(component.propagate(x)[0], merged)
    torch.testing.assert_close(component.propagate(x.double())[0].float(), merged)


def test_test_mode_sees_statistics_in_the_place_of_those_that_are_gone() -> None:
    """Python may give a tensor the id of another one."""
    x = torch.randn(20, 3)
    component = trained("dim=3", x)
    component.set_test_mode(True)
    component.stats_sumsq = torch.full((3,), 100 * component.count, dtype=torch.float64)
    for mean in range(5):
        component.stats_sum = None
        component.stats_sum = torch.full((3,), mean * component.count, dtype=torch.float64)
        torch.testing.assert_close(component.propagate(x)[0], (x - mean) / (100.001 - mean**2) ** 0.5)


def test_zero_stats_does_nothing_in_test_mode() -> None:
    component = trained("dim=3", torch.randn(20, 3))
    component.set_test_mode(True)
    component.zero_stats()
    assert component.count == 20
    component.set_test_mode(False)
    component.zero_stats()
    assert component.count == 0
    assert component.stats_sumsq.tolist() == [0, 0, 0]


def test_scale_zero_removes_nan() -> None:
    component = trained("dim=2", torch.full((3, 2), math.nan))
    component.scale_(0.0)
    assert component.stats_sum.tolist() == [0, 0]


def test_properties_depend_on_the_mode() -> None:
    component = create("dim=3 test-mode=true")
    assert not component.properties & (Properties.STORES_STATS | Properties.USES_MEMO)
    component.set_test_mode(False)
    assert component.properties & Properties.STORES_STATS
    assert component.properties & Properties.USES_MEMO


def test_untrained_component_in_test_mode_warns_and_nearly_copies() -> None:
    component = create("dim=3 test-mode=true")
    x = torch.randn(4, 3)
    with pytest.warns(RuntimeWarning, match="has no statistics"):
        y, _ = component.propagate(x)
    torch.testing.assert_close(y, x / math.sqrt(1.001))
    assert component.count == 0


def test_block_dim_minus_one_means_dim() -> None:
    assert create("dim=4 block-dim=-1").block_dim == 4


FILE = (
    "<BatchNormComponent> <Dim> 2 <BlockDim> 2 <Epsilon> 0.001 <TargetRms> 1 <TestMode> F <Count> 4 "
    "<StatsMean> [ 1 2 ]\n<StatsVar> [ 1 1 ]\n</BatchNormComponent> "
)


@pytest.mark.parametrize("name", ["epsilon", "target_rms", "count", "stats_sum", "stats_sumsq"])
def test_test_mode_sees_what_is_changed_from_outside(name: str) -> None:
    component = trained("dim=3", torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * 2 + 1)
    component.set_test_mode(True)
    x = torch.ones(2, 3)
    before, _ = component.propagate(x)
    value = getattr(component, name)
    value.mul_(1.5) if isinstance(value, torch.Tensor) else setattr(component, name, value + 0.5)
    after, _ = component.propagate(x)
    assert not torch.equal(after, before)
    assert torch.equal(after, component.copy().propagate(x)[0])


def test_propagate_warns_of_gradients_that_it_does_not_record() -> None:
    component = create("dim=3")
    with pytest.warns(UserWarning, match="BatchNormComponent: input: this tensor requires grad"):
        y, _ = component.propagate(torch.ones(2, 3, requires_grad=True))
    assert not y.requires_grad


TestBatchNorm = component_contract(
    "BatchNormComponent",
    good=[*CONFIGS, *(partial(in_test_mode, config) for config in CONFIGS)],
    file=FILE,
    more_files=[
        lambda: create("dim=6 block-dim=3 epsilon=0.25 target-rms=0.5 test-mode=true"),
        lambda: trained("dim=12", torch.randn(30, 12) * 10 + 3),
    ],
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=0", "'dim' must be >= 1", "0"),
        ("dim=4 block-dim=3", "'block-dim' must divide dim=4, got 3", "3"),
        ("dim=4 block-dim=0", "'block-dim' must be >= 1, got 0", "0"),
        ("dim=4 epsilon=0", "'epsilon' must be > 0", "0"),
        ("dim=4 target-rms=-1", "'target-rms' must be > 0", "-1"),
        ("dim=4 test-mode=yes", "'test-mode' must be true or false", "yes"),
    ],
    bad_files=[
        ("<BlockDim> 2", "<BlockDim> 3", "<BlockDim> must divide dim=2, got 3"),
        ("<BlockDim> 2", "<BlockDim> 1", "<StatsMean> must have 1 elements, got 2"),
        ("<Epsilon> 0.001", "<Epsilon> 0", "<Epsilon> must be > 0, got 0"),
        ("<TargetRms> 1", "<TargetRms> -1", "<TargetRms> must be > 0, got -1"),
        ("[ 1 1 ]", "[ 1 ]", "<StatsVar> must have 2 elements, got 1"),
    ],
)
