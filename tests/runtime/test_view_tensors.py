"""The views of a plan as tensors: where they lie, those of one place, and those of all iterations of a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.view_tensors import ViewTensors
from tests.runtime.programs import Program

COLUMNS = 3


def plan_of_parts(rows: int = 12) -> Plan:
    """One matrix, which is set, with two equal views, and one of its first row."""
    program = Program()
    matrix = program.matrix(rows, COLUMNS)
    whole, first = program.part(matrix, 0, rows), program.part(matrix, 0, 1)
    program.add(cmd.SetConst(matrix, 1.0), cmd.SetConst(whole, 1.0), cmd.SetConst(first, 1.0))
    return plan(program.computation)


def tensors_of(made: Plan) -> tuple[ViewTensors, torch.Tensor]:
    """The tensors, and the memory in which they lie, where each number is its own address."""
    arena = Arena(made.num_bytes, torch.device("cpu"))
    lane = arena.lane(torch.float32)
    lane.copy_(torch.arange(len(lane)))
    return ViewTensors(made, arena, {}), lane


def test_views_lie_in_the_arena_and_those_of_one_place_are_one_tensor() -> None:
    made = plan_of_parts()
    made = replace(made, views=made.views[[0, 1, 0]])
    tensors, lane = tensors_of(made)
    assert tensors.fixed[0] is tensors.fixed[2]
    assert [each.shape for each in tensors.fixed if each is not None] == [(12, 3), (1, 3), (12, 3)]
    assert [each is tensors.fixed[1] for each in tensors.of(1, range(2, 5))] == [True] * 3
    for view in tensors.fixed:
        assert view is not None
        assert torch.equal(view.reshape(-1), lane[: view.numel()])


def test_views_of_another_plan_move_unless_those_of_one_place_part() -> None:
    made = plan_of_parts()
    made = replace(made, views=made.views[[0, 1, 0]])
    tensors, _ = tensors_of(made)
    kept = list(tensors.fixed)
    for change, is_alike in (([0, 2, 0], True), ([1, 0, 0], False)):
        views = made.views.copy()
        views[:, 1] += COLUMNS * np.array(change)
        assert tensors.move(replace(made, views=views)) == is_alike
    assert all(one is other for one, other in zip(tensors.fixed, kept, strict=True))
    assert kept[1] is not None
    assert float(kept[1].new_tensor(kept[1].storage_offset())) == 2 * COLUMNS


@pytest.mark.parametrize("step", [0, 1, 2, -2])
def test_views_that_move_by_equal_steps(step: int) -> None:
    made = plan_of_parts()
    views, first = made.views[:1].copy(), 8 if step < 0 else 0
    views[0, [1, 4, 8]] = first * COLUMNS, 2, step * COLUMNS
    views[0, 9] = 0
    views = np.concatenate([views, views])
    views[1, 8] = COLUMNS
    tensors, lane = tensors_of(replace(made, views=views))
    rows = lane[: 12 * COLUMNS].view(12, COLUMNS)
    for iterations in (range(5), range(2, 4), range(3, 4)):
        tensors.forget_iterations()
        for iteration, found in zip(iterations, tensors.of(0, iterations), strict=True):
            begin = first + iteration * step
            assert torch.equal(found, rows[begin : begin + 2])


@pytest.mark.parametrize(
    "blocks",
    [
        [(0, 4), (4, 3), (7, 1)],
        [(0, 4), (5, 3), (9, 1)],
        [(9, 2), (5, 3), (2, 3)],
        [(0, 4), (2, 3), (3, 1)],
        [(1, 4), (1, 3), (1, 1)],
    ],
)
def test_views_that_move_unevenly(blocks: list[tuple[int, int]]) -> None:
    """Blocks that touch, with gaps between, backward, that overlap, that begin at one row."""
    made = plan_of_parts()
    views = made.views[:1].copy()
    views[0, [1, 4, 9]] = 0, 0, 1
    tensors, lane = tensors_of(replace(made, views=views, uneven=(np.array(blocks),)))
    rows = lane[: 12 * COLUMNS].view(12, COLUMNS)
    for iterations in (range(3), range(1, 3), range(2, 3)):
        tensors.forget_iterations()
        for iteration, found in zip(iterations, tensors.of(0, iterations), strict=True):
            first, count = blocks[iteration]
            assert torch.equal(found, rows[first : first + count])
