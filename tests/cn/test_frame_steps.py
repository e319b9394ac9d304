"""Which rows each frame is given, asked for and hands on."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from nnet3 import cn
from nnet3.cn.frame_steps import FrameStep, FrameSteps


def steps_of(out: cn.Node) -> FrameSteps:
    return cn.Network(outputs=[out]).stepper(out)._steps


def times(steps: FrameSteps, rows: dict[int, np.ndarray]) -> dict[str, list[int]]:
    return {steps.source.nodes[node].name: table[:, 1].tolist() for node, table in rows.items()}


def test_a_loop_carries_the_rows_that_later_frames_look_at() -> None:
    x = cn.input("x", 2)
    delay = cn.delay(None, 2, dim=2)
    h = delay.connect(cn.tanh(x + cn.delay(delay, 1), name="h"))
    steps = steps_of(h)
    (step,) = steps.cycle
    at = int(step.wanted[steps.source.number[h]][0, 1])
    assert {name: [t - at for t in found] for name, found in times(steps, dict(step.before)).items()} == {
        "h": [-3, -2, -1]
    }
    assert {name: [t - at for t in found] for name, found in times(steps, step.computed).items()} == {"h": [0]}
    assert {name: [t - at for t in found] for name, found in times(steps, dict(step.new)).items()} == {
        "frame:exists": [-3, -2, -1, 0],
        "x": [0],
    }
    assert [len(each.before.get(steps.source.number[h], ())) for each in steps.head] == [0, 1, 2]
    assert [steps.step_index(frame) for frame in range(6)] == [0, 1, 2, 3, 3, 3]


def test_rows_of_inputs_are_carried_too() -> None:
    x = cn.input("x", 2)
    steps = steps_of(cn.tanh(cn.delay(x, 2)))
    (step,) = steps.cycle
    number = steps.source.number[x]
    assert len(step.before[number]) == 2
    assert step.kept[number] == (1, 2, None)  # of the two given from before and the new one
    assert number not in step.computed


@pytest.mark.parametrize(("rows", "places"), [([1, 3], [1, 3]), ([0, 2, 3], [0, 2, 3])])
def test_rows_that_do_not_lie_together(rows: list[int], places: list[int]) -> None:
    table = np.array([[0, t, 0] for t in range(4)], np.int32)
    step = FrameStep({}, {5: table}, {5: table[rows]}, {})
    first, last, found = step.kept[5]
    assert (first, last) == (places[0], places[-1])
    assert found is not None
    assert_array_equal(found.numpy(), places)
