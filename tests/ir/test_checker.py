"""One broken computation for each rule about order; those about single commands: test_commands_rows."""

from __future__ import annotations

import re

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.errors import ComputationCheckError
from tests.ir.changes import (
    ACCEPT,
    ADD_OUT,
    AFFINE_BACKPROP,
    AFFINE_PROPAGATE,
    HIDDEN,
    INPUT,
    LAST,
    MARKER,
    MIDDLE,
    OUT,
    PROVIDE,
    SPLICED,
    UPPER,
    Y_DERIV,
    Change,
    Y,
    drop,
    move,
    put,
    then,
    with_blocks,
    with_fields,
    with_table,
)
from tests.ir.programs import training_step
from tests.ir.toy_kernels import PRODUCT

ORDER = {
    "input late": (move(ACCEPT, 11), "c11: m1 = user input [for node: 'input']\n  input must begin the segment"),
    "output early": (move(PROVIDE, ADD_OUT), "c15: m6 += m5\n  it stands after the output of c14"),
    "input after output": (move(ACCEPT, PROVIDE), "it stands after the output of c14, which must end the segment"),
    "input twice": (
        put(ACCEPT, cmd.AcceptInput(INPUT, "input")),
        "c11: m1 = user input [for node: 'input']\n  'input' is",
    ),
    "output twice": (put(PROVIDE, cmd.ProvideOutput(OUT, "output")), "'output' is provided twice in one segment"),
    "no input": (drop(ACCEPT), "no command accepts input 'input' in m1, where it is declared"),
    "no output": (drop(PROVIDE), "no command provides output 'output' in m6, where it is declared"),
    "no output derivative": (drop(17), "no command accepts the derivative of output 'output' in m10"),
    "no input derivative": (drop(22), "no command provides the derivative of input 'input' in m2"),
    "elsewhere": (with_fields(PROVIDE, source=Y), "no command provides output 'output' in m6"),
}

LIFETIME = {
    "never allocated": (drop(Y - 1), "c12: sigmoid.Propagate(m4, &m5)\n  m5 is never allocated"),
    "allocated late": (move(Y - 1, AFFINE_BACKPROP), "m5 is allocated later, by c20"),
    "allocated twice": (
        put(MARKER, cmd.AllocMatrix(Y, True)),
        "c16: m5 = zeros(4, 3)\n  m5 is allocated by c4 already",
    ),
    "deallocated twice": (put(LAST, cmd.DeallocMatrix(Y)), "c32: m5 = []\n  m5 is deallocated by c27 already"),
    "deallocated early": (
        move(27, MARKER),
        "c20: sigmoid.Backprop([], m5, m9, &m8) [update]\n  m5 is deallocated by c16",
    ),
    "deallocated unallocated": (
        then(lambda c: c.new_matrix(2, 2), put(LAST, cmd.DeallocMatrix(11))),
        "c32: m11 = []\n  m11 is never allocated",
    ),
    "deallocated before": (
        then(lambda c: c.new_matrix(2, 2), put(LAST, cmd.DeallocMatrix(11), cmd.AllocMatrix(11, True))),
        "c32: m11 = []\n  m11 is allocated later, by c33",
    ),
    "not deallocated": (drop(27), "c4: m5 = zeros(4, 3)\n  m5 is never deallocated, and it is not an output"),
}

CONTENTS = {
    "undefined": (with_fields(OUT - 1, zeroed=False), "c14: m6 += m5\n  it reads m6, part of which is undefined"),
    "undefined source": (
        then(with_fields(HIDDEN - 1, zeroed=False), drop(AFFINE_PROPAGATE)),
        "c12: sigmoid.Propagate(m4, &m5)\n  it reads m4, part of which is undefined",
    ),
    "partly undefined": (
        then(
            with_blocks(UPPER, SubMatrix(HIDDEN, 0, 2, 0, 3)),
            with_fields(Y - 1, zeroed=False),
            with_fields(13, inputs=(12,), output=11),
        ),
        "c14: m6 += m5\n  it reads m5, part of which is undefined",
    ),
    "copy onto itself": (put(ADD_OUT, cmd.MatrixCopy(Y, Y)), "it reads m5 and fills m5, which overlap"),
    "overlap": (
        then(with_blocks(UPPER, MIDDLE), put(ADD_OUT, cmd.MatrixAdd(12, 11))),
        "c14: m5(1:2, :) += m5(0:1, :)\n  it reads m5(0:1, :) and fills m5(1:2, :), which overlap",
    ),
    "gather from itself": (
        with_table("multi_tables", [(INPUT, 0), (Y, 0), (-1, -1), (Y, 0)], cmd.AddRowsMulti(Y, 9)),
        "it reads m5 and fills m5, which overlap",
    ),
    "kernel not in place": (
        put(ADD_OUT, cmd.Propagate(0, "affine", (Y,), Y)),
        "it reads m5 and fills m5, which overlap",
    ),
    "in place of what it reads twice": (
        put(ADD_OUT, cmd.Propagate(PRODUCT, "product", (Y, Y), Y)),
        "it reads m5 and fills m5, which overlap",
    ),
    "in place beside itself": (
        then(with_blocks(UPPER, MIDDLE), put(ADD_OUT, cmd.Propagate(1, "sigmoid", (11,), 12))),
        "it reads m5(0:1, :) and fills m5(1:2, :), which overlap",
    ),
    "backprop over its output": (
        with_fields(19, input_derivs=(Y,)),
        "it reads m5 and fills m5, which overlap",
    ),
    "backprop in place over its output": (
        with_fields(19, output=Y_DERIV, input_derivs=(Y_DERIV,)),
        "it reads m9 and fills m9, which overlap",
    ),
    "the earliest of several": (
        then(with_fields(SPLICED - 1, zeroed=False), with_fields(OUT - 1, zeroed=False)),
        "c11: m3.AddRows(1, m1[2:5])\n  it reads m3, part of which is undefined",
    ),
    "compressed": (put(ADD_OUT, cmd.CompressMatrix(Y)), "c15: m6 += m5\n  m5 is compressed there"),
    "not compressed": (put(ADD_OUT, cmd.DecompressMatrix(Y)), "m5 is not compressed there"),
    "compressed twice": (
        put(MARKER, cmd.CompressMatrix(Y), cmd.CompressMatrix(Y)),
        "c17: m5.compress()\n  m5 is compressed there",
    ),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [pytest.param(*case, id=name) for table in (ORDER, LIFETIME, CONTENTS) for name, case in table.items()],
)
def test_broken_computations_are_refused(change: Change, message: str) -> None:
    computation = training_step()
    check_computation(computation)
    change(computation)
    with pytest.raises(ComputationCheckError, match=re.escape(message)):
        check_computation(computation)


ALLOWED = {
    "written and never read": put(ADD_OUT, cmd.SetConst(HIDDEN, 1.0)),
    "output stays": then(drop(LAST - 4), drop(LAST - 8)),
    "written in place": put(ADD_OUT, cmd.Propagate(1, "sigmoid", (Y,), Y)),
    "back in place": with_fields(19, input_derivs=(Y_DERIV,)),
    "neighbours": then(
        with_blocks(UPPER, SubMatrix(Y, 2, 2, 0, 3)),
        put(ADD_OUT, cmd.MatrixCopy(12, 11), cmd.Propagate(0, "affine", (11,), 12)),
    ),
    "compressed for a while": then(put(19, cmd.DecompressMatrix(Y)), put(MARKER, cmd.CompressMatrix(Y))),
    "scatter to two columns of one row": then(
        with_blocks(SubMatrix(1, 0, 6, 0, 1), SubMatrix(1, 0, 6, 1, 1), SubMatrix(HIDDEN, 0, 4, 0, 1)),
        with_table("multi_tables", [(11, 3), (12, 3), (12, 4), (11, 4)], cmd.AddToRowsMulti(13, 9)),
    ),
    "the same names in the next segment": then(
        put(22, cmd.ProvideOutput(OUT, "output")), put(MARKER + 1, cmd.AcceptInput(INPUT, "input"))
    ),
    "empty tables": with_table("multi_tables", [(-1, -1)] * 4, cmd.AddToRowsMulti(HIDDEN, 9)),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED.keys())
def test_unusual_computations_are_allowed(change: Change) -> None:
    computation = training_step()
    change(computation)
    check_computation(computation)


def with_outside(writable: bool, *commands: cmd.Command) -> Change:
    """Sub-matrix 11, all of m11, lies outside; the commands stand before ADD_OUT."""
    return then(lambda c: c.new_outside("W", 4, 3, writable), put(ADD_OUT, *commands))


OUTSIDE = {
    "read only": (
        with_outside(False, cmd.MatrixAdd(11, Y)),
        "c14: m11 += m5\n  it changes m11, outside memory 'W', which is read only",
    ),
    "allocated": (
        with_outside(True, cmd.AllocMatrix(11, zeroed=True)),
        "its matrix lies in outside memory 'W', which is there before and after a computation",
    ),
    "deallocated": (with_outside(True, cmd.DeallocMatrix(11)), "its matrix lies in outside memory 'W'"),
    "compressed": (with_outside(True, cmd.CompressMatrix(11)), "its matrix lies in outside memory 'W'"),
}


@pytest.mark.parametrize(("change", "message"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_broken_uses_of_outside_matrices_are_refused(change: Change, message: str) -> None:
    computation = training_step()
    change(computation)
    with pytest.raises(ComputationCheckError, match=re.escape(message)):
        check_computation(computation)


def test_what_outside_matrices_are_for() -> None:
    computation = training_step()
    with_outside(False, cmd.MatrixAdd(Y, 11, 0.5))(computation)
    gradient = computation.new_outside("gradient of W", 4, 3, writable=True)
    put(20, cmd.MatrixAdd(gradient, Y_DERIV))(computation)
    check_computation(computation)


def test_a_command_without_a_rule() -> None:
    class Mystery(cmd.Command):
        pass

    computation = training_step()
    computation.commands.insert(ADD_OUT, Mystery())
    with pytest.raises(ComputationCheckError, match="class Mystery has no shape rule: it must define problems"):
        check_computation(computation)
