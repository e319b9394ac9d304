"""The planner: scratch memory, tables that are looked at once."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import NnetComputer, packing, plan, planner
from nnet3.engine.runtime.proof import prove_plan
from tests.runtime.programs import Program


def test_scratch_lies_between_what_is_alive() -> None:
    """Sums need room for one matrix; a gap between two that are alive is large enough."""
    program = Program()
    a, gap, b = (program.matrix(16, 4, zeroed=True) for _ in range(3))
    program.add(cmd.DeallocMatrix(gap))
    program.add(cmd.AddRowRanges(a, b, program.range_table([(row, row + 1) for row in range(16)])))
    assert plan(program.computation).num_bytes == 3 * 16 * 4 * 4


def test_equal_index_tables_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return row_pattern(*args)

    row_pattern = planner.row_pattern
    monkeypatch.setattr(planner, "row_pattern", counted)
    program = Program()
    source, dest = program.matrix(9, 2, zeroed=True), program.matrix(3, 2)
    for _ in range(5):
        program.add(cmd.CopyRows(dest, source, program.index_table([4, 2, 7])))
    plan(program.computation)
    assert calls == 1


WIDE = """
component name=a type=AffineComponent input-dim=6 output-dim=256
component name=relu type=RectifiedLinearComponent dim=256 self-repair-scale=0
component name=norm type=BatchNormComponent dim=256
component name=w type=AffineComponent input-dim=512 output-dim=1024
component name=cell type=LstmNonlinearityComponent cell-dim=256
component name=trunc type=BackpropTruncationComponent dim=512 recurrence-interval=1
input-node name=input dim=3
component-node name=a component=a input=Append(input, Offset(input, 1))
component-node name=relu component=relu input=a
component-node name=norm component=norm input=relu
component-node name=w component=w input=Append(norm, IfDefined(Offset(m, -1)))
component-node name=cell component=cell input=Append(w, IfDefined(Offset(c, -1)))
component-node name=trunc component=trunc input=cell
dim-range-node name=c input-node=trunc dim-offset=0 dim=256
dim-range-node name=m input-node=trunc dim-offset=256 dim=256
output-node name=output input=Sum(m, Offset(norm, 1))
"""


def test_rows_that_lie_apart_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = nnet3.Nnet.from_config(WIDE, seed=1).to(torch.float64)
    given, wanted = (
        nnet3.IoSpecification(name, [(n, t, 0) for t in times for n in (0, 1)], has_deriv=True)
        for name, times in (("input", range(10)), ("output", range(7)))
    )
    computation = nnet3.compile(nnet, nnet3.ComputationRequest([given], [wanted], need_model_derivative=True))
    generator = torch.Generator().manual_seed(0)
    x, y_deriv = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((20, 3), (14, 256)))
    found = []
    for gap in (16, 0):
        monkeypatch.setattr(packing, "_GAP", gap)
        gradient, program, shown = nnet.gradient_copy(), computation.copy(), io.StringIO()
        computer = NnetComputer(program, nnet, gradient, debug=True, debug_file=shown)
        prove_plan(program, computer.plan)
        y = computer.compute({"input": x})["output"]
        x_deriv = computer.compute({"output": y_deriv})["input"]
        derivs = [each for component in gradient.components.values() for each in component.parameters().values()]
        found.append((computer.plan.num_bytes, shown.getvalue(), [y, x_deriv, *derivs]))
    (apart, text, ours), (side_by_side, same_text, theirs) = found
    assert apart > side_by_side
    assert text == same_text
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
