"""The smallest computation with a forward and a backward part, and how to run it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.program_tables import IoInfo
from nnet3.engine.runtime import NnetComputer
from tests.runtime.programs import Program

FEATURES = np.arange(6.0).reshape(2, 3)


def scale_program(
    *, updatable: bool = True, need_model_derivative: bool = True, store_stats: bool = False, memo: int = -1
) -> NnetComputation:
    """output = scale(input), and backward."""
    program = Program()
    computation = program.computation
    computation.need_model_derivative = need_model_derivative
    computation.num_memos = memo + 1
    kernel = program.kernel(KernelInfo("scale", updatable=updatable, uses_memo=memo >= 0, stores_stats=store_stats))
    value, output = program.input("input", 2, 3), program.matrix(2, 3, "output")
    program.add(cmd.Propagate(kernel, "output", (value,), output, memo=memo, store_stats=store_stats))
    program.output("output", output)
    program.add(cmd.SegmentMarker())
    output_deriv, deriv = program.matrix(2, 3, "output"), program.matrix(2, 3, "input", is_deriv=True)
    program.add(
        cmd.AcceptInput(output_deriv, "output"),
        cmd.Backprop(kernel, "output", (value,), 0, output_deriv, (deriv,), (0,), update=True, memo=memo),
        cmd.ProvideOutput(deriv, "input"),
    )
    computation.inputs = [IoInfo("input", value, deriv)]
    return computation


def forward(computer: NnetComputer, features: Any = FEATURES) -> torch.Tensor:
    computer.accept_input("input", features)
    computer.run()
    return computer.get_output("output")
