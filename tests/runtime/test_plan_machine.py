"""What is wrong with a plan is noticed when it runs on elements of the field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import Plan, plan
from nnet3.engine.runtime.proof import prove_plan
from nnet3.errors import ProofError
from tests.runtime.programs import Program
from tests.runtime.wrong_plans import WRONG_PLANS, moving_program, small_program


@pytest.mark.parametrize("change", WRONG_PLANS.values(), ids=WRONG_PLANS)
def test_what_is_wrong_with_a_plan_is_noticed(change: Callable[[Plan], Plan]) -> None:
    computation = small_program()
    made = plan(computation)
    prove_plan(computation, made)
    with pytest.raises(ProofError, match="the plan of a program in float32 does not compute"):
        prove_plan(computation, change(made))


def test_an_input_without_rows_that_lies_where_another_one_begins() -> None:
    program = Program()
    given, empty = program.input("input", 4, 3), program.input("empty", 0, 3)
    program.add(cmd.AddToRowsMulti(program.part(empty, 0, 0, 1, 1), program.multi_table([]), 1.0))
    program.output("output", given)
    prove_plan(program.computation, plan(program.computation))


def test_matrices_that_live_at_one_time_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing that ends the life of matrices too early."""
    monkeypatch.setattr(
        "nnet3.engine.runtime.unplaced_plan.pack", lambda sizes, first, last: ([0] * len(sizes), int(max(sizes)))
    )
    computation = small_program()
    with pytest.raises(ProofError):
        prove_plan(computation, plan(computation))


@pytest.mark.parametrize("opcode", ["copy each", "add each"])
def test_no_part_of_a_call_writes_what_another_part_reads(opcode: str) -> None:
    """Parts of a call are made in any order, or at once."""
    computation = moving_program()
    made = plan(computation)
    call = next(call for call, number in enumerate(made.call_opcode.tolist()) if made.opcodes[number] == opcode)
    first, end = made.call_start[call : call + 2].tolist()
    args = made.call_args.copy()
    args[(first + end) // 2 + 1] = args[first]
    with pytest.raises(ProofError, match=f"call {call} of the plan, '{opcode}' .* lies, which it reads or writes"):
        prove_plan(computation, made.changed(call_args=args))
