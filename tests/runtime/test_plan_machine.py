"""What is wrong with a plan is noticed when it runs on elements of the field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnet3.errors import ProofError
from nnet3.ir import commands as cmd
from nnet3.ir.computation import NnetComputation
from nnet3.runtime import Plan, plan
from nnet3.runtime.proof import prove_plan
from tests.runtime.programs import Program


def small_program() -> NnetComputation:
    """An output that is three rows of the input in another order, half a sum, next to a zero row."""
    program = Program()
    given, copied = program.input("input", 4, 3), program.matrix(4, 3, zeroed=True)
    program.add(cmd.CopyRows(copied, given, program.index_table([2, -1, 0, 1]), 0.5))
    program.add(cmd.AddRows(copied, given, program.index_table([3, -1, 3, 0])))
    program.output("output", copied)
    return program.computation


def with_views(made: Plan, column: int, change: int, view: int = -1) -> Plan:
    """The plan with one number of a view changed."""
    views = made.views.copy()
    views[view, column] += change
    return made.changed(views=views)


CHANGES: dict[str, Callable[[Plan], Plan]] = {
    "a view begins one element later": lambda made: with_views(made, 1, 1),
    "a view leaves the arena": lambda made: with_views(made, 1, 1000),
    "the rows of a view lie elsewhere": lambda made: with_views(made, 7, -1, view=0),
    "a view has a row less": lambda made: with_views(made, 4, -1, view=0),
    "all lie in one place": lambda made: made.changed(views=np.where(np.arange(10) == 1, 0, made.views)),
    "other factors": lambda made: made.changed(call_number=made.call_number * 2),
    "a call is left out": lambda made: made.changed(segments=made.segments[:0]),
    "an input of other rows": lambda made: made.changed(segments=made.segments_with_rows(iter([1] * 9))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
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
    monkeypatch.setattr("nnet3.runtime.outline.pack", lambda sizes, first, last: ([0] * len(sizes), int(max(sizes))))
    computation = small_program()
    with pytest.raises(ProofError):
        prove_plan(computation, plan(computation))
