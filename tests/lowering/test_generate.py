"""Programs of recurrences: what they compute is right, and they take no more memory than they need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nnet3
from nnet3.engine.ir.commands import CopyRows
from nnet3.engine.lowering.lower import lower
from tests.effort import EFFORT
from tests.lowering.networks import LSTM
from tests.lowering.toy_checks import check_case
from tests.lowering.toy_loops import LOOPS
from tests.lowering.toy_requests import ToyCase


@pytest.mark.parametrize("name", list(LOOPS)[:: 3 if EFFORT == 1 else 1])
def test_loops_compute_what_the_oracle_does(name: str) -> None:
    case = LOOPS[name]()
    assert isinstance(case, ToyCase)
    check_case(case)


@pytest.mark.parametrize("name", ["simple", "nested", "own weights"])
def test_one_node_may_be_several_outputs(name: str) -> None:
    """Their derivatives add up, whichever comes first."""
    case = LOOPS[name]()
    assert case.request is not None
    outputs = list(case.request.outputs)
    for rows in case.request.outputs:
        outputs.append(replace(rows, name=f"{rows.name} again", indexes=rows.indexes[::-3].copy()))
        case.derivs[outputs[-1].name] = 2 * case.derivs[rows.name][::3]
    for ordered in (outputs, outputs[::-1]):
        case.request = replace(case.request, outputs=ordered)
        check_case(case)


def test_rows_of_one_time_step_belong_to_no_time() -> None:
    nnet = nnet3.Nnet.from_config(LSTM)
    rows = np.array([(n, t, 0) for n in range(2) for t in range(60)])
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)])
    computation = nnet3.compile(nnet, request, nnet3.CompileOptions(optimize=False))
    lines = str(computation).splitlines()
    assert "m3(2, 12) == value: gates [ (0:1, -) ]" in lines


def test_rows_in_the_order_of_the_user_are_not_copied() -> None:
    case = LOOPS["one sequence"]()
    assert case.request is not None
    assert not any(isinstance(command, CopyRows) for command in lower(case.graph, case.request).commands)


def test_values_and_derivatives_of_a_loop_take_the_rows_of_one_step() -> None:
    """Those that nobody needs once the next step begins: memory does not grow with the number of frames."""
    case = LOOPS["simple"]()
    assert case.request is not None
    computation = lower(case.graph, case.request)
    of_one_step = {
        (info.node, info.is_deriv)
        for number, info in computation.matrix_info.items()
        if computation.matrices[number].num_rows == 3  # sequences
    }
    assert of_one_step == {("gather1", True), ("mergingmatmul5", False), ("plus6", False), ("plus6", True)}
