"""Determinization in C: sets, their numbers, arcs, ends, leaps and limits are those of NumPy to the last bit."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.base.native.library import library
from nnet3.speech.lattices import determinizing, native_sets as native_sets_file
from nnet3.speech.lattices.array_sets import array_leaps, array_sets
from nnet3.speech.lattices.determinizing import determinized, leaps_of
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.label_sets import LabelSets, Leaps, Memory, TooLargeError
from nnet3.speech.lattices.native_sets import native_leaps, native_sets
from tests.asr.golden_lattices import lattice
from tests.asr.toy_lattices import random_lattice
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM

pytestmark = needs_native_code


def _functions() -> ctypes.CDLL:
    functions = library()
    assert functions is not None
    return functions


def _same(one: object, other: object) -> None:
    """Compares arrays, strings, and tuples of them."""
    if isinstance(one, Strings) and isinstance(other, Strings):
        one, other = (one.offsets, one.values), (other.offsets, other.values)
    if isinstance(one, tuple) and isinstance(other, tuple):
        for mine, theirs in zip(one, other, strict=True):
            _same(mine, theirs)
    else:
        assert np.array_equal(np.asarray(one), np.asarray(other))


def _random(rows: int, silent: float, rough: bool) -> LabelLattice:
    """A lattice with so many of its labels taken away; if `rough`, with costs of which many are equal."""
    whole = random_lattice(rows).labelled()
    label = np.where(RANDOM.random(len(whole.label)) < silent, 0, whole.label)
    if not rough:
        return replace(whole, label=label)
    costs = (np.round(2 * each) / 2 for each in (whole.graph_cost, whole.acoustic_cost))
    return replace(whole, label=label, **dict(zip(("graph_cost", "acoustic_cost"), costs, strict=True)))


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("silent", [0.0, 0.4, 1.0])
def test_random_lattices(silent: float, rough: bool) -> None:
    for rows in (0, 1, 3, 6):
        for beam in (0.0, 2.0, 50.0):
            given = _random(rows, silent, rough)
            most, memories = given.best_cost + beam, [Memory(1e9, 1e9) for _ in range(2)]
            found = native_sets(_functions(), given, most, memories[0])
            expected = array_sets(given, most, memories[1])
            assert isinstance(found, LabelSets)
            _same(found, expected)
            assert vars(memories[0]) == vars(memories[1])


@pytest.mark.parametrize("silent", [0.1, 0.6, 1.0])
def test_leaps(silent: float) -> None:
    for rows in (0, 2, 7):
        given, memories = _random(rows, silent, rough=rows == 7), [Memory(1e9, 1e9) for _ in range(2)]
        found = native_leaps(_functions(), given, memories[0])
        assert isinstance(found, Leaps)
        _same(found, array_leaps(given, memories[1]))
        assert vars(memories[0]) == vars(memories[1])


@pytest.mark.parametrize("name", ["piece", "last_piece"])
def test_pieces_of_kaldi(name: str) -> None:
    given = lattice(name)
    for beam in (0.5, 4.0):
        most = given.best_cost + beam
        memories = [Memory(np.inf) for _ in range(2)]
        _same(native_sets(_functions(), given, most, memories[0]), array_sets(given, most, memories[1]))


def test_the_same_limits() -> None:
    """What needs too much memory, or too much work, does so for both: at each limit up to one that suffices."""
    refused = []
    for limit in np.geomspace(100, 1e6, 25).tolist():
        given = _random(5, 0.5, rough=False)
        for bytes_, work in ((limit, np.inf), (np.inf, 5 * limit)):
            results = []
            for made in (
                lambda memory, given=given: native_sets(_functions(), given, 1e9, memory),
                lambda memory, given=given: array_sets(given, 1e9, memory),
                lambda memory, given=given: native_leaps(_functions(), given, memory),
                lambda memory, given=given: array_leaps(given, memory),
            ):
                try:
                    made(Memory(bytes_, work))
                    results.append(True)
                except TooLargeError:
                    results.append(False)
            assert results[0] == results[1]
            assert results[2] == results[3]
            refused += results
    assert {True, False} == set(refused)


def test_without_native_code_numpy_determinizes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = _random(4, 0.3, rough=False)
    found, leaps = determinized(given, 3.0, Memory(np.inf)), leaps_of(given, Memory(np.inf))
    monkeypatch.setattr(determinizing, "library", lambda: None)
    other = determinized(given, 3.0, Memory(np.inf))
    _same(found.arcs, other.arcs)
    _same((found.level, found.final_cost, found.final_ids), (other.level, other.final_cost, other.final_ids))
    _same(leaps, leaps_of(given, Memory(np.inf)))


def test_memory_that_c_does_not_get() -> None:
    class NoMemory:
        """A library without memory."""

        def __getattr__(self, name: str) -> object:
            def fails(*operands: int) -> None:
                ctypes.c_int64.from_address(operands[-1]).value = 2

            return fails

    for made in (lambda *given: native_sets(*given[:2], 1.0, given[2]), native_leaps):
        with pytest.raises(MemoryError):
            made(NoMemory(), _random(2, 0.5, rough=False), Memory(np.inf))  # type: ignore[arg-type]


def test_memory_that_numpy_does_not_get(monkeypatch: pytest.MonkeyPatch) -> None:
    """What C has made is freed."""
    given, ended = _random(4, 0.3, rough=False), list[str]()

    class Watched:
        """The library, which tells what ends without columns."""

        def __getattr__(self, name: str) -> object:
            function = getattr(_functions(), name)

            def called(*operands: int) -> object:
                ended.extend([name] if name.endswith("_end") and not operands[1] else [])
                return function(*operands)

            return called

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(native_sets_file._Weights, "empty", fails)
    for made in (lambda *given: native_sets(*given[:2], 1.0, given[2]), native_leaps):
        with pytest.raises(MemoryError):
            made(Watched(), given, Memory(np.inf))  # type: ignore[arg-type]
    assert ended == ["nnet3_sets_end", "nnet3_leaps_end"]
