"""How training runs are compared with those of Kaldi."""

from __future__ import annotations

import re

import pytest
from torch import Tensor

ROUNDING = 8 * 6e-8  # of the parameters that a change is added to
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def compare_lines(lines: list[str], wanted: list[str], least: int = 4) -> None:
    """The same sentences with numbers that agree: objectives to 1e-4, factors of max-change to 2e-3."""
    assert [_NUMBER.sub("#", line) for line in lines] == [_NUMBER.sub("#", line) for line in wanted]
    assert len(lines) >= least
    for line, other in zip(lines, wanted, strict=True):
        numbers, others = ([float(number) for number in _NUMBER.findall(text)] for text in (line, other))
        assert numbers == pytest.approx(others, rel=2e-3 if "max-change" in line else 1e-4), f"{line}\n{other}"


def check_change(what: str, before: Tensor, actual: Tensor, target: Tensor, tolerance: float) -> None:
    change, wanted = (actual - before).double(), (target - before).double()
    distance = float((change - wanted).norm())
    if distance <= ROUNDING * float(before.double().norm()):
        return
    error = distance / float(wanted.norm())
    assert error <= tolerance, f"{what}: the change differs by {error:.2e} > {tolerance:.0e}"
