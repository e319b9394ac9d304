"""Nests: loops of rows as runs, whose ends are formulas, and what of them is right for all parameters."""

from __future__ import annotations

from typing import Any

from nnet3.engine.families.polynomial import Polynomial
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.formatting import index_list, index_table, range_list
from nnet3.engine.ir.nests import Loop, Nest

T = Polynomial("T")


def listed(*parts: Any) -> str:
    nest: Any = Nest(parts)
    return index_list(NnetComputation(index_tables=[nest]), 0)


def test_a_run_goes_through_loops_and_what_stands_around_them() -> None:
    ones = Loop(T - 1, 3, lambda i: [(i + 1,)])
    assert listed((0,), ones, (T,), (T + 5,)) == "[0:T, T + 5]"
    assert listed((0,), ones, (9,)) == "[0:T - 1, 9]"
    assert listed(Loop(T, 3, lambda i: [(-1,)])) == "[-1xT]"
    assert listed(Loop(T, 3, lambda i: [(3 * i,), (3 * i + 1,), (3 * i + 2,)])) == "[0:3T - 1]"


def test_rows_that_are_next_to_each_other_for_some_parameters_are_no_run() -> None:
    assert listed((4,), (T,)) == "[4, T]"
    assert listed(Loop(T, 2, lambda i: [(i * T,)])) == "[0, T, ... T rows]"


def test_iterations_that_are_not_there_for_all_parameters_are_left_out() -> None:
    assert listed(Loop(T, 2, lambda i: [(2 * i,)]), (7,)) == "[0, 2, ... T + 1 rows]"
    assert listed(Loop(2, 2, lambda i: [(2 * i,)]), (7,)) == "[0, 2, 7]"
    assert listed(Loop(T, 20, lambda i: [(2 * i,)])) == "[0, 2, 4, 6, 8, 10, 12, 14, ... T rows]"


def test_a_run_that_goes_on_in_a_iteration_left_out_is_left_out() -> None:
    assert listed(Loop(T, 2, lambda i: [(9 * i + 8,), (9 * i + 9,), (9 * i + 16,)])) == "[8:9, 16:18, ... 3T rows]"


def test_sequences_and_times_are_boxes() -> None:
    n = Polynomial("N")
    by_time = Loop(T, 3, lambda i: [Loop(n, 4, lambda j: [(j, i - 2, 0)])])
    by_sequence = Loop(n, 4, lambda j: [Loop(T, 3, lambda i: [(j, i - 2, 1)])])
    assert index_table(Nest([by_time])) == "[ (0:N - 1, -2:T - 3) ]"
    assert index_table(Nest([by_sequence])) == (
        "[ (0, -2:T - 3, 1) (1, -2:T - 3, 1) (2, -2:T - 3, 1) (3, -2:T - 3, 1) ... ]"
    )


def test_ranges_are_not_joined() -> None:
    nest: Any = Nest([(0, T), Loop(T, 2, lambda i: [(i, i)])])
    assert range_list(NnetComputation(range_tables=[nest]), 0) == "[0:T - 1, -, -, ... T + 1 rows]"
