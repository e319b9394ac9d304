"""Kinds of values: what config lines give, what files hold, and what both refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nnet3.errors import ConfigError, ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.components import value_kinds as kinds
from tests.components.component_text import config_line


def _parsed(kind: kinds.Kind, value: str, **default: Any) -> Any:
    return kind.parse(config_line(f"x={value}" if value else ""), "x", default)


def _written(kind: kinds.Kind, value: Any, binary: bool) -> bytes:
    writer = Writer(binary)
    kind.write(writer, value)
    return writer.getvalue()


def _read(kind: kinds.Kind, contents: bytes, binary: bool = False, **values: Any) -> Any:
    return kind.load(Reader(contents, "<test>", binary=binary), "<X>", values)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (kinds.SIZE, "3", 3),
        (kinds.INTEGER, "-3", -3),
        (kinds.RANK_OR_DEFAULT, "5", 5),
        (kinds.RANK_OR_DEFAULT, "-1", None),
        (kinds.NUMBER, "0.5", 0.5),
        (kinds.PROPORTION, "1", 1.0),
        (kinds.IntegersKind(), "1,-2,3", (1, -2, 3)),
        (kinds.BOOLEAN, "true", True),
    ],
)
def test_values_of_config_lines(kind: kinds.Kind, value: str, expected: object) -> None:
    assert _parsed(kind, value) == expected


def test_a_default_stands_in_for_a_key_that_is_missing() -> None:
    assert _parsed(kinds.SIZE, "", default=7) == 7
    assert _parsed(kinds.RANK_OR_DEFAULT, "") is None
    with pytest.raises(ConfigError, match="'x=' is missing"):
        _parsed(kinds.SIZE, "")


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (kinds.SIZE, "0", "'x' must be >= 1, got 0"),
        (kinds.RANK_OR_DEFAULT, "0", "'x' must be positive, or negative for the default"),
        (kinds.POSITIVE, "0", "'x' must be > 0"),
        (kinds.PROPORTION, "1.5", r"'x' must be within \[0, 1\]"),
        (kinds.FINITE, "inf", "'x' must be a finite number"),
        (kinds.BOOLEAN, "1", "'x' must be true or false"),
    ],
)
def test_what_config_lines_may_not_say(kind: kinds.Kind, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _parsed(kind, value)


def test_kinds_that_stand_in_files_only() -> None:
    with pytest.raises(AssertionError, match="a field of kind MatrixKind has no key"):
        _parsed(kinds.MATRIX, "1")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kinds.COUNT, 0),
        (kinds.NUMBER, 0.25),
        (kinds.DOUBLE, 1e-9),
        (kinds.IntegersKind(), (3, -1)),
        (kinds.BOOLEAN, False),
        (kinds.VECTOR, torch.tensor([1.0, 2.5])),
        (kinds.MATRIX, torch.tensor([[1.0, 2.5]])),
        (kinds.Vector(statistic=True, may_be_empty=True), torch.zeros(0, dtype=torch.float64)),
        (kinds.Vector(statistic=True, double=True), torch.tensor([0.1], dtype=torch.float64)),
        (kinds.TALLY, torch.tensor(3.0, dtype=torch.float64)),
    ],
)
def test_what_is_written_is_read_back(kind: kinds.Kind, value: Any, binary: bool) -> None:
    again = _read(kind, _written(kind, value, binary), binary)
    if isinstance(value, torch.Tensor):
        assert again.dtype == value.dtype
        torch.testing.assert_close(again, value, rtol=1e-6, atol=0)
    else:
        assert again == value


def test_doubles_have_eight_bytes() -> None:
    assert len(_written(kinds.DOUBLE, 1.0, True)) == 9
    assert len(_written(kinds.REAL, 1.0, True)) == 5


def test_a_flag_is_its_token_alone() -> None:
    assert _written(kinds.FLAG, True, True) == b""
    assert _read(kinds.FLAG, b"") is True


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (kinds.SIZE, "0 ", "<X> must be >= 1, got 0"),
        (kinds.PROPORTION, "1.5 ", r"<X> must be within \[0, 1\]"),
        (kinds.FINITE, "inf ", "<X> must be a finite number"),
        (kinds.VECTOR, "[ ]\n", "<X> must have at least one element"),
        (kinds.Vector(lambda values: values["dim"]), "[ 1 2 ]\n", "<X> must have 3 elements, got 2"),
        (kinds.Vector(lambda values: values["dim"], may_be_empty=True), "[ 1 2 ]\n", "0 or 3 elements, got 2"),
        (kinds.MatrixKind(lambda values: (1, values["dim"])), "[\n 1 2 ]\n", "<X> must be 1 x 3, got 1 x 2"),
    ],
)
def test_what_files_may_not_say(kind: kinds.Kind, text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _read(kind, text.encode(), dim=3)


def test_unchecked_numbers_may_be_anything_in_files() -> None:
    assert _read(kinds.REAL, b"-inf ") == -torch.inf
    assert _read(kinds.RATE, b"-1 ") == -1
