"""Pooling against torch.nn.functional and finite differences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nnet3 import cn
from tests.cn.check_node import check_node, random
from tests.cn.nodes.images import CHANNELS, COLS, OPTIONS, ROWS, SAMPLES, as_columns, as_torch, images, margins, pair


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
