"""Plans compute what their programs compute."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from hypothesis import given, settings

from nnet3.errors import ProofError
from nnet3.ir.computation import NnetComputation
from nnet3.ir.proof.equal import PassResult, prove_equal
from nnet3.runtime import plan
from nnet3.runtime.calls import CALLS
from nnet3.runtime.plan_machine import VIEWS
from nnet3.runtime.proof import MEANINGS, prove_plan
from tests.ir.random_programs import ProgramWriter
from tests.runtime.programs import random_programs


def programs_of_seeds(count: int) -> list[NnetComputation]:
    """Programs that mean something: a backward pass may use a memo of other rows than its own in random ones."""
    found = []
    for seed in range(count):
        program = ProgramWriter(Random(seed)).program()
        with suppress(ProofError):
            prove_equal([PassResult("", program)])
            found.append(program)
    return found


def test_each_kind_of_calls_has_a_meaning() -> None:
    assert MEANINGS.keys() == VIEWS.keys() == CALLS.keys()


def test_random_programs() -> None:
    programs = programs_of_seeds(20)
    assert len(programs) > 15
    for program in programs:
        prove_plan(program, plan(program))


@settings(max_examples=20)
@given(random_programs())
def test_random_programs_with_loops(computation: NnetComputation) -> None:
    prove_plan(computation, plan(computation))
