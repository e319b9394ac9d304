"""Options that several verbs share, and numbers that must be finite."""

from __future__ import annotations

from typing import Any

import click
import pytest

from cli.declared import check_options
from nnet3.cli.options import TRUTHS, FiniteFloat

BINARY = {"--binary": (True, None)}
MODES = {"--dropout-test-mode": (True, None)}
EVALUATIONS = {"--max-objective-evaluations": (30, 1)}
TABLES: dict[str, dict[str, tuple[Any, Any]]] = {
    "init": BINARY | {"--srand": (0, None)},
    "info": {"--kaldi": (False, None), "--print-learning-rates": (False, None)},
    "am-info": {"--kaldi": (False, None), "--print-learning-rates": (False, None)},
    "copy": BINARY,
    "am-copy": BINARY,
    "train": BINARY,
    "compute-prob": MODES | {"--batchnorm-test-mode": (True, None)},
    "chain-compute-prob": MODES | {"--batchnorm-test-mode": (True, None)},
    "combine": BINARY | MODES | EVALUATIONS | {"--batchnorm-test-mode": (False, None)},
    "chain-combine": BINARY | MODES | EVALUATIONS | {"--batchnorm-test-mode": (False, None)},
}


@pytest.mark.parametrize("verb", TABLES)
def test_defaults_and_bounds(verb: str) -> None:
    check_options(verb, TABLES[verb])


def test_truths_are_those_of_click() -> None:
    assert {word: click.BOOL.convert(word, None, None) for word in TRUTHS} == {
        word: word in ("true", "t", "yes", "y", "on", "1") for word in TRUTHS
    }


@pytest.mark.parametrize(
    ("minimum", "value", "message"),
    [
        (None, "nan", "nan is not a finite number."),
        (None, "-inf", "-inf is not a finite number."),
        (0.0, "inf", "inf is not a finite number."),
        (0.0, "-1e-9", "-1e-9 is not in the range x>=0."),
        (0.25, "0.2", "0.2 is not in the range x>=0.25."),
        (None, "x", "'x' is not a valid float"),
    ],
)
def test_what_is_no_such_number(minimum: float | None, value: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        FiniteFloat(minimum).convert(value, None, None)


def test_numbers() -> None:
    assert FiniteFloat().convert("-1e300", None, None) == -1e300
    assert FiniteFloat(0.5).convert("0.5", None, None) == 0.5
