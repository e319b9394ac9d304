"""NaNs and infinities in a model are told when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.errors import ModelFormatError
from nnet3.model.nnet.model_file import num_not_finite

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=3
component name=norm type=BatchNormComponent dim=3
component-node name=affine component=affine input=input
component-node name=norm component=norm input=affine
output-node name=output input=norm
"""


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_damaged_model_is_read_with_a_warning(tmp_path: Path, value: float) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    nnet.save(tmp_path / "good.raw")
    assert nnet3.load(tmp_path / "good.raw").warnings == []
    parameters = nnet.components["affine"].parameters()
    parameters["linear_params"][0, 1] = value
    parameters["bias_params"][:2] = -value
    nnet.save(tmp_path / "bad.raw")
    damaged = nnet3.load(tmp_path / "bad.raw")
    assert damaged.warnings == [
        "component 'affine' has 3 numbers that are NaN or infinite: its outputs cannot be trusted"
    ]
    assert [num_not_finite(component) for component in damaged.components.values()] == [3, 0]


def test_infinities_that_cancel_in_a_sum_are_counted() -> None:
    component = nnet3.Nnet.from_config(CONFIG).components["affine"]
    component.parameters()["bias_params"][:] = torch.tensor([float("inf"), float("-inf"), 3e38])
    assert num_not_finite(component) == 2


def test_a_nan_in_text_is_an_error(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    nnet.components["affine"].parameters()["bias_params"][0] = float("nan")
    nnet.save(tmp_path / "bad.txt", binary=False)
    with pytest.raises(ModelFormatError, match="a NaN is not allowed in a vector or matrix"):
        nnet3.load(tmp_path / "bad.txt")
