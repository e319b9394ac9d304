"""What info and pictures say of components, for every type there is."""

from __future__ import annotations

import importlib

import pytest

from nnet3.components import COMPONENT_TYPES, create
from nnet3.model.structure.component_notes import component_notes, format_offsets


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
def test_offsets_print_as_ranges(offsets: list[int], text: str) -> None:
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
        ("TimeHeightConvolutionComponent", "num-filters-in=2 num-filters-out=4 height-in=6 height-out=3 "
         "height-subsample-out=2 height-offsets=-1,0,1 time-offsets=-3,0,3",
         ["t-3, t, t+3; heights -1,0,1, stride 2; 2 -> 4 filters, height 6 -> 3"]),
        ("TimeHeightConvolutionComponent", "num-filters-in=2 num-filters-out=2 height-in=3 height-out=3 "
         "height-offsets=0 time-offsets=-1,0,1 required-time-offsets=0",
         ["t-1, t, t+1 (must have t); heights 0; 2 -> 2 filters, height 3 -> 3"]),
        ("ConvolutionComponent", "input-x-dim=5 input-y-dim=6 input-z-dim=1 filt-x-dim=2 filt-y-dim=3 filt-x-step=1 "
         "filt-y-step=3 num-filters=7", ["7 filters 2 x 3, strides 1 x 3, over 5 x 6 x 1"]),
        ("RestrictedAttentionComponent", "num-heads=2 key-dim=2 value-dim=3 time-stride=3 num-left-inputs=2 "
         "num-right-inputs=1 num-left-inputs-required=0 num-right-inputs-required=0",
         ["t-6, t-3, t, t+3; 2 heads, keys 2, values 3"]),
        ("StatisticsPoolingComponent", "input-dim=7 num-log-count-features=1 output-stddevs=true left-context=4 "
         "right-context=2 input-period=2", ["window t-4 .. t+2 every 2, standard deviations", "1 log-count"]),
        ("StatisticsExtractionComponent", "input-dim=2 include-variance=false output-period=3",
         ["mean over 3 frames, one each 1"]),
        ("GeneralDropoutComponent", "dim=4 block-dim=2 dropout-proportion=0.25 time-period=5",
         ["blocks of 2", "proportion 0.25", "same for 5 frames"]),
        ("GruNonlinearityComponent", "cell-dim=4 recurrent-dim=1", ["4 cells", "1 recurrent"]),
        ("CompositeComponent", "num-components=2 component1='type=BatchNormComponent dim=4 target-rms=2' "
         "component2='type=RectifiedLinearComponent dim=4'", ["BatchNorm (target rms 2), then RectifiedLinear"]),
        ("BackpropTruncationComponent", "dim=4 clipping-threshold=30 recurrence-interval=3",
         ["recurrence interval 3", "clips at 30"]),
    ],
)  # fmt: skip
def test_components_say_what_is_special(type_name: str, keys: str, notes: list[str]) -> None:
    assert component_notes(create(type_name, keys)) == notes


@pytest.mark.parametrize(
    ("attributes", "notes"),
    [
        ({"right_context": 3}, ["window t .. t+3"]),
        ({"right_context": 3, "left_context": 6, "input_period": 3}, ["window t-6 .. t+3 every 3"]),
        ({"right_context": 0, "output_stddevs": True}, ["window t .. t, standard deviations"]),
        ({"output_period": 2}, ["mean over 2 frames, one each 1"]),
        ({"time_mask_max_frames": 5}, ["zeroes 0 in masks of up to 5 frames"]),
        ({"sizes": (1, 2)}, []),
        ({"sizes": (1, 2), "steps": (3, 4)}, []),
        ({"sizes": (1, 2), "steps": (3, 4), "input_dims": (5, 6)}, ["window 1 x 2, strides 3 x 4, over 5 x 6"]),
        ({"num_log_count_features": 0, "num_blocks": 1}, ["1 block"]),
        ({"time_period": 0, "block_dim": 2, "cell_dim": 3}, ["3 cells"]),
        ({"time_period": 7, "recurrent_dim": 4}, ["4 recurrent", "same for 7 frames"]),
    ],
)
def test_a_type_of_ones_own_may_have_some_of_it(attributes: dict[str, object], notes: list[str]) -> None:
    component = create("NoOpComponent", "dim=2")
    vars(component).update(attributes)
    assert component_notes(component) == notes


@pytest.mark.parametrize("type_name", sorted(COMPONENT_TYPES))
def test_every_type_can_be_described(type_name: str) -> None:
    samples = importlib.import_module("tools.component_samples").SAMPLES
    assert all(component_notes(create(type_name, samples[type_name])))
