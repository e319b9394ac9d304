"""What lies where: matrices are declared for what is used, and only for that."""

from __future__ import annotations

from nnet3.engine.lowering.lower import lower
from tests.lowering.toy_checks import check_case
from tests.lowering.toy_loops import LoopCase
from tests.lowering.toy_operations import Tanh


def test_memory_of_which_nothing_is_needed_is_not_asked_for() -> None:
    """A parameter that the requested output does not use, and one of which no derivative is wanted."""
    case = LoopCase()
    used, unused = case.parameter(), case.parameter()
    fixed = case.graph.parameter(2, 2, trained=False)
    case.case.memory[case.graph.nodes[fixed].memory] = case.random(2, 2)
    case.multiply(case.input, unused, "unused")
    product = case.multiply(case.multiply(case.input, used, "used"), fixed, "fixed")
    asked = case.ask(case.compute(Tanh("tanh"), product), lengths=(3,))
    assert asked.request is not None
    computation = lower(asked.graph, asked.request)
    names = {name: case.graph.nodes[name].memory for name in (used, unused, fixed)}
    bound = {outside.name: outside.writable for outside in computation.outside}
    assert bound == {names[used]: False, f"{names[used]}.gradient": True, names[fixed]: False}


def test_rows_of_rows_that_have_a_derivative_of_their_own() -> None:
    """The rows of an input share its storage, and rows of them, which an output asks for too, share that."""
    case = LoopCase()
    rows = case.graph.rows_of(case.input)
    asked = case.ask(rows, case.compute(Tanh("tanh"), case.graph.rows_of(rows)), lengths=(4,))
    check_case(asked)
