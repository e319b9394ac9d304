"""Programs whose row numbers and index tables are parameters: one plan moves the rows of all their tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation, RowNumbers
from nnet3.engine.ir.program_tables import IoInfo, SubMatrix
from nnet3.engine.runtime import NnetComputer, plan_of
from nnet3.engine.runtime.planning import unplaced_plan_by
from nnet3.engine.runtime.proof import prove_plan
from nnet3.engine.runtime.row_planner import RowPlanner, TableSelection, parameters_of
from nnet3.errors import ProofError
from tests.runtime.wrong_plans import wrong_calls
from tests.seeds import shifted

COLS = 3


class NoKernels:
    components: dict[str, Any] = {}


def moving(
    table: np.ndarray, num_source: int, kept: dict[str, Any], *, add: bool, scale: float, cols: int
) -> NnetComputation:
    """y = x1, and then rows of x2 are copied or added to the first columns of y, as the table says."""
    c = NnetComputation()
    rows = len(table)
    x1, x2, y = c.new_matrix(rows, COLS), c.new_matrix(num_source, cols), c.new_matrix(rows, COLS)
    c.inputs, c.outputs = [IoInfo("x1", x1, 0), IoInfo("x2", x2, 0)], [IoInfo("y", y, 0)]
    dest = c.find_or_add(SubMatrix(c.submatrices[y].matrix, 0, rows, 0, cols))
    move = (cmd.AddRows if add else cmd.CopyRows)(dest, x2, c.new_index_table(table), scale)
    c.commands = [
        *(cmd.AllocMatrix(x1, zeroed=False), cmd.AcceptInput(x1, "x1")),
        *(cmd.AllocMatrix(x2, zeroed=False), cmd.AcceptInput(x2, "x2")),
        *(cmd.AllocMatrix(y, zeroed=False), cmd.MatrixCopy(y, x1), move, cmd.ProvideOutput(y, "y")),
        *(cmd.DeallocMatrix(x1), cmd.DeallocMatrix(x2)),
    ]
    check_computation(c)
    blocks = np.array([block[1:3] for block in c.submatrices])
    matrices = np.array([matrix.num_rows for matrix in c.matrices])
    c.row_numbers = RowNumbers(blocks, matrices, {}, [], c.index_tables, c.precomputed, kept)
    return c


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("lacks_rows", [False, True])
@pytest.mark.parametrize("scale", [1.0, -0.5])
@pytest.mark.parametrize("cols", [COLS, 2])
def test_rows_of_all_tables(add: bool, lacks_rows: bool, scale: float, cols: int) -> None:
    rng, kept, computer = np.random.default_rng(shifted(1)), dict[str, Any](), None
    plans = []
    for rows, num_source in ((4, 3), (6, 9), (2, 2), (5, 7)):
        table = rng.integers(0, num_source, rows)
        if lacks_rows:
            table[rng.integers(rows)] = -1
        program = moving(table, num_source, kept, add=add, scale=scale, cols=cols)
        x1, x2 = rng.normal(size=(rows, COLS)), rng.normal(size=(num_source, cols))
        if computer is None:
            computer = NnetComputer(program, NoKernels(), dtype=torch.float64)
        else:
            computer.change(program)
        found = computer.compute({"x1": torch.from_numpy(x1), "x2": torch.from_numpy(x2)})["y"]
        expected, moved = x1.copy(), scale * np.where(table[:, None] < 0, 0, x2[table])
        expected[:, :cols] = expected[:, :cols] + moved if add else moved
        np.testing.assert_allclose(found.numpy(), expected)
        plans.append(plan_of(program, torch.float64, prove=True))
        for _, wrong in wrong_calls(plans[-1], since=6):
            with pytest.raises(ProofError):
                prove_plan(program, wrong)
    assert all(each.has_calls_of(plans[1]) for each in plans[1:]), "all but the first, which was planned alone"


def test_parts_of_tables() -> None:
    table = np.array([4, -1, 0, -1], np.int32)
    selections = {selected.name: selected.of(table).tolist() for selected in TableSelection}
    assert selections == {"ALL": [4, -1, 0, -1], "SOURCE": [4, 0], "DEST": [0, 2], "MISSING": [1, 3]}
    assert {selected.of(table).dtype for selected in TableSelection} == {np.dtype(np.int64)}


def test_parameters_are_rows_of_blocks_of_matrices_and_of_tables() -> None:
    program = moving(np.array([1, -1]), 3, {}, add=True, scale=1.0, cols=2)
    assert program.row_numbers is not None
    planner = RowPlanner(program, "float64")
    assert planner.rows_of(0) == planner.rows_of(0)
    values = parameters_of(program.row_numbers)
    ((last,),) = planner.rows_of(0).terms
    assert (len(values), values[last]) == (last + 1, 1)
    matrix = planner.computation.matrices[1].num_rows
    ((own,),) = matrix.terms  # type: ignore[attr-defined]
    assert values[own] == 2


def test_other_tables_are_refused() -> None:
    program = moving(np.array([1, 0]), 3, {}, add=True, scale=1.0, cols=2)
    table = program.new_multi_table(np.array([[2, 0], [2, 1]]))
    program.commands[6] = cmd.AddRowsMulti(program.commands[6].dest, table)  # type: ignore[attr-defined]
    check_computation(program)
    with pytest.raises(NotAffineError):
        unplaced_plan_by(RowPlanner(program, "float64"))
