"""Convolution and pooling against torch.nn.functional and finite differences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nnet3 import cn
from nnet3.errors import Nnet3Error, ShapeError
from tests.cn.check_node import check_node, random

ROWS, COLS, CHANNELS, SAMPLES = 5, 6, 2, 3
images = cn.input("images", ROWS * COLS * CHANNELS)
OPTIONS = [
    {"window": (2, 3)},
    {"window": 3, "pad": True},
    {"window": (5, 3), "pad": True},
    {"window": (2, 2), "stride": 2},
    {"window": (3, 2), "stride": (2, 1), "pad": True},
    {"window": (2, 3), "stride": (3, 2), "pad": True},
]


def as_torch(value: torch.Tensor) -> torch.Tensor:
    """D x S to (S, channels, rows, columns)."""
    return value.T.reshape(-1, ROWS, COLS, CHANNELS).permute(0, 3, 1, 2)


def as_columns(value: torch.Tensor) -> torch.Tensor:
    return value.permute(0, 2, 3, 1).reshape(len(value), -1).T


def pair(value) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def margins(options) -> tuple[int, int]:
    return tuple(n // 2 for n in pair(options["window"])) if options.get("pad") else (0, 0)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_convolution(options) -> None:
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


def padded(value, options, fill):
    down, across = margins(options)
    return F.pad(as_torch(value), (across, across, down, down), value=fill)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_max_pooling(options) -> None:
    window, stride = pair(options["window"]), pair(options.get("stride", 1))
    node = cn.max_pooling(images, image=(ROWS, COLS, CHANNELS), **options)

    def formula(value):
        return as_columns(F.max_pool2d(padded(value, options, float("-inf")), window, stride))

    check_node(node, [random(ROWS * COLS * CHANNELS, SAMPLES)], formula)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_average_pooling(options) -> None:
    window, stride = pair(options["window"]), pair(options.get("stride", 1))
    node = cn.average_pooling(images, image=(ROWS, COLS, CHANNELS), **options)

    def formula(value):
        return as_columns(F.avg_pool2d(padded(value, options, 0.0), window, stride))

    check_node(node, [random(ROWS * COLS * CHANNELS, SAMPLES)], formula)


def test_of_equal_elements_the_first_has_the_gradient() -> None:
    node = cn.max_pooling(cn.input("i", 4), image=(2, 2), window=2)
    same = torch.ones(4, 1, dtype=torch.float64)
    check_node(node, [same], lambda value: value[:1] * 1, differences=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": (5, 5, 2), "window": 2}, "needs 50 rows"),
        ({"image": (5, 6, 2), "window": (7, 2)}, "do not fit"),
        ({"image": (5, 6, 2), "window": 0}, "expected image"),
        ({"image": 60, "window": 1}, "max_pooling: image must be 3 integers, got 60"),
        ({"image": (5, 6, 2), "window": 3.0}, r"max_pooling: window must be 2 integers, got \(3\.0, 3\.0\)"),
        ({"image": (5, 6, 2), "window": (3, 3), "stride": (0, 1)}, "expected image"),
        ({"image": (5, 6, 2), "window": (3, 3), "pad": 1}, "max_pooling: pad must be True or False, got 1"),
    ],
)
def test_images_that_do_not_fit(options, says) -> None:
    with pytest.raises(Nnet3Error, match=says):
        cn.max_pooling(images, **options)


def test_kernels_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"kernels of \(output channels\) x 8"):
        cn.convolution(cn.parameter("W", (4, 4)), images, image=(5, 6, 2), window=2)
