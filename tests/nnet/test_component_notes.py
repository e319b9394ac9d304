"""What info and pictures say of components, for every type there is."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from nnet3.components import COMPONENT_TYPES, create
from nnet3.nnet.component_notes import component_notes, format_offsets

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([0], "t"),
        ([-3, 0, 3], "t-3, t, t+3"),
        (list(range(-4, 5)), "t-4 .. t+4"),
        (list(range(-10, 11, 2)), "t-10 .. t+10 every 2"),
        ([-9, -3, 0, 1, 2, 4], "t-9, t-3, t, t+1, t+2, t+4"),
    ],
)
def test_offsets(offsets: list[int], text: str) -> None:
    assert format_offsets(offsets) == text


@pytest.mark.parametrize(
    ("type_name", "keys", "notes"),
    [
        ("TdnnComponent", "input-dim=2 output-dim=2 time-offsets=-1,0", ["t-1, t"]),
        ("AffineComponent", "input-dim=2 output-dim=2", []),
        ("MaxpoolingComponent", "input-x-dim=4 input-y-dim=2 input-z-dim=1 pool-x-size=2 pool-y-size=2 pool-z-size=1 "
         "pool-x-step=2 pool-y-step=2 pool-z-step=1", ["window 2 x 2 x 1, strides 2 x 2 x 1, over 4 x 2 x 1"]),
        ("StatisticsExtractionComponent", "input-dim=2 input-period=2 output-period=6",
         ["mean and variance over 6 frames, one each 2"]),
        ("CompositeComponent",
         "num-components=1 component1='type=RepeatedAffineComponent input-dim=4 output-dim=4 num-repeats=2'",
         ["RepeatedAffine (2 repeats)"]),
        ("BatchNormComponent", "dim=6 block-dim=3 target-rms=0.5", ["blocks of 3", "target rms 0.5"]),
        ("DropoutComponent", "dim=6 dropout-proportion=0.1 test-mode=true", ["proportion 0.1", "test mode"]),
        ("SumGroupComponent", "sizes=2,3", []),
        ("SpecAugmentTimeMaskComponent", "dim=4 zeroed-proportion=0.25 time-mask-max-frames=8",
         ["zeroes 0.25 in masks of up to 8 frames"]),
        ("BackpropTruncationComponent", "dim=4 clipping-threshold=30 recurrence-interval=3",
         ["recurrence interval 3", "clips at 30"]),
    ],
)  # fmt: skip
def test_notes(type_name: str, keys: str, notes: list[str]) -> None:
    assert component_notes(create(type_name, keys)) == notes


@pytest.mark.parametrize("type_name", sorted(COMPONENT_TYPES))
def test_every_type_can_be_described(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    samples = importlib.import_module("component_samples").SAMPLES
    assert all(component_notes(create(type_name, samples[type_name])))
