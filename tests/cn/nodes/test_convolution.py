"""Convolution against torch.nn.functional and finite differences."""

from __future__ import annotations

import pytest
import torch.nn.functional as F

from nnet3 import cn
from nnet3.errors import ShapeError
from tests.cn.check_node import check_node, random
from tests.cn.nodes.images import CHANNELS, COLS, OPTIONS, ROWS, SAMPLES, as_columns, as_torch, images, margins, pair


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients_are_those_of_conv2d(options) -> None:
    window, stride = pair(options["window"]), pair(options.get("stride", 1))
    num_weights = window[0] * window[1] * CHANNELS
    W = cn.parameter("W", (4, num_weights))
    node = cn.convolution(W, images, image=(ROWS, COLS, CHANNELS), **options)

    def formula(kernels, value):
        weight = kernels.reshape(4, *window, CHANNELS).permute(0, 3, 1, 2)
        return as_columns(F.conv2d(as_torch(value), weight, stride=stride, padding=margins(options)))

    check_node(node, [random(4, num_weights), random(ROWS * COLS * CHANNELS, SAMPLES)], formula)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_convolution_with_a_bias(options) -> None:
    window, stride = pair(options["window"]), pair(options.get("stride", 1))
    num_weights = window[0] * window[1] * CHANNELS
    W, b = cn.parameter("W", (4, num_weights)), cn.parameter("b", (4, 1))
    node = cn.convolution(W, images, b, image=(ROWS, COLS, CHANNELS), **options)

    def formula(kernels, value, bias):
        weight = kernels.reshape(4, *window, CHANNELS).permute(0, 3, 1, 2)
        return as_columns(F.conv2d(as_torch(value), weight, bias[:, 0], stride=stride, padding=margins(options)))

    check_node(node, [random(4, num_weights), random(ROWS * COLS * CHANNELS, SAMPLES), random(4, 1)], formula)


def test_a_bias_that_does_not_fit() -> None:
    W = cn.parameter("W", (4, 8))
    for bias in (cn.parameter("b", (3, 1)), cn.parameter("b", (4, 2)), cn.input("b", 4)):
        with pytest.raises(ShapeError, match=r"needs a bias of 4 x 1, .*: 'W' is 4 x 8, 'images' is 60 x S, 'b' is"):
            cn.convolution(W, images, bias, image=(5, 6, 2), window=2)


def test_kernels_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"kernels of \(output channels\) x 8"):
        cn.convolution(cn.parameter("W", (4, 4)), images, image=(5, 6, 2), window=2)


@pytest.mark.parametrize("pad", [False, True])
def test_dilation_is_that_of_conv2d(pad) -> None:
    W = cn.parameter("W", (4, 3 * 2 * CHANNELS))
    node = cn.convolution(
        W, images, image=(ROWS, COLS, CHANNELS), window=(3, 2), dilation=(2, 3), stride=(1, 2), pad=pad
    )
    padding = (2, 2) if pad else 0

    def formula(kernels, value):
        weight = kernels.reshape(4, 3, 2, CHANNELS).permute(0, 3, 1, 2)
        return as_columns(F.conv2d(as_torch(value), weight, stride=(1, 2), padding=padding, dilation=(2, 3)))

    check_node(node, [random(4, 3 * 2 * CHANNELS), random(ROWS * COLS * CHANNELS, SAMPLES)], formula)
