"""The computers that were used last: made once, the oldest forgotten."""

from __future__ import annotations

from compute.scale_program import scale_program
from compute.toy_kernels import Scale, net
from nnet3.compute import NnetComputer
from nnet3.compute.recent import RecentComputers


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
