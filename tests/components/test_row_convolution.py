"""A convolution over rows as one 2-D convolution: the same numbers, or none where it would not be the same."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from nnet3.components.row_convolution import row_convolution, suits_kernel
from nnet3.components.time_blocks import TimeBlocks, order_rows, time_blocks
from nnet3.components.time_height_convolution import TimeHeightConvolutionComponent
from tests.components.index_harness import table

SIZES = "num-filters-in=2 num-filters-out=3 bias-stddev=1 "


def _component(config: str) -> TimeHeightConvolutionComponent:
    component = components.create("TimeHeightConvolutionComponent", SIZES + config, seed=1)
    assert isinstance(component, TimeHeightConvolutionComponent)
    return component


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
    convolution = row_convolution(model, blocks)
    assert convolution is not None
    x = torch.randn(blocks.num_input_rows, model.input_dim)
    y = torch.empty(blocks.num_output_rows, model.output_dim)
    convolution.forward(x, y, component.linear_params, component.bias_params, model)
    filters = component.linear_params.view(model.num_filters_out, len(model.offsets), model.num_filters_in)
    expected = component.bias_params.repeat(len(y), model.height_out, 1)
    reads = x.view(len(x), model.height_in, model.num_filters_in)
    y_deriv = torch.randn_like(y)
    back = torch.zeros_like(reads)
    for block in blocks.blocks:
        time = sorted(model.time_offsets)[sorted(b.offset for b in blocks.blocks).index(block.offset)]
        ins = slice(block.input_start, block.input_start + block.num_rows)
        outs = slice(block.output_start, block.output_start + block.num_rows)
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
    assert row_convolution(component.model, _blocks(component, range(9), 2)) is None


def test_rows_that_are_subsampled_have_none() -> None:
    component = _component("height-in=5 height-out=5 time-offsets=-1,0,1 height-offsets=0")
    assert row_convolution(component.model, _blocks(component, range(0, 12, 3), 2)) is None


def test_matrices_that_the_kernel_takes() -> None:
    whole = torch.zeros(4, 6)
    assert suits_kernel(whole, whole)
    assert not suits_kernel(whole, whole[:, 1:])
    assert not suits_kernel(whole.double())
