"""Recurrences written as head, period and tail: the same commands as step by step, and what they compute is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import nnet3
from nnet3.ir.commands import Command, CopyRows
from nnet3.ir.computation import NnetComputation
from nnet3.lowering import lower
from nnet3.lowering.repeat import Repeater
from tests.lowering.networks import LSTM, request_for
from tests.lowering.toy_checks import check_case
from tests.lowering.toy_loops import LOOPS
from tests.lowering.toy_requests import ToyCase


def resolved(computation: NnetComputation) -> list[tuple[type[Command], list[object]]]:
    """Commands with blocks, tables and precomputed entries in the place of their numbers; memos in order of use."""
    memos: dict[int, int] = {-1: -1}
    found = []
    for command in computation.commands:
        values: list[object] = [computation.submatrices[number] for number in command.form.operands(command)]
        for name in command.form.names:
            value = getattr(command, name)
            if name == "memo":
                values.append(memos.setdefault(value, len(memos)))
            elif name == "precomputed":
                arrays = computation.precomputed[value] or {}
                values.append({key: array.tolist() for key, array in arrays.items()})
            elif name == "indexes":
                values.append(computation.index_tables[value].tolist())
            elif name not in command.form.operand_names:
                values.append((name, value))
        found.append((type(command), values))
    return found


def without_repeats(function: Callable[[], NnetComputation], monkeypatch: pytest.MonkeyPatch) -> NnetComputation:
    with monkeypatch.context() as patched:
        patched.setattr(import_module("nnet3.lowering.generate"), "find_repeat", lambda *_: None)
        return function()


def counted_repeats(function: Callable[[], NnetComputation], monkeypatch: pytest.MonkeyPatch) -> tuple[object, int]:
    """The program, and how many periods were written by arithmetic."""
    count = 0
    moved = Repeater._moved

    def counting(self: Repeater, template: object, shifts: object, periods: list[object]) -> list[Command]:
        nonlocal count
        count += len(periods)
        return moved(self, template, shifts, periods)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Repeater, "_moved", counting)
        return function(), count


def check_same(function: Callable[[], NnetComputation], monkeypatch: pytest.MonkeyPatch) -> int:
    whole = resolved(without_repeats(function, monkeypatch))
    program, count = counted_repeats(function, monkeypatch)
    assert isinstance(program, NnetComputation)
    short = resolved(program)
    assert len(short) == len(whole)
    assert max(Counter(program.submatrices).values()) <= 4  # what stays where it is has no new number each time
    for number, (got, want) in enumerate(zip(short, whole, strict=True)):
        assert got == want, f"command {number}"
    return count


@pytest.mark.parametrize("name", LOOPS)
def test_toy_loops_are_the_same_written_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = LOOPS[name]()
    assert isinstance(case, ToyCase)
    assert case.request is not None
    request = case.request
    count = check_same(lambda: lower(case.graph, request), monkeypatch)
    assert (count > 0) == (not name.startswith("window"))
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


NESTED = """
input-node name=input dim=2
component name=W type=NaturalGradientAffineComponent input-dim=6 output-dim=2
component name=tanh type=TanhComponent dim=2
component-node name=a component=W input=Append(input, IfDefined(Offset(h, -1)), IfDefined(Offset(g, -2)))
component-node name=h component=tanh input=a
component name=sigmoid type=SigmoidComponent dim=2
component-node name=g component=sigmoid input=Sum(h, IfDefined(Offset(g, -1)))
output-node name=output input=g
"""
BATCH_NORM = """
input-node name=input dim=2
component name=bn type=BatchNormComponent dim=2
component-node name=h component=bn input=Sum(input, IfDefined(Offset(h, -1)))
output-node name=output input=h
"""


@pytest.mark.parametrize("num_sequences", [1, 3])
@pytest.mark.parametrize("config", [LSTM, NESTED, BATCH_NORM], ids=["lstm", "nested", "memo"])
def test_networks_are_the_same_written_out(config: str, num_sequences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = nnet3.Nnet.from_config(config)
    rows = np.array([(n, t, 0) for n in range(num_sequences) for t in range(60)])
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", rows, True)],
        [nnet3.IoSpecification("output", rows[rows[:, 1] > 3], True)],
        True,
    )
    plain = nnet3.CompileOptions(optimize=False)
    assert check_same(lambda: nnet3.compile(nnet, request, plain), monkeypatch) > 0


def test_short_recurrences_are_written_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = nnet3.Nnet.from_config(NESTED)
    request = request_for(nnet, 2, True)
    rows = request.inputs[0].indexes
    few = rows[(rows[:, 1] >= 0) & (rows[:, 1] < 3)]
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", few)], [nnet3.IoSpecification("output", few)])
    assert check_same(lambda: nnet3.compile(nnet, request), monkeypatch) == 0


def test_rows_of_one_time_step_belong_to_no_time() -> None:
    nnet = nnet3.Nnet.from_config(LSTM)
    rows = np.array([(n, t, 0) for n in range(2) for t in range(60)])
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)])
    computation = nnet3.compile(nnet, request, nnet3.CompileOptions(optimize=False))
    lines = str(computation).splitlines()
    assert "m3(2, 12) == value: gates [ (0, -) (1, -) ]" in lines


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
