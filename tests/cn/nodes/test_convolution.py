"""Convolution against torch.nn.functional and finite differences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nnet3 import cn
from nnet3.errors import Nnet3Error, ShapeError
from tests.cn.check_node import check_node, random
from tests.cn.nodes.images import CHANNELS, COLS, OPTIONS, ROWS, SAMPLES, as_columns, as_torch, images, margins, pair
from tests.seeds import RANDOM


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


TRANSPOSED = [
    *OPTIONS,
    {"window": (3, 2), "stride": (2, 3), "extra": (1, 2)},
    {"window": 3, "stride": 2, "pad": True, "extra": 1},
    {"window": (3, 2), "dilation": (2, 3), "stride": (1, 2)},
    {"window": 3, "dilation": 2, "stride": 2, "pad": True, "extra": (0, 1)},
]


def _margins(options) -> tuple[int, int]:
    across = [1 + (k - 1) * d for k, d in zip(pair(options["window"]), pair(options.get("dilation", 1)), strict=True)]
    return margins({**options, "window": tuple(across)})


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_transposed_convolution_is_that_of_torch(options, has_bias) -> None:
    window, stride, dilation = (pair(options.get(name, 1)) for name in ("window", "stride", "dilation"))
    num_weights = window[0] * window[1] * 4
    W, b = cn.parameter("W", (CHANNELS, num_weights)), cn.parameter("b", (4, 1))
    operands = [random(CHANNELS, num_weights), random(ROWS * COLS * CHANNELS, SAMPLES), random(4, 1)]
    node = cn.transposed_convolution(W, images, b if has_bias else None, image=(ROWS, COLS, CHANNELS), **options)

    def formula(kernels, value, bias=None):
        weight = kernels.reshape(CHANNELS, *window, 4).permute(0, 3, 1, 2)
        extra = pair(options.get("extra", 0))
        plain = None if bias is None else bias[:, 0]
        found = F.conv_transpose2d(as_torch(value), weight, plain, stride, _margins(options), extra, 1, dilation)
        return as_columns(found)

    check_node(node, operands[: 2 + has_bias], formula)


def test_a_transposed_convolution_is_the_gradient_of_the_convolution() -> None:
    """Of the same kernels and options: <V, conv(K, Y)> = <convT(K, V), Y>."""
    options = {"window": (3, 2), "stride": (2, 1), "pad": True, "dilation": (1, 2)}
    K, Y = cn.parameter("K", (4, 12)), cn.input("Y", 60)
    convolved = cn.convolution(K, Y, image=(5, 6, 2), **options)
    V = cn.input("V", convolved.shape.rows)
    back = cn.transposed_convolution(K, V, image=(3, 6, 4), **options)
    net = cn.Network(outputs={"there": convolved, "back": back}, dtype=torch.float64)
    given = {"Y": RANDOM.normal(size=(60, 1)), "V": RANDOM.normal(size=(72, 1))}
    there, again = net.evaluate(["there", "back"], given)
    assert (there * given["V"]).sum() == pytest.approx((again * given["Y"]).sum())


def test_transposed_convolutions_that_cannot_be() -> None:
    def made(kernels: cn.Node, **options: object) -> cn.Node:
        return cn.transposed_convolution(kernels, images, **{"image": (5, 6, 2), "window": 2, **options})

    with pytest.raises(ShapeError, match=r"needs kernels of 2 x \(4 times the output channels\): 'W' is 2 x 6"):
        made(cn.parameter("W", (2, 6)))
    with pytest.raises(ShapeError, match="needs kernels of 2 x"):
        made(cn.parameter("W", (4, 8)))
    with pytest.raises(ShapeError, match="images of 5 x 5 x 2 needs 50 rows"):
        made(cn.parameter("W", (2, 8)), image=(5, 5, 2))
    with pytest.raises(ShapeError, match=r"extra from 0 to less than the stride, got \(2, 2\)"):
        made(cn.parameter("W", (2, 8)), stride=2, extra=2)
    with pytest.raises(ShapeError, match="needs a bias of 2 x 1"):
        cn.transposed_convolution(
            cn.parameter("W", (2, 8)), images, cn.parameter("b", (3, 1)), image=(5, 6, 2), window=2
        )


def padded(value, options, fill):
    down, across = margins(options)
    return F.pad(as_torch(value), (across, across, down, down), value=fill)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_max_pooling_is_that_of_torch(options) -> None:
    window, stride = pair(options["window"]), pair(options.get("stride", 1))
    node = cn.max_pooling(images, image=(ROWS, COLS, CHANNELS), **options)

    def formula(value):
        return as_columns(F.max_pool2d(padded(value, options, float("-inf")), window, stride))

    check_node(node, [random(ROWS * COLS * CHANNELS, SAMPLES)], formula)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_average_pooling_is_that_of_torch(options) -> None:
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
