"""Instructions for native code give what the functions of `field` give with NumPy, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnet3.base.native.library import library
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.field import PRIME, Drawing, Elements
from nnet3.engine.ir.proof.randoms import signs
from nnet3.engine.ir.proof.recording import MEMORY, ElementRecording

pytestmark = pytest.mark.skipif(library() is None, reason="there is no native code")

_LARGEST = PRIME - 1


def given(name: str, *lengths: int) -> Elements:
    """Returns elements (*lengths, 2), of which some are 0 and some the largest."""
    elements = Drawing(name).next((*lengths, 2))
    elements.reshape(-1)[::5] = 0
    elements.reshape(-1)[1::7] = _LARGEST
    elements[:1] = 0
    return elements


def run(recording: ElementRecording, size: int, rows: tuple[int, ...] = ()) -> np.ndarray:
    """Returns memory after a call of the one template with so many rows, words (size,)."""
    call = np.array([recording.instance(recording.finish(0), rows)])
    native, functions = recording.native_program(), library()
    memory, scratch, none = (np.zeros(count + 1, np.uint64) for count in (size, native.scratch, 0))
    spaces = np.array([each.ctypes.data for each in (native.constants, none, none, scratch, memory)], np.uint64)
    arrays = spaces, native.instructions, native.starts, native.counts, call
    assert functions is not None
    functions.nnet3_run_elements(*[each.ctypes.data for each in arrays], 1, native.tables.ctypes.data)
    return memory[:size]


ROWS, ONES, TABLE = given("x", 6, 3), given("y", 6, 1), np.array([3, -1, 0, 5, 5])
FUNCTIONS: dict[str, Callable[[Callable[[Elements], Any]], Any]] = {
    "sum": lambda known: field.reduced(known(ROWS) + given("z", 6, 3)),
    "sum of a row": lambda known: field.reduced(given("z", 3) + known(ROWS)),
    "sum with zeros": lambda known: field.reduced(known(ONES) + field.zeros(6, 3)),
    "product": lambda known: field.product(known(ROWS), given("z", 6, 3)),
    "product of rows": lambda known: field.product(given("z", 3), known(ONES)),
    "scaled": lambda known: field.scaled(known(ROWS), -0.3),
    "combined": lambda known: field.combined(known(ROWS), given("w", 3, 4)),
    "combined, transposed": lambda known: field.combined(known(ROWS), given("w", 2, 3).swapaxes(0, 1)),
    "combined of many": lambda known: field.combined(known(given("wide", 6, 70)), given("w", 70, 2)),
    "combined of one": lambda known: field.combined(known(ONES), given("w", 1, 4)),
    "digest": lambda known: field.combined(known(ROWS), given("w", 3)[:, None])[:, 0],
    "total": lambda known: field.total(known(ROWS)),
    "total of one": lambda known: field.total(known(ONES)[:, 0]),
    "total of none": lambda known: field.total(known(ROWS[:0])),
    "sums of ranges": lambda known: field.sums_of_ranges(known(ROWS), np.array([[0, 6], [2, 2], [1, 4]], np.int32)),
    "taken": lambda known: field.taken(known(ROWS), TABLE),
    "zero or": lambda known: field.zero_or(known(ROWS), known(given("z", 6, 3))),
    "signs": lambda known: signs(known(ROWS)),
    "signs again": lambda known: signs(known(signs(ROWS))),
    "copied": lambda known: known(ROWS).copy(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_native_code_gives_the_same_elements(name: str) -> None:
    expected = FUNCTIONS[name](lambda elements: elements)
    recording = ElementRecording()
    made = FUNCTIONS[name](recording.elements)
    assert made.shape == expected.shape
    lengths = expected.shape[:-1]
    of_row = lengths[1] if len(lengths) > 1 else 1
    recording.write(recording.memory(MEMORY, 0, lengths, of_row), made)
    got = run(recording, expected.size // 2).reshape(lengths)
    np.testing.assert_array_equal(got, field.words(expected))


def test_a_hash_is_chosen_by_a_word_or_one_for_each_block() -> None:
    for base in (given("base", 1), given("base", 3)):
        recording = ElementRecording()
        made = recording.hashed(recording.elements(ROWS), recording.elements(base))
        recording.write(recording.memory(MEMORY, 0, (6, 3), 3), made)
        expected = field.words(field.hashed(ROWS, field.words(base)))
        np.testing.assert_array_equal(run(recording, 18).reshape(6, 3), expected)


def test_rows_that_are_not_there_are_refused() -> None:
    recording = ElementRecording()
    rows = recording.elements(ROWS)
    with pytest.raises(IndexError, match="rows 0 to 6 of 6"):
        recording.taken(rows, np.array([0, 6]))
    with pytest.raises(IndexError, match="of 6"):
        recording.sums_of_ranges(rows, np.array([[0, 7]]))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        recording.write(recording.memory(MEMORY, 0, (5, 3), 3), rows)
    with pytest.raises(ValueError, match="2 coefficients"):
        recording.combined(rows, given("w", 2, 2))
