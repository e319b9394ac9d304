"""How much tests do: `make test` does what is enough for every day, `TEST_EFFORT=4 make test` draws four times as much.

Each night TEST_EFFORT is 4. From 2 on, all cases of slow matrices are tried too, and the tests that are `nightly`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TypeVar

import pytest

C = TypeVar("C")

EFFORT = int(os.environ.get("TEST_EFFORT", "1"))

#: The files of `make quick`.
QUICK = frozenset((Path(__file__).parent / "quick.txt").read_text().split())

#: Marks a slow test of which `make test` has a smaller sibling.
nightly = pytest.mark.skipif(EFFORT == 1, reason="TEST_EFFORT=2 runs it, each night")


def draws(number: int) -> int:
    """Returns how many random cases a test draws: `number` times the effort, and by day a third of `number`."""
    return -(-number // 3) if EFFORT == 1 else number * EFFORT


def third(number: int) -> int:
    """Returns `number`, and by day a third of it."""
    return -(-number // 3) if EFFORT == 1 else number


def at_night(*cases: C) -> tuple[C, ...]:
    """Returns cases of a matrix that differ little from those of every day, or none of them if the effort is 1."""
    return cases if EFFORT > 1 else ()


def redundant(items: list[pytest.Item]) -> list[pytest.Item]:
    """Returns cases of products of parameters; the others of a test have each value of each parameter at least once.

    Comparisons with golden data, which have the path of a case among their parameters, are never redundant, nor are
    tests that take no time.
    """
    cases: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        is_slow = item.nodeid.partition("::")[0] not in QUICK
        if is_slow and isinstance(item, pytest.Function) and hasattr(item, "callspec") and not _is_golden(item):
            cases[item.nodeid.partition("[")[0]].append(item)
    return [item for own in cases.values() for item in _beyond_each_value(own)]


def _is_golden(item: pytest.Function) -> bool:
    return "golden" in item.nodeid or any(isinstance(value, Path) for value in item.callspec.params.values())


def _beyond_each_value(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Returns the cases that are left when cases have been taken until each value has been seen.

    The next case is the first of those with the most values that no case before has.
    """
    values = {case: set(enumerate(case.callspec._idlist)) for case in cases}
    unseen = set[tuple[int, str]]().union(*values.values())
    while unseen:
        best = max(values, key=lambda case: len(values[case] & unseen))
        unseen -= values.pop(best)
    return list(values)
