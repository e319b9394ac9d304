"""The computers that were used last: those of keys that come once are changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.recent import ChangedComputers
from nnet3.engine.runtime.second_use_cache import SecondUseCache
from tests.runtime.scale_program import scale_program
from tests.runtime.toy_kernels import Scale, net


def changing(
    most: int,
) -> tuple[ChangedComputers, Callable[[str], NnetComputer], dict[str, NnetComputation], list[str]]:
    """Computers by letter, their programs, and the letters for which a computer was made."""
    computers, programs, made = ChangedComputers(most), {key: scale_program() for key in "abcdef"}, list[str]()

    def get(key: str) -> NnetComputer:
        def make(program: NnetComputation) -> NnetComputer:
            made.append(key)
            return NnetComputer(program, net(scale=Scale(2.0)), net(scale=Scale()))

        return computers.get(key, lambda: programs[key], make)

    return computers, get, programs, made


def test_what_came_once_is_changed_to_what_is_new() -> None:
    computers, get, programs, made = changing(most=2)
    first = get("a")
    assert get("b") is first
    assert first.computation is programs["b"]
    again = get("a")
    assert again is not first
    assert get("a") is again
    assert get("c") is first
    assert get("c") is first
    assert made == ["a", "a"]
    assert [*computers] == ["a", "c"]
    get("b")  # a goes, which was not used for longest
    assert sorted(computers) == ["b", "c"]


def test_lengths_that_take_turns_change_one_computer() -> None:
    computers, get, programs, made = changing(most=1)
    for key in "abababababab":
        assert get(key).computation is programs[key]
    assert made == ["a", "a"]
    assert len([*computers]) == 1


def test_a_program_that_cannot_be_had_changes_nothing() -> None:
    _, get, programs, made = changing(most=2)
    first = get("a")
    with pytest.raises(KeyError):
        get("g")
    assert first.computation is programs["a"]
    assert get("a") is first
    assert made == ["a"]


@given(st.text("abcdef", max_size=40), st.integers(1, 4))
def test_each_has_its_own_program(keys: str, most: int) -> None:
    computers, get, programs, _ = changing(most)
    for key in keys:
        assert get(key).computation is programs[key]
        assert get(key) is get(key)
        assert len(list(computers)) <= most + 1


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 3), st.integers(1, 3))
def test_kept_again(keys: list[int], most: int, once: int) -> None:
    """Against lists: what came again, and before that what came once, in the order of their last use."""
    kept, again, new, seen = SecondUseCache[str](most, once), list[int](), list[int](), set[int]()
    for key in keys:
        assert (kept.find(key) or "") == (str(key) if key in again + new else "")
        if key not in again + new:
            assert kept.keep(key, str(key)) == str(key)
        if key in seen:
            again = [*(each for each in again if each != key), key][-most:]
            new = [each for each in new if each != key]
        else:
            new = [*new, key][-once:]
        seen.add(key)
        assert [*kept] == [*again, *new]
        assert len(kept) == len(kept.values()) == len(again + new)
