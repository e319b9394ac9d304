"""Plans compute what their programs compute."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from nnet3.engine.ir.commands import Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.calls import CALLS
from nnet3.engine.runtime.plan_machine import KERNEL_CALLS
from nnet3.engine.runtime.planner import Planner
from nnet3.engine.runtime.proof import MEANINGS, prove_plan
from nnet3.errors import ProofError
from tests.effort import draws
from tests.ir.programs import training_step
from tests.ir.random_programs import ProgramWriter
from tests.runtime.programs import random_programs
from tests.runtime.wrong_plans import moving_program, with_views, wrong_calls

#: The views among the integers of a call, if other integers are among them.
VIEWS = dict.fromkeys(["accept", "provide", "zero rows"], slice(1)) | {"select rows": slice(2)}
VIEWS |= dict.fromkeys(["copy to rows", "add to rows"], slice(None, None, 2))


def programs_of_seeds(count: int) -> list[NnetComputation]:
    """Programs that mean something: a backward pass may use a memo of other rows than its own in random ones."""
    found = []
    for seed in range(count):
        program = ProgramWriter(Random(seed)).program()
        with suppress(ProofError):
            prove_equal([PassResult("", program)])
            found.append(program)
    return found


def test_each_opcode_has_a_meaning() -> None:
    assert MEANINGS.keys() == CALLS.keys()


def test_random_programs() -> None:
    programs = programs_of_seeds(20)
    assert len(programs) > 15
    for program in programs:
        prove_plan(program, plan(program))


@settings(max_examples=draws(20))
@given(random_programs())
def test_random_programs_with_loops(computation: NnetComputation) -> None:
    prove_plan(computation, plan(computation))


def test_no_call_can_be_left_out_and_no_number_changed() -> None:
    """As when a copy of joined rows forgets its scale, or missing rows are not zeroed."""
    computation = moving_program()
    made = plan(computation)
    assert {*made.opcodes} >= MEANINGS.keys() - KERNEL_CALLS
    prove_plan(computation, made)
    missed = []
    for name, wrong in wrong_calls(made):
        with suppress(ProofError):
            prove_plan(computation, wrong)
            missed.append(name)
    assert not missed


@pytest.mark.parametrize(("flag", "work"), [("stores_stats", "stores statistics of"), ("is_updated", "updates")])
def test_a_plan_knows_which_kernels_change(flag: str, work: str) -> None:
    """The check before a run looks at the stated kernels alone."""
    step = training_step()
    step.commands = [replace(c, store_stats=True) if isinstance(c, Propagate) else c for c in step.commands]
    made = plan(step)
    prove_plan(step, made)
    assert any(getattr(kernel, flag) for kernel in made.kernels)
    forgetful = made.changed(kernels=tuple(replace(kernel, **{flag: False}) for kernel in made.kernels))
    with pytest.raises(ProofError, match=f"it {work} kernel '.*', and the plan says that nothing does"):
        prove_plan(step, forgetful)


def test_a_memo_is_not_dropped_before_its_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    computation = moving_program()
    monkeypatch.setattr("nnet3.engine.runtime.planner._last_memo_users", lambda given: {*range(len(given.commands))})
    with pytest.raises(ProofError, match="memo 0 is not there"):
        prove_plan(computation, plan(computation))


def test_scratch_memory_has_all_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are as wide as what memory is aligned to, so that nothing is left behind the last one."""
    computation, scratch = moving_program(), Planner.scratch

    def too_small(self: Planner, rows: int, cols: int) -> int:
        view = scratch(self, rows, cols)
        *place, elements, itemsize, iteration = self.blocks[-1]
        self.blocks[-1] = (*place, elements - cols, itemsize, iteration)
        return view

    monkeypatch.setattr(Planner, "scratch", too_small)
    with pytest.raises(ProofError):
        prove_plan(computation, plan(computation, "float64"))


def test_views_of_a_call_have_equally_many_columns() -> None:
    """As scratch memory for rows of another width, which PyTorch would give another size."""
    computation = moving_program()
    made = plan(computation)
    starts, known = made.call_start.tolist(), set[str]()
    for call, opcode in enumerate(made.opcodes[number] for number in made.call_opcode.tolist()):
        args = made.call_args[starts[call] : starts[call + 1]].tolist()
        views = args[VIEWS.get(opcode, slice(None))]
        if opcode in known or opcode in KERNEL_CALLS or len(views) < 2:
            continue
        known.add(opcode)
        with pytest.raises(ProofError, match=r"has views of \[7, 8\] columns|bytes"):
            prove_plan(computation, with_views(made, 5, -1, view=views[-1]))
    assert known >= {"cat", "select rows", "copy to rows", "add to rows", "sum", "copy each", "add each", "copy"}
