"""Variables and accesses: against a version that looks at every element, on hand-built and on random programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from nnet3.engine.ir.analysis import Analysis, analyse, forget_analysis
from nnet3.engine.ir.commands import AccessMode, AllocMatrix, DeallocMatrix, MatrixAdd, MatrixCopy, SetConst
from nnet3.engine.ir.computation import NnetComputation
from tests.call_count import count_calls
from tests.effort import draws
from tests.ir.programs import recurrence, training_step
from tests.ir.random_programs import programs

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def _three_blocks() -> tuple[NnetComputation, int, int, int]:
    """Rows 0:3 and rows 2:9 of a matrix of ten rows, and the matrix itself."""
    c = NnetComputation()
    whole, other = c.new_matrix(10, 4), c.new_matrix(10, 4)
    first, second = c.new_submatrix(whole, 0, 4), c.new_submatrix(whole, 2, 8)
    c.new_submatrix(whole, 1, 1)  # declared, but used nowhere: no cut
    c.commands = [
        AllocMatrix(whole, zeroed=True),
        SetConst(first, 1.0),
        MatrixAdd(second, c.new_submatrix(other, 0, 8)),
        MatrixCopy(other, whole),
    ]
    return c, whole, first, second


def accesses(analysis: Analysis, variable: int) -> list[tuple[int, AccessMode]]:
    """The commands that access a variable, in order, each with what it does."""
    events = analysis.event_variable == variable
    commands, kinds = analysis.event_command[events].tolist(), analysis.event_mode[events].tolist()
    return list(zip(commands, map(AccessMode, kinds), strict=True))


def test_variables_are_the_coarsest_blocks() -> None:
    c, whole, first, second = _three_blocks()
    analysis = Analysis(c)
    assert len(analysis.variables) == 3 + 2
    assert analysis.variables.of_submatrices(np.array([first])).tolist() == [0, 1]
    assert analysis.variables.of_submatrices(np.array([second])).tolist() == [1, 2]
    assert analysis.variables.of_submatrices(np.array([whole])).tolist() == [0, 1, 2]
    assert analysis.variables.matrix_of(np.arange(5)).tolist() == [1, 1, 1, 2, 2]


def test_accesses_of_a_variable_in_order() -> None:
    analysis = Analysis(_three_blocks()[0])
    assert accesses(analysis, 0) == [(1, WRITE), (3, READ)]
    assert accesses(analysis, 1) == [(1, WRITE), (2, UPDATE), (3, READ)]
    assert accesses(analysis, 2) == [(2, UPDATE), (3, READ)]
    assert accesses(analysis, 3) == [(2, READ), (3, WRITE)]


def test_column_and_row_cuts_make_a_grid() -> None:
    c = NnetComputation()
    whole = c.new_matrix(6, 9)
    rows, corner = c.new_submatrix(whole, 0, 2), c.new_submatrix(whole, 4, 2, 3, 6)
    c.commands = [SetConst(rows, 0.0), SetConst(corner, 0.0), SetConst(whole, 0.0)]
    analysis = Analysis(c)
    assert len(analysis.variables) == 3 * 2
    assert analysis.variables.of_submatrices(np.array([rows])).tolist() == [0, 1]
    assert analysis.variables.of_submatrices(np.array([corner])).tolist() == [5]


def test_reading_and_writing_in_one_command_is_an_update() -> None:
    c = NnetComputation()
    matrix = c.new_matrix(4, 4)
    c.commands = [MatrixCopy(matrix, c.new_submatrix(matrix, 0, 2))]
    analysis = Analysis(c)
    assert accesses(analysis, 0) == [(0, UPDATE)]
    assert accesses(analysis, 1) == [(0, WRITE)]


def test_matrices_live_from_allocation_to_deallocation() -> None:
    c = training_step()
    analysis = Analysis(c)
    assert analysis.alloc_command[3] == 2
    assert analysis.dealloc_command[3] == 25
    assert analysis.first_access[3] == 11
    assert analysis.last_access[3] == 20
    assert analysis.first_access[0] == len(c.commands)
    assert analysis.last_access[0] == -1


def test_next_read_and_write() -> None:
    c, whole, first, second = _three_blocks()
    analysis = Analysis(c)
    queries = np.array([whole, first, second, second])
    assert analysis.next_access(queries, np.array([0, 2, 2, 3]), WRITE).tolist() == [1, 2, 2, 4]
    assert analysis.next_access(queries, np.array([0, 0, 3, 4]), READ).tolist() == [2, 2, 3, 4]
    assert analysis.next_access(queries[:0], queries[:0], READ).tolist() == []


def test_the_write_that_an_access_finds() -> None:
    c = _three_blocks()[0]
    analysis = Analysis(c)
    found = analysis.source_of_event
    writer = np.where(found >= 0, analysis.event_command[found], -1).tolist()
    events = list(zip(analysis.event_variable.tolist(), analysis.event_command.tolist(), writer, strict=True))
    assert [event for event in events if event[0] < 2] == [(0, 1, -1), (0, 3, 1), (1, 1, -1), (1, 2, 1), (1, 3, 2)]
    assert [event for event in events if event[0] >= 2] == [(2, 2, -1), (2, 3, 2), (3, 2, -1), (3, 3, -1), (4, 3, -1)]


def test_an_analysis_is_kept_as_long_as_it_holds() -> None:
    c = training_step()
    analysis = analyse(c)
    assert analyse(c) is analysis
    c.commands.append(SetConst(1, 1.0))
    assert analyse(c) is not analysis
    again = analyse(c)
    c.multi_tables.append(np.zeros((1, 2), np.int32))
    assert analyse(c) is not again
    forget_analysis(c)
    assert c._analysis is None


def test_an_empty_computation_has_no_events() -> None:
    analysis = Analysis(NnetComputation())
    assert len(analysis.variables) == 0
    assert analysis.event_command.tolist() == []


def _accesses_of_element(c: NnetComputation, matrix: int, row: int, col: int) -> list[tuple[int, AccessMode]]:
    """The slow way: what each command does to one element."""
    result = []
    for number, command in enumerate(c.commands):
        if isinstance(command, (AllocMatrix, DeallocMatrix)):
            continue
        kinds = set()
        for access in command.accesses(c):
            s = c.submatrices[access.submatrix]
            in_rows = s.row_offset <= row < s.row_offset + s.num_rows
            if s.matrix == matrix and in_rows and s.col_offset <= col < s.col_offset + s.num_cols:
                kinds.add(access.mode)
        if kinds:
            result.append((number, kinds.pop() if len(kinds) == 1 else UPDATE))
    return result


def _variable_of_each_element(analysis: Analysis, matrix: int) -> np.ndarray:
    size = analysis.computation.matrices[matrix]
    variable = np.full((size.num_rows, size.num_cols), -1)
    for number, s in enumerate(analysis.computation.submatrices):
        if (s.matrix, s.num_rows, s.num_cols) == (matrix, 1, 1):
            (variable[s.row_offset, s.col_offset],) = analysis.variables.of_submatrices(np.array([number]))
    return variable


@settings(max_examples=draws(30))
@given(programs())
def test_events_agree_with_a_look_at_every_element(computation: NnetComputation) -> None:
    for matrix in range(1, len(computation.matrices)):
        whole = next(s for s in range(len(computation.submatrices)) if computation.submatrices[s].matrix == matrix)
        size = computation.matrices[matrix]
        for row in range(size.num_rows):
            for col in range(size.num_cols):
                computation.new_submatrix(whole, row, 1, col, 1)  # not used by a command, so it makes no cut
    analysis = Analysis(computation)
    for matrix in range(1, len(computation.matrices)):
        variable = _variable_of_each_element(analysis, matrix)
        for v in np.unique(variable):
            row, col = np.argwhere(variable == v)[0]
            assert accesses(analysis, v) == _accesses_of_element(computation, matrix, row, col)


def test_analysis_does_not_change_the_computation() -> None:
    computation = training_step()
    before = str(computation)
    analysis = Analysis(computation)
    assert len(analysis.event_mode) > 0
    assert str(computation) == before


def test_cost_grows_with_the_program_and_not_with_its_square() -> None:
    """Every step uses one block of a few matrices, some commands use all blocks: events and calls are linear."""

    def analyse(computation: NnetComputation) -> Analysis:
        analysis = Analysis(computation)
        assert analysis.first_event.size
        return analysis

    small, large = recurrence(100), recurrence(1000)
    calls = count_calls(analyse, large) / count_calls(analyse, small)
    events = len(analyse(large).event_mode) / len(analyse(small).event_mode)
    commands = len(large.commands) / len(small.commands)
    assert calls < 1.1 * commands
    assert events < 1.1 * commands


def test_commands_between_two_that_access_a_part() -> None:
    c, whole, first, second = _three_blocks()
    analysis = Analysis(c)
    assert analysis.commands_between([first, second, whole], [0, 1, 3], 3) == [[1, 2, 3], [2, 3], []]
    assert analysis.commands_between([first], [1], 2) == [[2]]
    assert analysis.commands_between([], [], 2) == []
