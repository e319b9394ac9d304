"""TimeHeightConvolutionComponent: against the formula for many geometries and rows, configuration, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.model.components.time_blocks import TimeBlocks, order_rows, time_blocks
from nnet3.model.components.time_height_convolution import TimeHeightConvolutionComponent, row_convolution, suits_kernel
from tests.components.contract import component_contract, written
from tests.components.index_harness import Index, Lookup, check_against_oracle, index_case, rows_of, table

BASE = "num-filters-in=2 num-filters-out=3 bias-stddev=1 "
ALL = table(range(-30, 60), ns=range(4), xs=range(2))


def convolution(config: str) -> TimeHeightConvolutionComponent:
    component = components.create("TimeHeightConvolutionComponent", config, seed=1)
    assert isinstance(component, TimeHeightConvolutionComponent)
    return component


def oracle(component: TimeHeightConvolutionComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    model = component.model
    filters = component.linear_params.view(model.num_filters_out, len(model.offsets), model.num_filters_in)
    heights = []
    for height_out in range(model.height_out):
        y = component.bias_params
        for number, (time, height) in enumerate(model.offsets):
            row, height_in = lookup(n, t + time, x), height_out * model.height_subsample_out + height
            if row is not None and 0 <= height_in < model.height_in:
                y = y + filters[:, number] @ row.view(model.height_in, model.num_filters_in)[height_in]
        heights.append(y)
    return torch.cat(heights)


GEOMETRIES = {
    "3 x 3": "height-in=5 height-out=5 time-offsets=-1,0,1 height-offsets=-1,0,1",
    "valid": "height-in=6 height-out=4 time-offsets=-1,0,1 height-offsets=0,1,2",
    "subsampled": "height-in=7 height-out=4 height-subsample-out=2 time-offsets=-1,0,1 height-offsets=-1,0,1",
    "subsampled by 3": "height-in=9 height-out=3 height-subsample-out=3 time-offsets=0 height-offsets=-2,-1,0,1,2",
    "two taps, step 2": "height-in=8 height-out=4 height-subsample-out=2 time-offsets=0 height-offsets=0,1",
    "steps beyond the taps": "height-in=9 height-out=3 height-subsample-out=4 time-offsets=0 height-offsets=0,1",
    "holes in height": "height-in=8 height-out=8 time-offsets=-3,0 height-offsets=-4,-1,0,3",
    "listed": "height-in=6 height-out=6 offsets=0,0;-1,0;-1,-1;1,1;0,-2;0,1",
    "one height": "height-in=1 height-out=1 time-offsets=-1,2 height-offsets=0",
    "wider than high": "height-in=2 height-out=3 time-offsets=0 height-offsets=-2,-1,0,1",
}


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
def test_outputs_agree_with_the_oracle(geometry: str) -> None:
    component = convolution(BASE + geometry)
    check_against_oracle(component, table(range(4), ns=range(3)), ALL, oracle)
    check_against_oracle(component, table(range(0, 9, 3), ns=range(2)), ALL, oracle)
    check_against_oracle(component, table(range(0, 9, 2)), ALL, oracle)


ROW_SETS = {
    "missing at both ends": (table(range(6), ns=range(2)), table(range(6), ns=range(2))),
    "missing on one side": (table(range(6), ns=range(2)), table(range(-2, 6), ns=range(2))),
    "different ends": (
        np.concatenate([table(range(8)), table(range(4), ns=[2])]),
        np.concatenate([table(range(8)), table(range(4), ns=[2])]),
    ),
    "hole": (table(range(8), ns=range(2)), table([-1, 0, 1, 2, 4, 5, 6, 7, 8], ns=range(2))),
    "hole in one sequence": (table(range(6), ns=range(2)), np.delete(table(range(-1, 7), ns=range(2)), 7, axis=0)),
    "subsampled": (table(range(0, 12, 3), ns=range(2)), table(range(12), ns=range(2))),
    "subsampled, one sequence": (table(range(0, 12, 3)), table(range(12))),
    "one row": (table([3]), table([3])),
    "two times": (table([0, 7], ns=range(2), xs=range(2)), table([-1, 0, 7, 8], ns=range(2), xs=range(2))),
}


@pytest.mark.parametrize(("outputs", "available"), ROW_SETS.values(), ids=ROW_SETS.keys())
@pytest.mark.parametrize("times", ["-1,0,1 required-time-offsets=0", "-4,0,1,3 required-time-offsets=0"])
def test_missing_times_count_as_zero(outputs: np.ndarray, available: np.ndarray, times: str) -> None:
    component = convolution(f"{BASE} height-in=4 height-out=4 height-offsets=-1,0,1 time-offsets={times}")
    case = check_against_oracle(component, outputs, available, oracle)
    both = {tuple(row) for row in outputs.tolist()} & {tuple(row) for row in available.tolist()}
    assert (case.outputs[:, 1] > -100).sum() == len(both)


def test_missing_ends_need_no_padding() -> None:
    component = convolution(f"{BASE} {GEOMETRIES['3 x 3']} required-time-offsets=0")
    rows = table(range(6), ns=range(2))
    case = index_case(component, rows, rows)
    assert (case.inputs == rows).all()
    assert [block[1:] for block in case.plan.blocks.blocks] == [(2, 0, 0, -2, 1), (0, 0, 0, 0, 1), (0, -2, 2, 0, 1)]


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
@pytest.mark.parametrize("filters", ["num-filters-in=2 num-filters-out=3", "num-filters-in=160 num-filters-out=20"])
@pytest.mark.parametrize(
    "available",
    [ALL, table(range(9), ns=range(3)), table(range(-1, 9), ns=range(3))],
    ids=["all", "no ends", "one end"],
)
def test_both_ways_of_computing_agree(geometry: str, filters: str, available: np.ndarray) -> None:
    """In float32 on contiguous matrices regular cases go through the convolution of PyTorch."""
    component = convolution(f"{filters} bias-stddev=1 {geometry}")
    times = component.model.time_offsets
    component = convolution(f"{filters} bias-stddev=1 {geometry} required-time-offsets={min(times, key=abs)}")
    case = index_case(component, table(range(9), ns=range(3)), available)
    x, y_deriv = torch.randn(case.rows[0], component.input_dim), torch.randn(case.rows[1], component.output_dim)
    results = []
    for plan in (case.plan, replace(case.plan, regular=None)):
        y, x_deriv = torch.full_like(y_deriv, torch.nan), torch.full_like(x, torch.nan)
        component.forward(x, y, plan)
        component.backward(x, y, y_deriv, None, None, x_deriv, plan)
        results.append((y, x_deriv))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    is_product = len(component.model.offsets) == len(times) * len({height for _, height in component.model.offsets})
    assert (case.plan.regular is None) == (not is_product or geometry == GEOMETRIES["holes in height"])


def test_irregular_rows_are_no_ordinary_convolution() -> None:
    component = convolution(f"{BASE} {GEOMETRIES['3 x 3']}")
    for rows, is_regular in ((table(range(5), ns=range(2)), True), (table(range(0, 9, 3), ns=range(2)), False)):
        assert (index_case(component, rows, ALL).plan.regular is not None) == is_regular


def test_required_times_decide_what_is_computable() -> None:
    component = convolution(f"{BASE} {GEOMETRIES['3 x 3']} required-time-offsets=-1,0")
    case = index_case(component, table(range(6)), table(range(4)))
    assert case.outputs[:, 1].tolist() == [1, 2, 3]


def test_few_batched_products_cover_the_inner_heights() -> None:
    model = convolution("num-filters-in=2 num-filters-out=3 height-in=40 height-out=20 height-subsample-out=2"
                        " time-offsets=-1,0,1 height-offsets=-1,0,1").model  # fmt: skip
    for taps in model.taps:
        assert len(taps.forward) == 2  # the first height has two taps, all others three
        assert sum(piece.count for piece in taps.forward) == 20
        assert len(taps.backward) <= 4
        assert sum(piece.count for piece in taps.backward) == 40


def test_unit_filters_copy_the_input() -> None:
    component = convolution(
        "num-filters-in=3 num-filters-out=3 height-in=4 height-out=4 init-unit=true"
        " time-offsets=-1,0,1 height-offsets=-1,0,1"
    )
    case = index_case(component, table(range(5)), ALL)
    x, y = torch.randn(7, 12), torch.empty(5, 12)
    component.forward(x, y, case.plan)
    torch.testing.assert_close(y, x[1:6])


def test_update_is_preconditioned_on_both_sides() -> None:
    component = convolution(BASE + GEOMETRIES["3 x 3"] + " learning-rate=0.1 rank-in=3 rank-out=1")
    case = index_case(component, table(range(10), ns=range(2)), ALL)
    x, y_deriv = torch.randn(case.rows[0], 10), torch.randn(case.rows[1], 15)
    gradient, updated = component.gradient_copy(), component.copy()
    component.backward(x, torch.empty(0), y_deriv, None, gradient, None, case.plan)
    component.backward(x, torch.empty(0), y_deriv, None, updated, None, case.plan)
    plain = torch.cat([gradient.parameters()["linear_params"], gradient.parameters()["bias_params"][:, None]], dim=1)
    once, scale_in = component.preconditioner_in.precondition(plain)
    twice, scale_out = component.preconditioner_out.precondition(once.t().contiguous())
    expected = 0.1 * float(scale_in * scale_out) * twice.t()
    torch.testing.assert_close(updated.linear_params - component.linear_params, expected[:, :-1], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(updated.bias_params - component.bias_params, expected[:, -1], rtol=1e-3, atol=1e-5)
    assert not torch.allclose(expected, 0.1 * plain, rtol=0.01)


def test_written_file_is_read_back(tmp_path: Path) -> None:
    component = convolution(
        f"{BASE} {GEOMETRIES['listed']} required-time-offsets=0 alpha-out=2 rank-in=5 max-memory-mb=10"
        " l2-regularize=0.5"
    )
    for binary in (True, False):
        component.write(str(tmp_path / "a"), binary=binary)
        again = components.read(tmp_path / "a")
        again.write(str(tmp_path / "b"), binary=binary)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert isinstance(again, TimeHeightConvolutionComponent)
        assert again.info() == component.info()
        assert again.model == component.model
    assert again.model.offsets[0] == (-1, -1)
    assert "learning-rate=0.001, l2-regularize=0.5 num-filters-in=2" in again.info()
    text = (tmp_path / "a").read_text()
    (tmp_path / "a").write_text(text.replace("<LearningRate> 0.001 ", ""))
    without_rate = components.read(tmp_path / "a")
    assert isinstance(without_rate, TimeHeightConvolutionComponent)
    assert without_rate.learning_rate == 0.001


GOOD = f"{BASE} height-in=4 height-out=4 "


TestTimeHeightConvolution = component_contract(
    "TimeHeightConvolutionComponent",
    good=[BASE + GEOMETRIES["subsampled"]],
    rows=rows_of(table(range(3), ns=range(2)), ALL),
    file=written("TimeHeightConvolutionComponent", f"{GOOD} height-offsets=0 time-offsets=0,1"),
    bad_configs=[
        (GOOD, "'height-offsets=' is missing"),
        (f"{GOOD} height-offsets=0", "'time-offsets=' is missing"),
        (f"{GOOD} height-offsets=1,0 time-offsets=0", "'height-offsets' must be a list of integers in rising order"),
        (f"{GOOD} offsets=0,0;0", "'offsets' must be time,height;time,height;..., got '0'"),
        (f"{GOOD} offsets=0,0;1,0;0,0", "'offsets' has a pair twice"),
        (f"{GOOD} height-offsets=0 time-offsets=0 required-time-offsets=1", "must be among [0]"),
        (f"{GOOD} height-offsets=0 time-offsets=0,2147483647", "frames at most"),
        (f"{GOOD} height-offsets=4 time-offsets=0", "no output height can use the offset 0,4"),
        (f"{GOOD} height-offsets=1 time-offsets=0", "output height 3 has no offset of a required time"),
        (f"{GOOD} offsets=-1,1;0,-1;0,0 required-time-offsets=-1", "output height 3 has no offset of a required time"),
        (f"{GOOD} height-offsets=0 time-offsets=0 max-memory-mb=0", "'max-memory-mb' must be > 0"),
        (f"{GOOD} height-offsets=0 time-offsets=0 init-unit=true", "needs num-filters-in = num-filters-out"),
        (f"{GOOD} height-offsets=0 time-offsets=0 rank-out=0", "'rank-out' must be positive"),
        (f"{GOOD} height-offsets=0 time-offsets=0 num-minibatches-history=1", "must be > 1"),
        (f"{GOOD} height-offsets=0 time-offsets=0 offset=1", "unknown key 'offset'"),
    ],
    bad_files=[
        ("<Offsets> [ 0,0 1,0 ]", "<Offsets> [ 1,0 0,0 ]", "<Offsets> must be different pairs in rising order"),
        ("<RequiredTimeOffsets> [ 0 1 ]", "<RequiredTimeOffsets> [ 2 ]", "must be rising and among"),
        ("<HeightIn> 4", "<HeightIn> 3", "output height 3 has no offset"),
        ("<HeightIn> 4 <HeightOut> 4", "<HeightIn> 2147483647 <HeightOut> 2147483647", "must fit 32 bits"),
        ("<NumFiltersIn> 2", "<NumFiltersIn> 3", "<LinearParams> must be 3 x 6, got 3 x 4"),
        ("<AlphaInOut> 4 4", "<AlphaInOut> -4 4", "<AlphaInOut> must be >= 0"),
    ],
)


SIZES = "num-filters-in=2 num-filters-out=3 bias-stddev=1 "


def _component(config: str) -> TimeHeightConvolutionComponent:
    component = components.create("TimeHeightConvolutionComponent", SIZES + config, seed=1)
    assert isinstance(component, TimeHeightConvolutionComponent)
    return component


def _sizes(component: TimeHeightConvolutionComponent, times: range, num_sequences: int) -> tuple[int, int]:
    """Returns how many input and output rows there are."""
    read = {t + offset for t in times for offset in component.model.time_offsets}
    return num_sequences * len(read), num_sequences * len(times)


def _blocks(component: TimeHeightConvolutionComponent, times: range, num_sequences: int) -> TimeBlocks:
    offsets = component.model.time_offsets
    outputs = table(times, ns=range(num_sequences))
    inputs = table({t + offset for t in times for offset in offsets}, ns=range(num_sequences))
    return TimeBlocks.load(time_blocks(*order_rows(inputs, outputs, offsets), offsets), "cpu")


@pytest.mark.parametrize("num_sequences", [1, 3])
@pytest.mark.parametrize(
    "config",
    [
        "height-in=5 height-out=5 time-offsets=-1,0,1 height-offsets=-1,0,1",
        "height-in=6 height-out=4 time-offsets=-3,0,3 height-offsets=0,1,2",
        "height-in=7 height-out=4 height-subsample-out=2 time-offsets=0,1 height-offsets=-1,0,1",
        "height-in=9 height-out=5 height-subsample-out=2 time-offsets=0 height-offsets=-2,0,2",
    ],
)
def test_it_does_what_the_formula_says(config: str, num_sequences: int) -> None:
    component = _component(config)
    model, blocks = component.model, _blocks(component, range(9), num_sequences)
    sizes = _sizes(component, range(9), num_sequences)
    convolution = row_convolution(model, blocks, *sizes)
    assert convolution is not None
    x, y = torch.randn(sizes[0], model.input_dim), torch.empty(sizes[1], model.output_dim)
    convolution.forward(x, y, component.linear_params, component.bias_params, model)
    filters = component.linear_params.view(model.num_filters_out, len(model.offsets), model.num_filters_in)
    expected = component.bias_params.repeat(len(y), model.height_out, 1)
    reads = x.view(len(x), model.height_in, model.num_filters_in)
    y_deriv = torch.randn_like(y)
    back = torch.zeros_like(reads)
    for block in blocks.blocks:
        time = sorted(model.time_offsets)[sorted(b.offset for b in blocks.blocks).index(block.offset)]
        ins, outs = block.of_input(torch.arange(len(x))), block.of_output(torch.arange(len(y)))
        for number, (t, height) in enumerate(model.offsets):
            for out in range(model.height_out):
                source = out * model.height_subsample_out + height
                if t == time and 0 <= source < model.height_in:
                    expected[outs, out] += reads[ins, source] @ filters[:, number].t()
                    back[ins, source] += y_deriv.view(len(y), model.height_out, -1)[outs, out] @ filters[:, number]
    torch.testing.assert_close(y, expected.flatten(1), rtol=1e-4, atol=1e-4)
    x_deriv = torch.empty_like(x)
    convolution.backward_data(y_deriv, x_deriv, component.linear_params, model)
    torch.testing.assert_close(x_deriv, back.flatten(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        "height-in=6 height-out=6 offsets=0,0;0,1;1,0",
        "height-in=8 height-out=8 time-offsets=0 height-offsets=-4,-1,0,3",
        "height-in=5 height-out=5 time-offsets=-3,0,1 height-offsets=0",
    ],
)
def test_offsets_that_are_no_grid_have_none(config: str) -> None:
    component = _component(config)
    sizes = _sizes(component, range(9), 2)
    assert row_convolution(component.model, _blocks(component, range(9), 2), *sizes) is None


def test_rows_that_are_subsampled_have_none() -> None:
    component = _component("height-in=5 height-out=5 time-offsets=-1,0,1 height-offsets=0")
    sizes = _sizes(component, range(0, 12, 3), 2)
    assert row_convolution(component.model, _blocks(component, range(0, 12, 3), 2), *sizes) is None


def test_matrices_that_the_kernel_takes() -> None:
    whole = torch.zeros(4, 6)
    assert suits_kernel(whole, whole)
    assert not suits_kernel(whole, whole[:, 1:])
    assert not suits_kernel(whole.double())
