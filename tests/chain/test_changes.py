"""Changes of single chain examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.errors import ArgumentError, TrainingError
from nnet3.training.chain.changes import ChainChanges
from nnet3.training.chain.example import merge, renamed, weighted
from tests.chain.chain_data import indexes, small_example


@pytest.mark.parametrize(("shift", "of_output"), [(1, 0), (2, 3), (-1, 0), (-2, -3), (3, 3), (7, 6), (0, 0)])
def test_outputs_move_by_the_nearest_multiple_of_their_step(shift: int, of_output: int) -> None:
    changed = ChainChanges(frame_shift=shift).apply(small_example())
    assert changed.inputs[0].indexes[0].tolist() == [0, -4 + shift, 0]
    assert changed.inputs[1].indexes.tolist() == [[0, 0, 0]]
    assert changed.outputs[0].indexes[:, 1].tolist() == [t + of_output for t in (0, 3, 6, 9)]


def test_a_half_is_rounded_upwards() -> None:
    example = replace(small_example(), outputs=(replace(small_example().outputs[0], indexes=indexes(1, 4, step=2)),))
    for shift, expected in ((1, 2), (-1, 0), (3, 4)):
        assert ChainChanges(frame_shift=shift).apply(example).outputs[0].indexes[0, 1] == expected


@pytest.mark.parametrize("packed", [False, True])
def test_context_is_cut_after_the_shift(packed: bool) -> None:
    changed = ChainChanges(1, left_context=2, right_context=0).apply(small_example(packed))
    assert changed.inputs[0].indexes[:, 1].tolist() == list(range(-2, 10))
    assert isinstance(changed.inputs[0].matrix, np.ndarray)
    kept = ChainChanges(1, left_context=99).apply(small_example(packed)).inputs[0]
    assert len(kept.indexes) == 18
    assert isinstance(kept.matrix, np.ndarray) != packed
    with pytest.raises(TrainingError, match="this one is merged"):
        ChainChanges(left_context=2).apply(merge([small_example(), small_example()]))
    for given, times in (({"left_context": 2}, range(-2, 14)), ({"right_context": 1}, range(-4, 11))):
        assert ChainChanges(**given).apply(small_example(packed)).inputs[0].indexes[:, 1].tolist() == list(times)
    for wrong in ({"left_context": -1}, {"right_context": -1}):
        with pytest.raises(ArgumentError, match="contexts"):
            ChainChanges(**wrong)


def test_weights_and_names() -> None:
    assert weighted(small_example(), 0.7).outputs[0].supervision.weight == float(np.float32(0.5) * np.float32(0.7))
    assert renamed(small_example(), "output-2").outputs[0].name == "output-2"
    with pytest.raises(TrainingError, match="no 'output', but output-2"):
        weighted(renamed(small_example(), "output-2"), 2.0)


def test_times_beyond_32_bits() -> None:
    with pytest.raises(TrainingError, match="beyond 32 bits"):
        ChainChanges(frame_shift=2**31 - 2).apply(small_example())
    moved = replace(small_example().inputs[0], indexes=small_example().inputs[0].indexes - [[0, 100, 0]])
    with pytest.raises(TrainingError, match="'output' would have t beyond"):
        ChainChanges(frame_shift=2**31 - 5).apply(replace(small_example(), inputs=(moved,)))
    target = replace(small_example().outputs[0], indexes=indexes(1, 4, step=1))
    for shift, last in ((2**31 - 4, 2**31 - 1), (2**31 - 3, None)):
        example = replace(small_example(), inputs=(moved,), outputs=(target,))
        if last is None:
            with pytest.raises(TrainingError, match="beyond 32 bits"):
                ChainChanges(frame_shift=shift).apply(example)
        else:
            assert ChainChanges(frame_shift=shift).apply(example).outputs[0].indexes[-1, 1] == last
