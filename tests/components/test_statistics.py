"""StatisticsExtractionComponent: against its formula, configuration and files; both statistics by a worked example."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.model.components.statistics import StatisticsExtractionComponent
from tests.components.contract import component_contract, written
from tests.components.index_harness import Index, Lookup, check_against_oracle, index_case, table

EXTRACTION, POOLING = "StatisticsExtractionComponent", "StatisticsPoolingComponent"
ALL = table(range(-30, 60), ns=range(4), xs=range(2))
HOLES = np.delete(ALL, np.arange(1, len(ALL), 3), axis=0)


def extraction_oracle(component: StatisticsExtractionComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    start = t // component.output_period * component.output_period
    times = range(start, start + component.output_period, component.input_period)
    rows = torch.stack([row for row in (lookup(n, time, x) for time in times) if row is not None])
    parts = [torch.full((1,), float(len(rows)), dtype=rows.dtype), rows.sum(0)]
    return torch.cat(parts + [rows.square().sum(0)] * component.include_variance)


@pytest.mark.parametrize("available", [ALL, HOLES], ids=["all", "holes"])
@pytest.mark.parametrize(
    "outputs",
    [
        table(range(-4, 8, 4), ns=range(3)),
        table([0]),
        table([-4, 4, 16], ns=(0, 2), xs=range(2))[::-1],
        np.concatenate([table(range(0, 16, 4)), table([4], ns=[1])]),
    ],
    ids=["regular", "one", "unsorted", "different lengths"],
)
@pytest.mark.parametrize("periods", ["", "output-period=4", "input-period=2 output-period=4", "output-period=2"])
def test_extraction_agrees_with_the_oracle(periods: str, outputs: np.ndarray, available: np.ndarray) -> None:
    for variance in ("true", "false"):
        component = components.create(EXTRACTION, f"input-dim=3 include-variance={variance} {periods}")
        check_against_oracle(component, outputs, available, extraction_oracle)


def test_a_worked_example_has_count_sum_and_squares() -> None:
    extraction = components.create(EXTRACTION, "input-dim=1 output-period=2")
    case = index_case(extraction, table([0]), table([0, 1]))
    row = torch.empty(1, 3)
    extraction.forward(torch.tensor([[1.0], [3.0]]), row, case.plan)
    assert row.tolist() == [[2, 4, 10]]
    pooling = components.create(
        POOLING,
        "input-dim=3 input-period=2 left-context=2 right-context=0 num-log-count-features=1 output-stddevs=true",
    )
    case = index_case(pooling, table([0]), table([0]))
    y = torch.empty(1, 3)
    pooling.forward(row, y, case.plan)
    torch.testing.assert_close(y, torch.tensor([[math.log(2.0), 2.0, 1.0]]))


def test_what_is_computable() -> None:
    extraction = components.create(EXTRACTION, "input-dim=1 output-period=4")
    case = index_case(extraction, table([-4, 0, 4, 8]), table([-1, 4, 5]))
    assert case.outputs[:, 1].tolist() == [-4, 4]
    pooling = components.create(POOLING, "input-dim=3 input-period=2 left-context=2 right-context=2")
    case = index_case(pooling, table(range(-5, 5)), table([0, 1]))
    assert case.outputs[:, 1].tolist() == [-2, 0, 2]  # other multiples of 2 have no input, odd times are not allowed


def test_variance_below_the_floor() -> None:
    pooling = components.create(
        POOLING, "input-dim=3 left-context=1 right-context=1 output-stddevs=true variance-floor=0.25"
    )
    case = index_case(pooling, table([0]), table([0]))
    y = torch.empty(1, 2)
    pooling.forward(torch.tensor([[1.0, 3.0, 9.0]]), y, case.plan)
    assert y.tolist() == [[3.0, 0.5]]


def deviations(x: Tensor) -> Tensor:
    """What pooling gives for each sequence of frames x (sequences, frames, dim), after extraction."""
    sequences, frames, dim = x.shape
    rows = table(range(frames), ns=range(sequences))
    extraction = components.create(EXTRACTION, f"input-dim={dim}")
    sums, count = x.new_empty(len(rows), 2 * dim + 1), max(frames - 1, 1)
    extraction.forward(x.transpose(0, 1).flatten(0, 1), sums, index_case(extraction, rows, rows).plan)
    pooling = components.create(
        POOLING,
        f"input-dim={2 * dim + 1} left-context={count} right-context=0 output-stddevs=true variance-floor=2e-10",
    )
    y = x.new_empty(sequences, 2 * dim)
    pooling.forward(sums, y, index_case(pooling, rows, table([frames - 1], ns=range(sequences))).plan)
    return y


@pytest.mark.parametrize("frames", [1, 2, 4])
def test_frames_without_variance_give_the_floor(frames: int) -> None:
    """The mean's square is rounded as the squares were, so that they cancel; a fused product leaves their rounding."""
    x = torch.randn(8, 1, 40, dtype=torch.float64).float().expand(8, frames, 40)
    y = deviations(x)
    assert torch.equal(y[:, 40:], torch.full((8, 40), 2e-10).sqrt())
    wanted = deviations(x.double())
    assert float((y.double() - wanted).norm() / wanted.norm()) < 1e-7


def test_written_files_are_read_back(tmp_path: Path) -> None:
    for type_name, config, text in (
        (EXTRACTION, "input-dim=3 input-period=2 output-period=4 include-variance=false",
         "<InputDim> 3 <InputPeriod> 2 <OutputPeriod> 4 <IncludeVarinance> F "),
        (POOLING, "input-dim=3 input-period=2 left-context=0 right-context=4 num-log-count-features=1",
         "<InputDim> 3 <InputPeriod> 2 <LeftContext> 0 <RightContext> 4 <NumLogCountFeatures> 1 <OutputStddevs> F "
         "<VarianceFloor> 1e-10 "),
    ):  # fmt: skip
        component = components.create(type_name, config)
        component.write(str(tmp_path / "text"), binary=False)
        assert (tmp_path / "text").read_text() == f"<{type_name}> {text}</{type_name}> \n"
        again = components.read(tmp_path / "text")
        assert again.info() == component.info()
        component.write(str(tmp_path / "a"))
        again.write(str(tmp_path / "b"))
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


TestStatisticsExtraction = component_contract(
    EXTRACTION,
    file=written(EXTRACTION, "input-dim=3"),
    bad_configs=[
        ("", "'input-dim=' is missing"),
        ("input-dim=3 input-period=2 output-period=3", "a multiple of input-period (2)"),
        ("input-dim=3 output-period=0", "'output-period' must be >= 1"),
        ("input-dim=3 output-period=100001", "100000 inputs over 16777216 frames at most, not 100001"),
    ],
    bad_files=[
        ("<InputPeriod> 1", "<InputPeriod> 2", "<OutputPeriod> must be a multiple"),
        ("<OutputPeriod> 1", "<OutputPeriod> 2147483647", "not 2147483647 inputs over"),
    ],
)
