"""The computers that were used last: made once, the oldest forgotten."""

from __future__ import annotations

import pytest

from nnet3.ir.computation import NnetComputation
from nnet3.runtime import NnetComputer
from nnet3.runtime.recent import RecentComputers
from tests.runtime.scale_program import scale_program
from tests.runtime.toy_kernels import Scale, net


def test_the_one_not_used_for_longest_goes_first() -> None:
    made: list[str] = []
    recent = RecentComputers(most=2)

    def get(key: str) -> NnetComputer:
        def make() -> NnetComputer:
            made.append(key)
            return NnetComputer(scale_program(), net(scale=Scale()), net(scale=Scale()))

        return recent.get(key, make)

    first = get("a")
    get("b")
    assert get("a") is first
    get("c")  # takes the place of b
    assert get("a") is first
    get("b")
    assert made == ["a", "b", "c", "b"]


def test_32_are_kept_in_the_order_of_their_use() -> None:
    recent = RecentComputers()
    computer = NnetComputer(scale_program(), net(scale=Scale()), net(scale=Scale()))
    for key in range(32):
        recent.get(key, lambda: computer)
    assert recent.get(0, lambda: computer) is computer
    assert [*recent] == [*range(1, 32), 0]
    recent.get(32, lambda: computer)
    assert [*recent] == [*range(2, 32), 0, 32]


def test_the_oldest_is_changed_to_what_is_new() -> None:
    recent, made = RecentComputers(most=2), []

    def make(program: NnetComputation) -> NnetComputer:
        made.append(NnetComputer(program, net(scale=Scale(2.0)), net(scale=Scale())))
        return made[-1]

    programs = {key: scale_program() for key in "abcd"}
    first, second = (recent.changed(key, lambda key=key: programs[key], make) for key in "ab")
    assert recent.changed("a", NnetComputation, make) is first
    assert recent.changed("c", lambda: programs["c"], make) is second
    assert second.computation is programs["c"]
    assert [*recent] == ["a", "c"]
    with pytest.raises(KeyError):
        recent.changed("e", lambda: programs["e"], make)
    assert [*recent] == ["a", "c"]
    assert recent.changed("a", NnetComputation, make) is first
    assert len(made) == 2
