"""Merged updates: on a block where rows are neighbours and still there, on copies elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computation.programs import lines, node_matrix, recurrence, run, training_step
from computation.toy_kernels import AFFINE, CENTRE, DIM, KERNELS, OTHER_AFFINE, SCALED
from nnet3.computation import commands as cmd
from nnet3.computation.checker import check_computation
from nnet3.computation.commands import Command
from nnet3.computation.computation import IoInfo, NnetComputation
from nnet3.computation.passes.consolidate_updates import consolidate_updates

UPDATE = "affine.Backprop(m4(0:5, :), [], m6(2:7, :), []) [node recurrent, update]"


def test_recurrence_is_updated_once_and_without_copies() -> None:
    before = recurrence(4)
    after = consolidate_updates(before)
    check_computation(after)
    assert len(after.matrices) == len(before.matrices)
    old, new = lines(before), lines(after)
    assert [line for line in new if "affine.Backprop" in line] == [
        "affine.Backprop(m4(4:5, :), [], m6(6:7, :), &m13) [node recurrent]",
        "affine.Backprop(m4(2:3, :), [], m6(4:5, :), &m12) [node recurrent]",
        "affine.Backprop(m4(0:1, :), [], m6(2:3, :), &m11) [node recurrent]",
        UPDATE,
    ]
    pieces_without_update = [
        line.replace("recurrent, update", "recurrent") if "affine.B" in line else line for line in old
    ]
    assert [line for line in new if line != UPDATE] == pieces_without_update
    result = run(after)
    assert result.update_rows["affine"] == [6]
    result.check_equals(run(before))


def test_one_update_is_left_alone() -> None:
    computation = training_step()
    assert consolidate_updates(computation) is computation
    once = recurrence(3)
    assert consolidate_updates(merged := consolidate_updates(once)) is merged
    assert consolidate_updates(recurrence(2)).commands == recurrence(2).commands


def _two_backprops(*commands: Command, kernel: int = AFFINE) -> NnetComputation:
    """Matrices 1 and 2: values, 3 and 4: their derivatives, 5 and 6: output and derivative; rows 0:1 and 2:3 of each
    are sub-matrices 7 and 8 (of matrix 1), 9 and 10, and so on. The commands are the backward segment."""
    c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True, num_memos=2)
    names = [("a", False), ("b", False), ("a", True), ("b", True), ("out", False), ("out", True)]
    matrices = [node_matrix(c, name, 4, is_deriv=is_deriv) for name, is_deriv in names]
    for matrix in matrices:
        c.new_submatrix(matrix, 0, 2)
        c.new_submatrix(matrix, 2, 2)
    a, b, _, _, out, out_deriv = matrices
    c.inputs, c.outputs = [IoInfo("a", a, 0), IoInfo("b", b, 3)], [IoInfo("out", out, out_deriv)]
    c.commands = [
        *(cmd.AllocMatrix(m, zeroed=True) for m in matrices),
        cmd.AcceptInput(a, "a"),
        cmd.AcceptInput(b, "b"),
        cmd.Propagate(kernel, (a,), out),
        cmd.ProvideOutput(out, "out"),
        cmd.SegmentMarker(),
        cmd.AcceptInput(out_deriv, "out"),
        *commands,
        cmd.ProvideOutput(3, "b"),
        *(cmd.DeallocMatrix(m) for m in matrices),
    ]
    check_computation(c)
    return c


def _backprop(value: int, deriv: int, input_deriv: int, **fields: object) -> cmd.Backprop:
    return replace(cmd.Backprop(AFFINE, "node", (value,), 0, deriv, (input_deriv,), update=True), **fields)


def _changed_lines(before: NnetComputation) -> list[str]:
    """The backward segment after the pass, which must be valid and come to the same."""
    after = consolidate_updates(before)
    check_computation(after)
    result = run(after)
    result.check_equals(run(before))
    assert [len(rows) for rows in result.update_rows.values() if rows] == [1]
    new = lines(after)
    return new[new.index("[end of segment]") + 2 : new.index("output m3 to user [for node: 'b']")]


FIRST_A, SECOND_A, FIRST_B, SECOND_B, FIRST_A_DERIV, SECOND_A_DERIV = range(7, 13)
FIRST_OUT, SECOND_OUT, FIRST_OUT_DERIV, SECOND_OUT_DERIV = range(15, 19)


def test_pieces_without_input_derivative_disappear() -> None:
    c = _two_backprops(_backprop(SECOND_A, SECOND_OUT_DERIV, 0), _backprop(FIRST_A, FIRST_OUT_DERIV, 0))
    assert _changed_lines(c) == ["affine.Backprop(m1, [], m6, []) [node node, update]"]


def test_rows_of_several_matrices_are_copied_before_each_piece() -> None:
    c = _two_backprops(
        _backprop(FIRST_A, FIRST_OUT_DERIV, FIRST_A_DERIV, node="p"),
        _backprop(FIRST_B, SECOND_OUT_DERIV, SECOND_A_DERIV, node="q"),
    )
    assert _changed_lines(c) == [
        "m7 = undefined(4, 3)",
        "m7(0:1, :) = m1(0:1, :)",
        "affine.Backprop(m1(0:1, :), [], m6(0:1, :), &m3(0:1, :)) [node p]",
        "m7(2:3, :) = m2(0:1, :)",
        "affine.Backprop(m2(0:1, :), [], m6(2:3, :), &m3(2:3, :)) [node q]",
        "affine.Backprop(m7, [], m6, []) [update]",
        "m7 = []",
    ]
    info = consolidate_updates(c).matrix_info[7]
    assert (info.node, info.is_deriv, info.indexes[:, 1].tolist()) == ("a+b", False, [0, 1, 0, 1])


def test_operands_are_joined_in_the_same_order() -> None:
    """Rows 0:1 of the values belong to rows 2:3 of the derivatives: only one of them can stay where it is."""
    c = _two_backprops(_backprop(FIRST_A, SECOND_OUT_DERIV, 0), _backprop(SECOND_A, FIRST_OUT_DERIV, 0))
    assert _changed_lines(c) == [
        "m7 = undefined(4, 3)",
        "m7(2:3, :) = m1(0:1, :)",
        "m7(0:1, :) = m1(2:3, :)",
        "affine.Backprop(m7, [], m6, []) [node node, update]",
        "m7 = []",
    ]


def test_values_that_are_overwritten_are_copied_in_time() -> None:
    c = _two_backprops(
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0),
        cmd.SetConst(FIRST_A, 7.0),
        _backprop(SECOND_A, SECOND_OUT_DERIV, 0),
        cmd.SetConst(SECOND_A, 7.0),
    )
    assert _changed_lines(c) == [
        "m7 = undefined(4, 3)",
        "m7(0:1, :) = m1(0:1, :)",
        "m1(0:1, :).set(7)",
        "m7(2:3, :) = m1(2:3, :)",
        "affine.Backprop(m7, [], m6, []) [node node, update]",
        "m7 = []",
        "m1(2:3, :).set(7)",
    ]


def test_a_change_after_the_last_piece_does_not_matter() -> None:
    c = _two_backprops(
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0), _backprop(SECOND_A, SECOND_OUT_DERIV, 0), cmd.SetConst(FIRST_A, 7.0)
    )
    assert _changed_lines(c)[0] == "affine.Backprop(m1, [], m6, []) [node node, update]"


def test_values_that_are_deallocated_are_copied_in_time() -> None:
    c = _two_backprops(_backprop(FIRST_A, FIRST_OUT_DERIV, 0), cmd.NoOp(), _backprop(SECOND_B, SECOND_OUT_DERIV, 0))
    place = c.commands.index(cmd.NoOp())
    c.commands.remove(cmd.DeallocMatrix(1))
    c.commands[place] = cmd.DeallocMatrix(1)
    assert _changed_lines(c)[:3] == ["m7 = undefined(4, 3)", "m7(0:1, :) = m1(0:1, :)", "m1 = []"]


def test_derivatives_overwritten_in_place_are_copied_in_time() -> None:
    """A kernel that updates from its output value, and whose backward runs in place."""
    pieces = [
        cmd.Backprop(SCALED, "scaled", (0,), value, deriv, (deriv,), update=True)
        for value, deriv in ((FIRST_OUT, FIRST_OUT_DERIV), (SECOND_OUT, SECOND_OUT_DERIV))
    ]
    assert _changed_lines(_two_backprops(*pieces, kernel=SCALED)) == [
        "m7 = undefined(4, 3)",
        "m7(0:1, :) = m6(0:1, :)",
        "scaled.Backprop([], m5(0:1, :), m6(0:1, :), &m6(0:1, :))",
        "m7(2:3, :) = m6(2:3, :)",
        "scaled.Backprop([], m5(2:3, :), m6(2:3, :), &m6(2:3, :))",
        "scaled.Backprop([], m5, m7, []) [update]",
        "m7 = []",
    ]


def test_blocks_of_different_columns_are_copied() -> None:
    c = _two_backprops(_backprop(FIRST_A, FIRST_OUT_DERIV, 0), _backprop(SECOND_A, SECOND_OUT_DERIV, 0))
    wide = c.new_matrix(4, DIM + 1)
    left, right = c.new_submatrix(wide, 0, 2, 0, DIM), c.new_submatrix(wide, 2, 2, 1, DIM)
    c.commands = [
        cmd.AllocMatrix(wide, zeroed=True),
        *(replace(x, inputs=(left,)) if x == _backprop(FIRST_A, FIRST_OUT_DERIV, 0) else x for x in c.commands),
        cmd.DeallocMatrix(wide),
    ]
    c.commands = [
        replace(x, inputs=(right,)) if x == _backprop(SECOND_A, SECOND_OUT_DERIV, 0) else x for x in c.commands
    ]
    assert "m8(0:1, :) = m7(0:1, 0:2)" in _changed_lines(c)
    assert "m8(2:3, :) = m7(2:3, 1:3)" in _changed_lines(c)


LEFT_ALONE = {
    "not row by row": [
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0, kernel=OTHER_AFFINE),
        _backprop(SECOND_A, SECOND_OUT_DERIV, 0, kernel=OTHER_AFFINE),
    ],
    "no update": [
        _backprop(FIRST_A, FIRST_OUT_DERIV, FIRST_A_DERIV, update=False),
        _backprop(SECOND_A, SECOND_OUT_DERIV, SECOND_A_DERIV, update=False),
    ],
    "only one updates": [
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0),
        _backprop(SECOND_A, SECOND_OUT_DERIV, SECOND_A_DERIV, update=False),
    ],
    "two kernels": [
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0),
        cmd.Backprop(SCALED, "node", (0,), FIRST_OUT, FIRST_OUT_DERIV, (0,), update=True),
    ],
    "two segments": [
        _backprop(FIRST_A, FIRST_OUT_DERIV, 0),
        cmd.SegmentMarker(),
        _backprop(SECOND_A, SECOND_OUT_DERIV, 0),
    ],
}


@pytest.mark.parametrize("commands", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_left_alone(commands: list[Command]) -> None:
    computation = _two_backprops(*commands)
    assert consolidate_updates(computation) is computation


def test_kernels_with_memo_are_left_alone() -> None:
    c = _two_backprops(kernel=CENTRE)
    c.kernels[CENTRE] = replace(c.kernels[CENTRE], updatable=True)
    place = c.commands.index(cmd.Propagate(CENTRE, (1,), 5))
    c.commands[place] = replace(c.commands[place], memo=0)
    back = cmd.Backprop(CENTRE, "centre", (0,), 0, 6, (0,), update=True, memo=0)
    c.commands[-7:-7] = [back, back]
    check_computation(c)
    assert consolidate_updates(c) is c
