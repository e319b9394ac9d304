"""SumGroupComponent and PermuteComponent."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from nnet3 import components
from nnet3.errors import ModelFormatError
from nnet3.model.components.columns import PermuteComponent, SumGroupComponent
from tests.components.component_text import (
    check_round_trip,
    from_bytes,
    from_text,
)
from tests.components.contract import component_contract
from tests.components.finite_differences import check_derivatives


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_sum_group_sums_each_group(sizes: list[int]) -> None:
    x = torch.arange(2.0 * sum(sizes)).view(2, -1)
    y, _ = SumGroupComponent(np.array(sizes)).propagate(x)
    expected = torch.stack([group.sum(1) for group in x.split(sizes, dim=1)], 1)
    torch.testing.assert_close(y, expected)


def test_nan_stays_in_its_group() -> None:
    y, _ = components.create("SumGroupComponent", "sizes=1,2,1").propagate(torch.tensor([[1, torch.nan, 1, 4]]))
    torch.testing.assert_close(y, torch.tensor([[1, torch.nan, 4]]), equal_nan=True)


def test_old_sum_group_files_end_with_the_opening_token() -> None:
    component = from_text("<SumGroupComponent> <Sizes> [ 1 2 ]\n<SumGroupComponent> ")
    assert (component.input_dim, component.output_dim) == (3, 2)


@given(st.permutations(range(7)))
def test_permute_reorders_columns_and_derivatives(column_map: list[int]) -> None:
    component = PermuteComponent(np.array(column_map))
    x = torch.randn(2, 7)
    y, _ = component.propagate(x)
    assert torch.equal(y, x[:, column_map])
    assert torch.equal(component.backprop(x, y, y), x)


def test_permute_derivatives_and_files() -> None:
    component = components.create("PermuteComponent", "column-map=2,,0,1")
    check_derivatives(component, 3)
    check_round_trip(component)
    assert component.info() == "PermuteComponent, dim=3 , column-map=[ 2 0 1 ]"
    longer = components.create("PermuteComponent", "column-map=5,4,3,2,1,0")
    assert longer.info() == "PermuteComponent, dim=6 , column-map=[ 5 4 3 2 1 ... ]"


def old_permute_file(columns: list[float]) -> bytes:
    vector = b"FV \x04" + struct.pack(f"<i{len(columns)}f", len(columns), *columns)
    return b"<PermuteComponent> <ColumnMap> " + vector + b"</PermuteComponent> "


def test_old_permute_files_hold_floats() -> None:
    component = from_bytes(old_permute_file([0.9, 0.2, 7.0]), binary=True)
    assert component.info() == "PermuteComponent, dim=3 , column-map=[ 1 0 2 ]"
    for columns in ([0.0, 0.0, 0.0], [1e30, 0.0, 0.0], [float("nan"), 0.0, 0.0], []):
        with pytest.raises(ModelFormatError, match="<ColumnMap> must"):
            from_bytes(old_permute_file(columns), binary=True)


def test_convert_to_another_device_and_type() -> None:
    for component in (components.create("PermuteComponent", "column-map=1,0"), SumGroupComponent(np.array([1, 1, 2]))):
        component.to(torch.float64, "cpu")
        check_derivatives(component, 2)


TestSumGroup = component_contract(
    "SumGroupComponent",
    good=["sizes=1:2,3", "sizes=2,2", "input-dim=6 output-dim=2", "sizes=5"],
    rows=4,
    bad_configs=[
        ("", "'input-dim=' is missing", ""),
        ("sizes=1,0", "'sizes' must be positive integers, got '1,0'", "1,0"),
        ("sizes=,", "'sizes' must be positive integers", ","),
        ("sizes=2147483647,2147483647", "'sizes' must be", "2147483647,2147483647"),
        ("sizes=1,2 input-dim=3", "unknown key 'input-dim'", "input-dim"),
        ("input-dim=5 output-dim=2", "must be a multiple of output-dim=2, got 5", "5"),
    ],
    bad_files=[
        ("<SumGroupComponent> <Sizes> [ 1 -2 ]\n</SumGroupComponent> ", "<Sizes> must be positive integers"),
        ("<SumGroupComponent> <Sizes> [ ]\n</SumGroupComponent> ", "<Sizes> must be positive integers"),
        ("<SumGroupComponent> <Sizes> [ 2147483647 1 ]\n</SumGroupComponent> ", "<Sizes> add up to 2147483648"),
    ],
)
TestPermute = component_contract(
    "PermuteComponent",
    good=["column-map=2,,0,1"],
    rows=3,
    bad_configs=[
        ("", "'column-map=' is missing", ""),
        ("column-map=1,2", "must be a permutation of 0..1, but has 2", "1,2"),
        ("column-map=1,1,0", "must be a permutation of 0..2, but lacks 2", "1,1,0"),
        ("column-map=,", "'column-map' must not be empty", ","),
        ("column-map=0:1", "must be a list of integers", "0:1"),
    ],
    bad_files=[
        ("<PermuteComponent> <ColumnMap> [ 0 2 ]\n</PermuteComponent> ", "<ColumnMap> must be a permutation of 0..1"),
    ],
)
