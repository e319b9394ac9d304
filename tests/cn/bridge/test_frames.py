"""The frames in which nnet3 has values, and those that a computational network keeps."""

from __future__ import annotations

import math

import pytest

import nnet3
from nnet3.cn.bridge.frames import ALWAYS, FramesOfNodes, FrameSpan
from nnet3.errors import NetworkError


def frames_of(lines: str) -> tuple[FramesOfNodes, dict[str, int]]:
    parts = nnet3.Nnet.from_config(f"input-node name=input dim=1\n{lines}\noutput-node name=output input=last").parts
    return FramesOfNodes(parts), parts.node_number


def node(name: str, descriptor: str, component: str = "NoOpComponent dim=1") -> str:
    return f"component name={name} type={component}\ncomponent-node name={name} component={name} input={descriptor}\n"


@pytest.mark.parametrize(
    ("lines", "there", "shift"),
    [
        (node("a", "Offset(input, -2)") + node("last", "a"), FrameSpan(2, 2), 0),
        (node("a", "Offset(input, 1)") + node("last", "Offset(a, -2)"), FrameSpan(-1, -1), -1),
        (node("a", "Offset(input, -1)") + node("last", "Offset(a, 2)"), FrameSpan(1, 1), 1),
        (node("a", "Sum(input, Offset(input, 3))") + node("last", "Offset(a, -1)"), FrameSpan(0, -3), 0),
        (node("a", "IfDefined(Offset(input, 3))") + node("last", "a"), ALWAYS, 0),
        (node("a", "Const(2.0, 1)") + node("last", "Sum(input, Offset(a, -9))"), ALWAYS, -9),
        (node("a", "input") + node("last", "Sum(a, IfDefined(Offset(last, -1)))"), FrameSpan(0, 0), 0),
    ],
)
def test_where_a_node_has_values_and_which_frame_stands_for_which(lines, there, shift) -> None:
    frames, numbers = frames_of(lines)
    assert frames.there[numbers["a"]] == there
    assert frames.shifts[numbers["a"]] == shift


def test_only_what_outputs_need_counts() -> None:
    frames, numbers = frames_of(node("last", "input") + node("unused", "Round(input, 3)"))
    assert numbers["unused"] not in frames.numbers


@pytest.mark.parametrize(
    "lines",
    [
        node("a", "IfDefined(Offset(input, 3))") + node("last", "Sum(a, Offset(a, -3))"),
        node("a", "IfDefined(Offset(input, -1))") + node("last", "Sum(a, IfDefined(Offset(last, -1)))"),
        node("a", "Offset(input, 1)") + node("last", "a", "TdnnComponent input-dim=1 output-dim=1 time-offsets=-2"),
    ],
)
def test_a_node_that_is_needed_in_more_frames_than_the_input_has(lines) -> None:
    says = r"'(a|last)' is needed before the first frame of the input or after the last, beside all others"
    with pytest.raises(NetworkError, match=says):
        frames_of(lines)


def test_a_component_that_needs_any_frame_has_values_wherever_one_is() -> None:
    pooling = "StatisticsPoolingComponent input-dim=3 input-period=1 left-context=2 right-context=3"
    frames, numbers = frames_of(
        "component name=s type=StatisticsExtractionComponent input-dim=1 input-period=1 output-period=1\n"
        "component-node name=s component=s input=input\n" + node("last", "s", pooling)
    )
    assert frames.there[numbers["last"]] == FrameSpan(-3, 2)
    assert frames.shifts[numbers["last"]] == 0


def test_frames() -> None:
    assert FrameSpan(1, -1).moved(2) == FrameSpan(3, 1)
    assert FrameSpan(1, -1).common(FrameSpan(0, -2)) == FrameSpan(1, -2)
    assert FrameSpan(1, -1).around(FrameSpan(0, -2)) == FrameSpan(0, -1)
    assert (FrameSpan(0, 0).fit, FrameSpan(0, 1).fit, ALWAYS.first) == (True, False, -math.inf)
