"""Plus, minus, element_times: values, gradients, expansion by repetition, shapes that do not fit."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from nnet3.errors import ShapeError
from tests.cn.check_node import check_node, random

FUNCTIONS = {cn.plus: torch.add, cn.minus: torch.sub, cn.element_times: torch.mul}
SAMPLES = 6


def operand(name: str, shape: tuple[int, int | None]):
    rows, cols = shape
    return cn.input(name, rows) if cols is None else cn.parameter(name, (rows, cols))


def repeated(matrix: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    return matrix.repeat(rows // matrix.shape[0], cols // matrix.shape[1])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, None), (3, None)),
        ((3, None), (3, 1)),
        ((3, 1), (3, None)),
        ((3, None), (1, None)),
        ((1, None), (3, None)),
        ((3, None), (1, 1)),
        ((1, None), (3, 1)),
        ((3, 4), (3, 4)),
        ((3, 4), (3, 2)),
        ((3, 2), (3, 4)),
        ((3, 4), (1, 2)),
        ((1, 4), (3, 2)),
        ((1, 1), (3, 4)),
    ],
)
def test_operands_with_one_row_or_column_are_repeated(function, x, y) -> None:
    node = function(operand("x", x), operand("y", y))
    matrices = [random(shape[0], shape[1] or SAMPLES, seed=i) for i, shape in enumerate((x, y))]
    rows, cols = (max(m.shape[axis] for m in matrices) for axis in (0, 1))
    formula = FUNCTIONS[function]
    check_node(node, matrices, lambda a, b: formula(repeated(a, rows, cols), repeated(b, rows, cols)))


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ((3, None), (4, None), "as many rows"),
        ((3, None), (3, 2), "repeat over samples"),
        ((3, 4), (3, 3), "multiple"),
    ],
)
def test_what_does_not_fit_is_named(x, y, says) -> None:
    with pytest.raises(ShapeError, match=says) as caught:
        cn.plus(operand("one", x), operand("other", y), name="both")
    message = str(caught.value)
    assert "'one' is" in message
    assert "'other' is" in message
    assert "'both'" in message
    assert f"{__file__}:" in message
    assert "cn.plus(operand" in message
