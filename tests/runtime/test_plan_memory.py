"""Memory of plans: what a view wrote is read by the same view, until another one writes there."""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.plan_memory import PlanMemory
from tests.runtime.programs import Program


def test_what_others_overwrite_is_random() -> None:
    made = plan(Program().computation).changed(num_bytes=64)
    views = np.array([(0, 0, 0, 0, 2, 3, 0, 3, 0, 0), (0, 2, 0, 0, 1, 2, 0, 2, 0, 0)])
    spans, columns = {view: ColumnSpan(view, 0, 3 - view) for view in range(2)}, Columns()
    for span in spans.values():
        columns.use(span)
    columns.settle()
    memory = PlanMemory(made, views, spans, {}, columns, field.Drawing(1))
    whole, other = (memory.cells(view, 0) for view in range(2))
    assert memory.meet(whole, other)
    values = np.arange(4, dtype=np.uint64).reshape(2, 1, 2)
    memory.write(whole, values)
    np.testing.assert_array_equal(memory.read(whole), values)
    memory.write(other, values[:1])
    np.testing.assert_array_equal(memory.read(other), values[:1])
    assert (memory.read(whole) != values).any(axis=(1, 2)).all()  # it lies in both rows
