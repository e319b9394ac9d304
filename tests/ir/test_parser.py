"""Programs as text: what is written in full is read again, and what is wrong is one clear error."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.ir.program_tables import KernelRows
from nnet3.errors import ConfigError
from tests.effort import draws
from tests.ir.program_text import contents, read_again
from tests.ir.programs import recurrence, run, training_step
from tests.ir.random_programs import programs


@settings(max_examples=draws(30))
@given(programs())
def test_random_programs_and_what_passes_make_of_them(computation: NnetComputation) -> None:
    for each in (computation, optimize(computation)):
        read = read_again(each)
        check_computation(read)
        run(read).check_equals(run(each))


@pytest.mark.parametrize("make", [NnetComputation, training_step, lambda: recurrence(3)])
def test_programs_of_hand(make: type) -> None:
    read_again(make())


def test_precomputed_arrays_and_their_rows() -> None:
    c = training_step()
    rows = np.array([[0, 0, 0], [0, 1, 0]], np.int32)
    c.precomputed += [{"rows": np.arange(6).reshape(2, 3), "scale": np.array(1 / 3, np.float32)}, {}]
    c.precomputed.append({"odd name": np.array([True, False]), "none": np.zeros((0, 2))})
    c.precomputed_rows += [KernelRows("pool", True, rows, rows[:1], True), KernelRows("pool", False, rows, rows)]
    read_again(c)


BEGIN = """\
kernel affine [] of []
m1(4, 3)
m2(4, 3)
"""
ERRORS = {
    "kernel b [row] of []": "4:11: expected a promise of KernelInfo, got 'row] of []'",
    "kernel affine [] of []": "4:8: expected 'affine#2', got 'affine [] of []'",
    "m1(4, 3)": "4:1: expected no second line for m1, got",
    "m9(0, 3)": "4:1: expected a matrix of some rows and columns, got",
    "m5(4, 3) == value: x [ (0, 0:3) ... ]": "4:33: expected the whole list",
    "input 'x' is m7": "4:14: expected a matrix with a line of its own above",
    "input x is m1": "4:1: expected",
    "precomputed 2": "4:1: expected 'precomputed 1', got 'precomputed 2'",
    "rows = int64(2) [1, 2]": "4:1: expected a line of a precomputed entry above, got",
    "explode": "4:1: expected a sub-matrix such as m1 or m1(0:9, :) or 'output ' or 'repeat ' or '[end of seg",
}


@pytest.mark.parametrize(("line", "message"), ERRORS.items(), ids=ERRORS.keys())
def test_an_error_says_where_what_was_expected_and_what_was_got(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"small.txt:{message}")):
        parse_computation(BEGIN + line, "small.txt")


@pytest.mark.parametrize("huge", ["m99999999999(1, 1)", "m1(9999999999, 3)", "memos 99999999", "m1.set(1e999999)"])
def test_huge_numbers_take_no_memory(huge: str) -> None:
    with pytest.raises(ConfigError):
        parse_computation(huge)


def test_numbers_of_commands_comments_and_space_are_passed_over() -> None:
    plain = BEGIN + "m1 += m2\nm2 = []"
    other = f"# a comment\n{BEGIN}\n\n  c7: m1 += m2\nc3: m2 = []\n"
    assert contents(parse_computation(plain)) == contents(parse_computation(other))


def test_the_printed_form_is_read_where_it_is_whole() -> None:
    c = recurrence(2)
    read = parse_computation(BEGIN.splitlines()[0] + "\nkernel sigmoid [] of []\n" + str(c))
    assert str(read) == str(c)
