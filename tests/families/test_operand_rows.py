"""Which rows operands have: those of their matrices, and in buffers for one time step those of the command."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.base.index import N, T
from nnet3.engine.driver import compile_task
from nnet3.engine.families.operand_rows import OperandRows
from nnet3.engine.families.ragged_rows import IndexRows, NotRaggedError
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.program_tables import MatrixInfo
from tests.families.networks import BLSTM, TDNN, request_for
from tests.runtime.programs import PRODUCT, Program

LAST = 99  # the time that is the end of all nodes


def before_end(info: MatrixInfo) -> np.ndarray:
    assert info.indexes is not None
    return LAST - info.indexes[:, T].astype(np.int64)


def rows_of(config: str, *, train: bool = False) -> OperandRows:
    nnet = nnet3.Nnet.from_config(config, seed=1)
    program = compile_task(request_for(nnet, 12, 2, train=train).task(nnet))
    return OperandRows(program, IndexRows(program, before_end, {}))


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_operands_of_matrices_with_times_have_these(config: str) -> None:
    operands = rows_of(config)
    program, rows, compared = operands.computation, operands.rows, 0
    for command, (starts, _) in zip(program.commands, operands.starts, strict=True):
        for number, start in zip(command.schema.operands(command), starts, strict=True):
            block = program.submatrices[number]
            info = program.matrix_info.get(block.matrix)
            if block.matrix not in rows.base or not isinstance(start, int):
                continue
            assert info is not None
            assert info.indexes is not None
            own = info.indexes[block.row_offset : block.row_offset + block.num_rows]
            found = slice(start, start + block.num_rows)
            np.testing.assert_array_equal(rows.n[found], own[:, N])
            np.testing.assert_array_equal(rows.before_end[found], LAST - own[:, T])
            compared += 1
    assert compared > 10


def test_buffers_have_the_times_of_the_command() -> None:
    """The gates of a BLSTM lie in a buffer for one step, the cells do not."""
    operands = rows_of(BLSTM)
    program, versions, times = operands.computation, operands.versions, list[int]()
    for command, (starts, _) in zip(program.commands, operands.starts, strict=True):
        if isinstance(command, cmd.Propagate) and command.node == "flstm":
            buffer, cells = versions.start(starts[0]), versions.start(starts[-1])
            assert isinstance(starts[0], tuple)
            assert operands.rows.same(buffer, cells, 2)
            times.append(int(operands.rows.before_end[cells]))
    assert times == sorted(times, reverse=True)
    assert len(times) > 12


@pytest.mark.parametrize("train", [False, True])
def test_kernels_work_on_each_row_of_their_node_once(train: bool) -> None:
    worked_on = rows_of(BLSTM, train=train).rows_of_kernels()
    assert {does for _, does, _, _ in worked_on} == ({"forward", "backward", "learn"} if train else {"forward"})
    for found in worked_on.values():
        np.testing.assert_array_equal(np.sort(found), np.unique(found))
        assert len(found) > 12


def test_rows_of_two_times_do_not_meet_row_by_row() -> None:
    program = Program()
    kernel = program.kernel(PRODUCT)
    one, other, out = (program.matrix(4, 2, name, zeroed=True) for name in ("one", "other", "out"))
    later = np.array([(0, t + 1, 0) for t in range(4)], np.int32)
    program.computation.matrix_info[2] = MatrixInfo("other", False, later)
    program.add(cmd.Propagate(kernel, "product", (one, other), out))
    operands = OperandRows(program.computation, IndexRows(program.computation, before_end, {}))
    assert [list(each) for each in operands.unlike.values()] == [[1]]
    del program.computation.matrix_info[2]
    with pytest.raises(NotRaggedError, match="the rows of matrix m2 have no indexes"):
        IndexRows(program.computation, before_end, {})
