"""The linker: calls are bound by the binders that it is given."""

from __future__ import annotations

import pytest
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import Plan, link, plan
from nnet3.engine.runtime.calls import CALLS
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.linker import Linker, RunState
from nnet3.engine.runtime.memory import Arena
from nnet3.errors import ExecutionError
from tests.runtime.programs import Program
from tests.runtime.scale_program import scale_program


def test_binders_are_those_given() -> None:
    program, said = Program(), list[float]()
    program.add(cmd.SetConst(program.matrix(2, 2), 4.0))
    made, device = plan(program.computation), torch.device("cpu")
    binders = {**CALLS, "fill": lambda link, args, number: link.each(said.append, link.always(number))}
    linker = Linker(made, Kernels({}), Arena(made.num_bytes, device), RunState(), Constants(device), {}, binders, False)
    for each in (linker, linker.anew()):
        bound = each.bind(made.num_calls - 1)
        assert bound is not None
        for call in bound:
            call()
    assert said == [4.0, 4.0]


def test_calls_of_another_version() -> None:
    made = plan(scale_program())
    header, arrays = made.to_data()
    header["opcodes"] = ["dance", *header["opcodes"][1:]]
    with pytest.raises(ExecutionError, match="call of opcode 'dance', which this version does not know: plan it again"):
        link(Plan.from_data(header, arrays), Kernels({}), Arena(made.num_bytes, torch.device("cpu")))
