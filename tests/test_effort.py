"""What `make test` leaves to the night."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests import effort
from tests.effort import _beyond_each_value, draws, third


class _Case:
    def __init__(self, *ids: str):
        self.callspec = SimpleNamespace(_idlist=ids)


def _kept(*cases: Any) -> list[str]:
    left_out = _beyond_each_value([*cases])
    return ["".join(case.callspec._idlist) for case in cases if case not in left_out]


def test_each_value_of_each_parameter_is_kept() -> None:
    assert _kept(*(_Case(*ids) for ids in product("abc", "xy"))) == ["ax", "by", "cx"]
    assert _kept(*(_Case(*ids) for ids in product("aa", "bb", "cc"))) == ["abc"]
    assert _kept(*(_Case(*ids) for ids in product("pq", "xy", "st"))) == ["pxs", "qyt"]


def test_cases_of_one_parameter_are_kept() -> None:
    assert _kept(*map(_Case, "abcd")) == ["a", "b", "c", "d"]
    assert _kept(_Case()) == []


@pytest.mark.parametrize(("by", "expected"), [(1, [1, 1, 2, 9]), (4, [4, 12, 16, 100])])
def test_by_day_a_third_is_drawn(by: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "EFFORT", by)
    assert [draws(number) for number in (1, 3, 4, 25)] == expected


@pytest.mark.parametrize(("by", "expected"), [(1, [1, 1, 2, 9]), (4, [1, 3, 4, 25])])
def test_by_day_a_third_is_tried(by: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "EFFORT", by)
    assert [third(number) for number in (1, 3, 4, 25)] == expected
