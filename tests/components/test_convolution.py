"""ConvolutionComponent: the formula itself, derivatives, configuration and files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import components
from nnet3.errors import ConfigError
from nnet3.kaldi_io import Writer
from nnet3.model.components.convolution import ConvolutionComponent
from tests.components.contract import component_contract, written
from tests.components.finite_differences import check_derivatives

SIZES = "input-x-dim=5 input-y-dim=4 input-z-dim=2 filt-x-dim=3 filt-y-dim=2 filt-x-step=2 filt-y-step=1"


def convolution(config: str) -> ConvolutionComponent:
    component = components.create("ConvolutionComponent", config, seed=1)
    assert isinstance(component, ConvolutionComponent)
    return component


@pytest.mark.parametrize("order", ["zyx", "yzx"])
def test_output_is_the_sum_over_each_patch(order: str) -> None:
    component = convolution(f"{SIZES} num-filters=3 input-vectorization-order={order}")
    row = torch.randn(40)
    y, _ = component.propagate(row[None])
    picture = row.view(5, 4, 2) if order == "zyx" else row.view(5, 2, 4).transpose(1, 2)  # x, y, z
    assert component.output_dim == 2 * 3 * 3
    for px in range(2):
        for py in range(3):
            patch = picture[2 * px : 2 * px + 3, py : py + 2].reshape(-1)
            expected = component.filter_params @ patch + component.bias_params
            start = (px * 3 + py) * 3
            torch.testing.assert_close(y[0, start : start + 3], expected)


@pytest.mark.parametrize("order", ["zyx", "yzx"])
def test_derivatives_are_those_of_finite_differences(order: str) -> None:
    check_derivatives(convolution(f"{SIZES} num-filters=3 input-vectorization-order={order}"), rows=4)


def test_parameters_from_a_matrix_file(tmp_path: Path) -> None:
    matrix = torch.randn(3, 13)
    for columns, message in ((13, ""), (12, "the matrix must have 13 columns, got 12")):
        writer = Writer(binary=True)
        writer.header()
        writer.matrix(matrix[:, :columns])
        writer.write_to(tmp_path / "matrix")
        config = f"{SIZES} matrix={tmp_path}/matrix"
        if message:
            with pytest.raises(ConfigError, match=message):
                convolution(config)
            continue
        component = convolution(config)
        assert torch.equal(component.filter_params, matrix[:, :12])
        assert torch.equal(component.bias_params, matrix[:, 12])


def test_is_gradient_at_the_end_of_a_file_overrides_the_header(tmp_path: Path) -> None:
    component = convolution(f"{SIZES} num-filters=3").gradient_copy()
    component.write(str(tmp_path / "component"), binary=False)
    text = (tmp_path / "component").read_text()
    assert text.count("<IsGradient> T") == 2
    (tmp_path / "component").write_text(text.replace("<IsGradient> T </Conv", "<IsGradient> F </Conv"))
    again = components.read(tmp_path / "component")
    assert isinstance(again, ConvolutionComponent)
    assert not again.is_gradient


TestConvolution = component_contract(
    "ConvolutionComponent",
    good=[f"{SIZES} num-filters=3 input-vectorization-order={order}" for order in ("zyx", "yzx")],
    rows=4,
    file=written("ConvolutionComponent", f"{SIZES} num-filters=3"),
    bad_configs=[
        (SIZES, "'num-filters=' is missing"),
        (SIZES.replace("filt-x-dim=3", "filt-x-dim=6"), "'filt-x-dim' must be <= input-x-dim=5, got 6"),
        (SIZES.replace("filt-x-step=2", "filt-x-step=3"), "'filt-x-step' must divide input-x-dim - filt-x-dim = 2"),
        (SIZES.replace("filt-y-step=1", "filt-y-step=0"), "'filt-y-step' must be >= 1"),
        (f"{SIZES} num-filters=3 input-vectorization-order=xyz", "must be zyx or yzx, got 'xyz'"),
        (f"{SIZES} matrix=/nowhere/matrix", "/nowhere/matrix"),
    ],
    bad_files=[
        ("<FiltXStep> 2", "<FiltXStep> 0", "<FiltXStep> must be >= 1"),
        ("<FiltYDim> 2", "<FiltYDim> 7", "<FiltYDim> must be <= input-y-dim=4, got 7"),
        ("<InputZDim> 2", "<InputZDim> 3", "<FilterParams> must be rows x 18, got 3 x 12"),
        ("<InputVectorization> 1", "<InputVectorization> 2", "<InputVectorization> must be 0 or 1"),
    ],
)
