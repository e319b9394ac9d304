"""Changes of single chain examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.chain import ChainExample, ChainTarget
from nnet3.chain.changes import ChainChanges, renamed, weighted
from nnet3.chain.example import merge
from nnet3.errors import ArgumentError, TrainingError
from nnet3.examples import NnetIo
from nnet3.kaldi_io import compress
from tests.chain.chain_data import indexes, random_acceptor, supervision_of


def _example(packed: bool = False) -> ChainExample:
    """Input at -4 .. 13, output at 0, 3, 6, 9."""
    rows = np.stack([np.zeros(18), np.arange(-4, 14), np.zeros(18)], axis=1).astype(np.int32)
    features = np.random.default_rng(0).random((18, 2)).astype(np.float32)
    inputs = (
        NnetIo("input", rows, compress(features) if packed else features),
        NnetIo("ivector", np.zeros((1, 3), np.int32), np.ones((1, 3), np.float32)),
    )
    return ChainExample(
        inputs, (ChainTarget("output", indexes(1, 4), supervision_of([random_acceptor(0, 4, 3)], 4, 3, weight=0.5)),)
    )


@pytest.mark.parametrize(("shift", "of_output"), [(1, 0), (2, 3), (-1, 0), (-2, -3), (3, 3), (7, 6), (0, 0)])
def test_outputs_move_by_the_nearest_multiple_of_their_step(shift: int, of_output: int) -> None:
    changed = ChainChanges(frame_shift=shift).apply(_example())
    assert changed.inputs[0].indexes[0].tolist() == [0, -4 + shift, 0]
    assert changed.inputs[1].indexes.tolist() == [[0, 0, 0]]
    assert changed.outputs[0].indexes[:, 1].tolist() == [t + of_output for t in (0, 3, 6, 9)]


def test_a_half_is_rounded_upwards() -> None:
    example = replace(_example(), outputs=(replace(_example().outputs[0], indexes=indexes(1, 4, step=2)),))
    for shift, expected in ((1, 2), (-1, 0), (3, 4)):
        assert ChainChanges(frame_shift=shift).apply(example).outputs[0].indexes[0, 1] == expected


@pytest.mark.parametrize("packed", [False, True])
def test_context_is_cut_after_the_shift(packed: bool) -> None:
    changed = ChainChanges(1, left_context=2, right_context=0).apply(_example(packed))
    assert changed.inputs[0].indexes[:, 1].tolist() == list(range(-2, 10))
    assert isinstance(changed.inputs[0].matrix, np.ndarray)
    kept = ChainChanges(1, left_context=99).apply(_example(packed)).inputs[0]
    assert len(kept.indexes) == 18
    assert isinstance(kept.matrix, np.ndarray) != packed
    with pytest.raises(TrainingError, match="this one is merged"):
        ChainChanges(left_context=2).apply(merge([_example(), _example()]))
    for given, times in (({"left_context": 2}, range(-2, 14)), ({"right_context": 1}, range(-4, 11))):
        assert ChainChanges(**given).apply(_example(packed)).inputs[0].indexes[:, 1].tolist() == list(times)
    for wrong in ({"left_context": -1}, {"right_context": -1}):
        with pytest.raises(ArgumentError, match="contexts"):
            ChainChanges(**wrong)


def test_weights_and_names() -> None:
    assert weighted(_example(), 0.7).outputs[0].supervision.weight == float(np.float32(0.5) * np.float32(0.7))
    assert renamed(_example(), "output-2").outputs[0].name == "output-2"
    with pytest.raises(TrainingError, match="no 'output', but output-2"):
        weighted(renamed(_example(), "output-2"), 2.0)


def test_times_beyond_32_bits() -> None:
    with pytest.raises(TrainingError, match="beyond 32 bits"):
        ChainChanges(frame_shift=2**31 - 2).apply(_example())
    moved = replace(_example().inputs[0], indexes=_example().inputs[0].indexes - [[0, 100, 0]])
    with pytest.raises(TrainingError, match="'output' would have t beyond"):
        ChainChanges(frame_shift=2**31 - 5).apply(replace(_example(), inputs=(moved,)))
    target = replace(_example().outputs[0], indexes=indexes(1, 4, step=1))
    for shift, last in ((2**31 - 4, 2**31 - 1), (2**31 - 3, None)):
        example = replace(_example(), inputs=(moved,), outputs=(target,))
        if last is None:
            with pytest.raises(TrainingError, match="beyond 32 bits"):
                ChainChanges(frame_shift=shift).apply(example)
        else:
            assert ChainChanges(frame_shift=shift).apply(example).outputs[0].indexes[-1, 1] == last
