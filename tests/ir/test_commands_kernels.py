"""One broken computation for each rule about commands that run kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.errors import ComputationCheckError
from tests.ir.changes import (
    ADD_OUT,
    AFFINE_BACKPROP,
    HIDDEN,
    HIDDEN_DERIV,
    INPUT,
    INPUT_DERIV,
    SPLICED,
    SPLICED_DERIV,
    Change,
    Y,
    check_broken,
    put,
    then,
    with_fields,
    with_kernel,
)
from tests.ir.programs import training_step

PROPAGATE = cmd.Propagate(0, "affine", (SPLICED,), HIDDEN)
BACKPROP = cmd.Backprop(0, "affine", (SPLICED,), 0, HIDDEN_DERIV, (SPLICED_DERIV,), (0,), update=True)
KERNELS = {
    "no kernel": (put(ADD_OUT, replace(PROPAGATE, kernel=99)), "its kernel is 99, expected 0 to 8"),
    "no precomputed": (put(ADD_OUT, replace(PROPAGATE, precomputed=1)), "its precomputed is 1, expected 0 to 0"),
    "memo number": (put(ADD_OUT, replace(PROPAGATE, memo=0)), "its memo is 0, expected -1 to -1"),
    "memo unused": (
        then(with_kernel(0), put(ADD_OUT, replace(PROPAGATE, memo=0))),
        "it has memo 0, but kernel 'affine' uses none",
    ),
    "statistics": (put(ADD_OUT, replace(PROPAGATE, store_stats=True)), "stores statistics, but kernel 'affine' has no"),
    "no input": (put(ADD_OUT, replace(PROPAGATE, inputs=(0,))), "its inputs[0] is sub-matrix 0, expected 1 to 10"),
    "no output": (put(ADD_OUT, replace(PROPAGATE, output=0)), "its output is sub-matrix 0, expected 1 to 10"),
    "rows of a row-wise kernel": (
        put(ADD_OUT, replace(PROPAGATE, inputs=(INPUT,))),
        "its inputs[0] has 6 rows, its output 4; they must be equal",
    ),
    "backprop rows": (
        with_fields(AFFINE_BACKPROP, inputs=(INPUT,), input_derivs=(INPUT_DERIV,)),
        "its input_derivs[0] has 6 rows, its output_deriv 4",
    ),
    "no output derivative": (with_fields(AFFINE_BACKPROP, output_deriv=0), "its output_deriv is sub-matrix 0"),
    "output unlike its derivative": (
        with_fields(AFFINE_BACKPROP, output=INPUT),
        "its output is 6 x 3, its output_deriv 4 x 3",
    ),
    "input unlike its derivative": (
        with_fields(AFFINE_BACKPROP, input_derivs=(INPUT_DERIV,)),
        "its inputs[0] is 4 x 3, its input_derivs[0] 6 x 3",
    ),
    "unknown operands": (with_fields(AFFINE_BACKPROP, input_derivs=(40,)), "its input_derivs[0] is sub-matrix 40"),
    "unknown output": (with_fields(AFFINE_BACKPROP, output=-1), "its output is sub-matrix -1, expected 0 to 10"),
    "unequal numbers": (
        with_fields(AFFINE_BACKPROP, input_derivs=()),
        "it has 1 inputs, 0 input derivatives and 1 added ones; kernel 'affine' has 1 inputs",
    ),
    "needs input": (
        with_fields(AFFINE_BACKPROP, inputs=(0,)),
        "'affine' needs the value of its input 0, but it is empty",
    ),
    "needs output": (with_fields(19, output=0), "kernel 'sigmoid' needs its output value, but it is empty"),
    "needs a memo": (with_kernel(0, uses_memo=True), "kernel 'affine' needs the memo of its Propagate"),
    "update not asked for": (
        lambda c: setattr(c, "need_model_derivative", False),
        "it updates kernel 'affine' in a computation without model derivative",
    ),
    "update of what is frozen": (with_kernel(0, is_frozen=True), "it updates kernel 'affine', which is frozen"),
    "number of inputs": (
        put(ADD_OUT, replace(PROPAGATE, inputs=(SPLICED, Y))),
        "it has 2 inputs, kernel 'affine' 1",
    ),
    "overwritten and added to": (
        with_fields(AFFINE_BACKPROP, added_derivs=(SPLICED_DERIV,)),
        "the derivative of its input 0 is both overwritten and added to",
    ),
    "added to without promise": (
        with_fields(19, input_derivs=(0,), added_derivs=(HIDDEN_DERIV,)),
        "kernel 'sigmoid' does not promise to add to the derivative of its input 0",
    ),
    "added to something smaller": (
        with_fields(AFFINE_BACKPROP, input_derivs=(0,), added_derivs=(INPUT_DERIV,)),
        "its inputs[0] is 4 x 3, its added_derivs[0] 6 x 3",
    ),
    "memo of a kernel without": (
        then(lambda c: setattr(c, "num_memos", 1), with_fields(AFFINE_BACKPROP, memo=0)),
        "it has memo 0, but kernel 'affine' uses none",
    ),
    "input derivatives overlap": (
        put(21, cmd.Backprop(3, "product", (SPLICED, HIDDEN), 0, HIDDEN_DERIV, (Y, Y), (0, 0), update=False)),
        "two of its input derivatives overlap",
    ),
    "memo twice": (
        then(
            with_kernel(0, uses_memo=True),
            put(12, replace(PROPAGATE, memo=1)),
            put(12, replace(PROPAGATE, memo=1)),
            with_fields(22, memo=1),
        ),
        "c13: affine.Propagate(m3, &m4) [memo 1]\n  memo 1 is made by c12 already",
    ),
    "memo not made": (
        then(with_kernel(0, uses_memo=True), with_fields(AFFINE_BACKPROP, memo=1)),
        "no command before it makes memo 1",
    ),
    "memo of another": (
        then(
            with_kernel(0, uses_memo=True),
            with_kernel(1, uses_memo=True),
            with_fields(13, memo=1),
            with_fields(19, memo=1),
            with_fields(AFFINE_BACKPROP, memo=1),
        ),
        "memo 1 is that of kernel 'sigmoid' at c13",
    ),
}


def test_inputs_without_samples_may_have_any_size() -> None:
    computation = training_step()
    parameter = computation.new_outside("W", 9, 3, writable=False)
    product = computation.new_matrix(5, 3, MatrixInfo("norms", False, None))
    computation.commands[ADD_OUT:ADD_OUT] = [
        cmd.AllocMatrix(product, zeroed=True),
        cmd.Propagate(3, "scores", (SPLICED, parameter), Y),
        cmd.Propagate(3, "scores", (SPLICED, product), Y),
        cmd.DeallocMatrix(product),
    ]
    check_computation(computation)
    with_samples = computation.new_outside("x", 9, 3, False, MatrixInfo("x", False, np.zeros((9, 3), np.int32)))
    computation.commands[ADD_OUT + 1] = cmd.Propagate(3, "scores", (SPLICED, with_samples), Y)
    with pytest.raises(ComputationCheckError, match=r"its inputs\[1\] has 9 rows, its output 4; they must be equal"):
        check_computation(computation)


@pytest.mark.parametrize(("change", "message"), KERNELS.values(), ids=KERNELS.keys())
def test_broken_kernel_commands_are_refused(change: Change, message: str) -> None:
    check_broken(change, message)
