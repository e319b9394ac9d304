"""DistributeComponent: index rule, derivatives, configuration and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.errors import ModelFormatError
from nnet3.model.components.distribute import DistributeComponent
from tests.components.contract import component_contract
from tests.components.index_harness import Index, Lookup, check_against_oracle, index_case, table

ALL = table(range(5), ns=range(3), xs=range(-2, 3))


def distribute(config: str) -> DistributeComponent:
    component = components.create("DistributeComponent", config)
    assert isinstance(component, DistributeComponent)
    return component


def oracle(component: DistributeComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    row = lookup(n, t, x // component.num_blocks)
    assert row is not None
    start = x % component.num_blocks * component.output_dim
    return row[start : start + component.output_dim]


@pytest.mark.parametrize(
    "outputs",
    [
        table(range(4), ns=range(2), xs=range(6)),
        table(range(4), xs=(-1, 5)),
        table([2])[::-1],
        np.array([(0, 1, -4), (0, 1, 4), (2, 0, 0)], np.int32),
    ],
)
def test_outputs_agree_with_the_oracle(outputs: np.ndarray) -> None:
    check_against_oracle(distribute("input-dim=6 output-dim=2"), outputs, ALL, oracle)
    check_against_oracle(
        distribute("input-dim=4 output-dim=4"), outputs, table(range(5), ns=range(3), xs=range(-4, 6)), oracle
    )


def test_a_worked_example_has_its_inputs_and_blocks() -> None:
    case = index_case(distribute("input-dim=6 output-dim=2"), table([0], xs=(-1, 5)), ALL)
    assert case.inputs[:, 2].tolist() == [-1, 1]
    assert case.plan.block.tolist() == [2, 2]


def test_written_file_is_read_back(tmp_path: Path) -> None:
    component = distribute("input-dim=6 output-dim=2")
    for binary in (True, False):
        component.write(str(tmp_path / "a"), binary=binary)
        assert components.read(tmp_path / "a").info() == "DistributeComponent, input-dim=6, output-dim=2"
    text = (tmp_path / "a").read_text()
    assert text == "<DistributeComponent> <InputDim> 6 <OutputDim> 2 </DistributeComponent> \n"
    (tmp_path / "a").write_text(text.replace("<OutputDim> 2", "<OutputDim> 4"))
    with pytest.raises(ModelFormatError, match="must divide input-dim=6, got 4"):
        components.read(tmp_path / "a")


def test_blocks_that_nobody_reads_get_no_derivative() -> None:
    component = distribute("input-dim=6 output-dim=2")
    case = index_case(component, table([0], xs=[1]), ALL)
    x_deriv = torch.full((1, 6), torch.nan)
    component.backward(torch.empty(0), torch.empty(0), torch.ones(1, 2), None, None, x_deriv, case.plan)
    assert x_deriv.tolist() == [[0, 0, 1, 1, 0, 0]]


TestDistribute = component_contract(
    "DistributeComponent",
    bad_configs=[
        ("input-dim=6", "'output-dim=' is missing"),
        ("input-dim=6 output-dim=4", "'output-dim' must divide input-dim=6, got 4"),
        ("input-dim=6 output-dim=0", "'output-dim' must be >= 1"),
    ],
)
