"""Coverings that are measured in parts."""

from __future__ import annotations

from tools.mutation.covering import Covering

OLDER = Covering(
    ["tests/a/test_x.py::f", "tests/ab/test_y.py::g"], [1.0, 2.0], {"p.py": {1: [0], 2: [0, 1]}}, {"p.py": "a\nb\n"}
)
NEWER = Covering(["tests/a/test_x.py::h"], [3.0], {"p.py": {1: [0], 3: [0]}}, {"p.py": "new\na\nb\n"})


def test_a_covering_keeps_the_tests_of_other_folders() -> None:
    both = NEWER.with_older(OLDER, ["tests/a"])
    assert both.tests == ["tests/a/test_x.py::h", "tests/ab/test_y.py::g"]
    assert both.seconds == [3.0, 2.0]
    assert {line: found for line, found in both.lines["p.py"].items() if found} == {1: [0], 3: [0, 1]}


def test_folders_are_not_told_apart_by_their_beginnings() -> None:
    assert OLDER.has("tests/a")
    assert OLDER.has("tests/a/test_x.py")
    assert not OLDER.has("tests/a/test_y.py")
    assert not NEWER.has("tests/ab")
