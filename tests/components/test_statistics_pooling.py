"""StatisticsPoolingComponent: against its formula, configuration and files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.model.components.statistics import StatisticsPoolingComponent
from tests.components.contract import component_contract, written
from tests.components.index_harness import Index, Lookup, check_against_oracle, table

POOLING = "StatisticsPoolingComponent"
ALL = table(range(-30, 60), ns=range(4), xs=range(2))
HOLES = np.delete(ALL, np.arange(1, len(ALL), 3), axis=0)


def pooling_oracle(component: StatisticsPoolingComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    times = range(t - component.left_context, t + component.right_context + 1, component.input_period)
    total = torch.stack([row for row in (lookup(n, time, x) for time in times) if row is not None]).sum(0)
    count = total[0].detach()
    values = total[1:] / count
    if component.output_stddevs:
        mean, square = values.chunk(2)
        variance = square - mean**2
        variance = variance + (variance.clamp(min=component.variance_floor) - variance).detach()
        values = torch.cat([mean, variance.sqrt()])
    return torch.cat([count.log().expand(component.num_log_count_features), values])


@pytest.mark.parametrize("available", [ALL, HOLES, table(range(6), ns=range(4))], ids=["all", "holes", "short"])
@pytest.mark.parametrize(
    "outputs",
    [table([0], ns=range(3)), table(range(-6, 12, 2), ns=range(2)), table([4, 6, 50], ns=(3, 1), xs=range(2))[::-1]],
    ids=["one each", "moving", "unsorted"],
)
@pytest.mark.parametrize(
    "config",
    [
        "left-context=4 right-context=4",
        "left-context=0 right-context=20 num-log-count-features=2",
        "left-context=4 right-context=0 input-period=2 output-stddevs=true",
        "left-context=2 right-context=6 input-period=2 output-stddevs=true num-log-count-features=1",
    ],
)
def test_pooling_agrees_with_the_oracle(config: str, outputs: np.ndarray, available: np.ndarray) -> None:
    component = components.create(POOLING, f"input-dim=5 variance-floor=0.05 {config}")
    check_against_oracle(component, outputs, available, pooling_oracle, positive_input=True)


TestStatisticsPooling = component_contract(
    POOLING,
    file=written(POOLING, "input-dim=3 left-context=1 right-context=1"),
    bad_configs=[
        ("input-dim=3 left-context=0 right-context=100000", "not 100001 inputs over 100001 frames"),
        ("input-dim=3 right-context=1", "'left-context=' is missing"),
        ("input-dim=3 left-context=0 right-context=0", "'right-context' must not be 0 if left-context is"),
        ("input-dim=3 left-context=0 right-context=3 input-period=2", "'right-context' must be a multiple of"),
        ("input-dim=4 left-context=0 right-context=1 output-stddevs=true", "needs an even input-dim - 1"),
        ("input-dim=1 left-context=0 right-context=3", "must not be 0 if input-dim is 1"),
        ("input-dim=3 left-context=0 right-context=3 variance-floor=1", "must be > 0 and < 1"),
    ],
    bad_files=[
        ("<InputPeriod> 1", "<InputPeriod> 3", "a multiple of"),
        ("<InputDim> 3", "<InputDim> 0", "must be >= 1"),
    ],
)
