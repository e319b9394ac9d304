"""While many objects are made nobody searches for garbage, afterwards all is as it was; of values the last are kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from nnet3.engine.ir.objects import Recent, many_objects


def test_no_search_for_garbage_within() -> None:
    assert gc.isenabled()
    with many_objects():
        assert not gc.isenabled()
        with many_objects():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer one is not at its end"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="in the middle"), many_objects():
        raise ValueError("in the middle")
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with many_objects():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_value_not_used_for_longest_goes_first() -> None:
    made: list[str] = []
    recent = Recent[str](most=2)

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return f"value {len(made)}"

        return recent.get_or_make(key, make)

    first = get("a")
    get("b")
    assert get("a") is first
    get("c")  # takes the place of b
    assert get("a") is first
    get("b")
    assert made == ["a", "b", "c", "b"]


def test_values_are_in_the_order_of_their_use() -> None:
    recent = Recent[int](32)
    for key in range(32):
        recent.get_or_make(key, lambda: -1)
    assert recent.use(0, 5) == 5
    assert [*recent] == [*range(1, 32), 0]
    assert recent.get_or_make(32, lambda: 7) == 7
    assert [*recent] == [*range(2, 32), 0, 32]
    assert recent[0] == 5


def test_another_thread_may_come_between() -> None:
    class Interrupted(Recent[int]):
        def __iter__(self) -> Iterator[str]:
            keys = super().__iter__()
            if "other" not in self:
                self["other"] = 3
            return keys

    recent = Interrupted(most=1)
    for key, value in zip("ab", (1, 2), strict=True):
        assert recent.use(key, value) == value
    assert dict(recent) == {"other": 3}
