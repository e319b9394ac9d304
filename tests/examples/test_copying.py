"""Changes of single examples."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import ArgumentError, TrainingError
from nnet3.examples import EXAMPLES, Example, NnetIo
from nnet3.kaldi_io import CompressedMatrix, compress
from nnet3.training.examples.copying import Changes, shift_times
from nnet3.training.examples.example import renamed, weighted
from tests.train.example_data import frame_example, grid, written

IVECTOR = NnetIo("ivector", grid(1, np.arange(1)), np.ones((1, 2), np.float32))
EXAMPLE = frame_example(np.random.default_rng(0), frames=8, context=5, ivector=IVECTOR)


def _times(example: Example | None) -> dict[str, list[int]]:
    assert example is not None
    for io in example.ios:
        original = EXAMPLE.io(io.name)
        assert original is not None
        first = original.indexes[:, 1].tolist().index(io.indexes[0, 1])
        np.testing.assert_array_equal(dense(io.matrix), dense(original.matrix)[first : first + len(io.indexes)])
    return {io.name: io.indexes[:, 1].tolist() for io in example.ios}


def test_without_changes_it_is_the_same_object() -> None:
    assert Changes().apply(EXAMPLE, np.random.default_rng(0)) is EXAMPLE


def test_one_frame_with_less_context() -> None:
    rng = np.random.default_rng(0)
    changed = Changes(frame=3, left_context=2, right_context=1).apply(EXAMPLE, rng)
    assert _times(changed) == {"input": [1, 2, 3, 4], "ivector": [0], "output": [3]}
    assert _times(Changes(frame=0).apply(EXAMPLE, rng))["input"] == list(range(-5, 13))
    assert _times(Changes(left_context=0).apply(EXAMPLE, rng))["input"] == list(range(0, 13))
    assert _times(Changes(right_context=9).apply(EXAMPLE, rng))["input"] == list(range(-5, 13))
    assert _times(Changes(frame=7).apply(EXAMPLE, rng))["output"] == [7]
    assert Changes(frame=8).apply(EXAMPLE, rng) is None
    assert Changes(frame=-1).apply(EXAMPLE, rng) is None
    drawn = {tuple(_times(Changes(frame="random").apply(EXAMPLE, rng))["output"]) for _ in range(100)}
    assert drawn == {(t,) for t in range(8)}


def test_all_times_are_shifted() -> None:
    changed = Changes(frame_shift=2).apply(EXAMPLE, np.random.default_rng(0))
    assert changed is not None
    empty = NnetIo("other", np.zeros((0, 3), np.int32), np.zeros((0, 1), np.float32))
    assert shift_times(empty, 2).indexes.shape == (0, 3)
    times = {io.name: io.indexes[:, 1].tolist() for io in changed.ios}
    assert times == {"input": list(range(-3, 15)), "ivector": [0], "output": list(range(2, 10))}


def test_shift_beyond_32_bits() -> None:
    furthest = Changes(frame_shift=2**31 - 13).apply(EXAMPLE, np.random.default_rng(0))
    assert furthest is not None
    assert furthest.ios[0].indexes[-1].tolist() == [0, 2**31 - 1, 0]
    with pytest.raises(TrainingError, match="'input' would have t beyond 32 bits"):
        Changes(frame_shift=2**31 - 12).apply(EXAMPLE, np.random.default_rng(0))
    with pytest.raises(TrainingError, match="'input' would have t beyond 32 bits"):
        Changes(frame_shift=2**31 - 5).apply(EXAMPLE, np.random.default_rng(0))


def test_compressed_input_is_decoded_only_if_it_is_cut() -> None:
    features = EXAMPLE.ios[0]
    packed = Example((NnetIo("input", features.indexes, compress(dense(features.matrix))), *EXAMPLE.ios[1:]))
    rng = np.random.default_rng(0)
    shifted, cut = Changes(frame_shift=1).apply(packed, rng), Changes(left_context=4).apply(packed, rng)
    assert shifted is not None
    assert cut is not None
    assert isinstance(shifted.ios[0].matrix, CompressedMatrix)
    np.testing.assert_array_equal(cut.ios[0].matrix, dense(packed.ios[0].matrix)[1:])


def test_weights_and_names() -> None:
    heavy = weighted(EXAMPLE, 2.5)
    np.testing.assert_allclose(dense(heavy.ios[2].matrix), 2.5 * dense(EXAMPLE.ios[2].matrix))
    assert heavy.ios[0] is EXAMPLE.ios[0]
    other = renamed(EXAMPLE, "output-2")
    assert [io.name for io in other.ios] == ["input", "ivector", "output-2"]
    for change in (lambda example: weighted(example, 2.0), lambda example: renamed(example, "x")):
        with pytest.raises(TrainingError, match="no 'output', but input, ivector, output-2"):
            change(other)


def test_merged_examples_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(TrainingError, match="this one is merged"):
        Changes(frame=0).apply(EXAMPLES.merge([EXAMPLE, EXAMPLE]), rng)
    with pytest.raises(TrainingError, match="with 'input' and 'output' only"):
        Changes(frame=0).apply(Example(EXAMPLE.ios[:2]), rng)
    shifted = Example((EXAMPLE.ios[2], NnetIo("input", grid(1, np.arange(90, 92)), np.ones((2, 1), np.float32))))
    with pytest.raises(TrainingError, match="nothing is left of 'input'"):
        Changes(right_context=1).apply(shifted, rng)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a number or 'random', got 'any'"):
        Changes(frame="any")
    for wrong in ({"left_context": -1}, {"right_context": -1}):
        with pytest.raises(ArgumentError, match="contexts must be >= 0"):
            Changes(**wrong)


def test_changes_leave_the_example_alone() -> None:
    before = written(EXAMPLE)
    Changes(frame=1, left_context=1, right_context=1, frame_shift=3).apply(EXAMPLE, np.random.default_rng(0))
    weighted(EXAMPLE, 3.0)
    assert written(EXAMPLE) == before
