"""Rules of minibatch sizes."""

from __future__ import annotations

import pytest

from nnet3.errors import ArgumentError
from nnet3.examples.sizes import MinibatchSizes


@pytest.mark.parametrize(
    ("text", "size", "largest", "within"),
    [
        ("16", 10, 16, {0: 0, 15: 0, 16: 16, 40: 16}),
        ("64,128", 10, 128, {63: 0, 64: 64, 127: 64, 128: 128}),
        ("128,64", 10, 128, {127: 64}),
        ("1:64", 10, 64, {0: 0, 1: 1, 63: 63, 99: 64}),
        ("4:8,16", 10, 16, {3: 0, 5: 5, 12: 8, 16: 16}),
        ("128=64/256=40,30", 100, 64, {64: 64, 63: 0}),
        ("128=64/256=40,30", 250, 40, {40: 40, 39: 30, 29: 0}),
        ("128=64/256=40,30", 192, 64, {}),  # equally near: the first one
        ("128=64/256=40,30", 193, 40, {}),
        ("10=5", 99, 5, {5: 5}),
        ("999999999", 1, 999999999, {}),
    ],
)
def test_sizes(text: str, size: int, largest: int, within: dict[int, int]) -> None:
    rule = MinibatchSizes.parse(text)
    assert rule.largest(size) == largest
    assert {available: rule.largest_within(size, available) for available in within} == within


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number > 0, got ''"),
        ("0", "expected a number > 0, got '0'"),
        ("-5", "expected a number > 0, got '-5'"),
        ("8,", "expected a number > 0, got ''"),
        ("8:4", "the range 8:4 is empty"),
        ("1:2:3", "got '2:3'"),
        ("64/128", "with several rules each needs a size of example"),
        ("64=1/64=2", "must be different"),
        ("a=5", "got 'a'"),
        ("²", "got '²'"),
        ("1000000000", "got '1000000000'"),
        ("8=4/16", "with several rules each needs a size of example"),
    ],
)
def test_what_is_no_rule(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        MinibatchSizes.parse(text)
    assert message in str(error.value)
    assert "such as 64,128 or 1:64" in str(error.value)


def test_of_several_processes_together() -> None:
    rule = MinibatchSizes.parse("128=64/256=40,10:20").times(3)
    assert rule == MinibatchSizes.parse("128=192/256=120,30:60")
    assert rule.times(1) == rule
