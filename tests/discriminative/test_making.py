"""Examples of utterances: Kaldi's inputs and targets, and what cannot be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.base.options.discriminative import DiscriminativeMakingOptions
from nnet3.base.options.examples import WHOLE, ChunkOptions
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.kaldi_io import open_general_matrix_table, open_int_vector_table, open_matrix_table
from nnet3.training.discriminative.making import DiscriminativeExampleMaker, LatticeUtterance
from nnet3.training.discriminative.supervision import acceptor
from tests.discriminative.golden_discriminative import CASES, DiscriminativeCase, needs_golden, options_of
from tests.discriminative.small_supervision import random_lattice, toy_transitions


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_golden_inputs_and_targets_of_equal_chunks(name: str) -> None:
    """Chunks are drawn; what is drawn again as Kaldi drew it is the same but for the lattices' states."""
    case = DiscriminativeCase(name)
    line = case.lines("egs.cmd")[0]
    features, alignments = (dict(table) for table in _tables(case))
    lattices, wanted = case.lattices("denlat.ark"), case.examples("egs.ark")
    ivectors = dict(open_matrix_table(f"ark:{case.golden('ivectors.ark')}")) if "ivectors" in line else {}
    compared = 0
    for seed in range(2):
        maker = DiscriminativeExampleMaker(_options(line, seed), case.model.transition_model)
        for key, matrix in features.items():
            utterance = LatticeUtterance(key, matrix, alignments[key], lattices[key], ivectors.get(key))
            for own, example in maker.make(utterance):
                golden = wanted.get(own)
                if golden is None or len(golden.outputs[0].indexes) != len(example.outputs[0].indexes):
                    continue
                given, theirs = example.input("input"), golden.input("input")
                assert given is not None
                assert theirs is not None
                if len(given.indexes) != len(theirs.indexes):  # the first chunk has another context
                    continue
                compared += 1
                np.testing.assert_array_equal(given.indexes, theirs.indexes)
                np.testing.assert_array_equal(dense(given.matrix), dense(theirs.matrix))
                one, other = example.outputs[0], golden.outputs[0]
                np.testing.assert_array_equal(one.indexes, other.indexes)
                np.testing.assert_array_equal(one.supervision.alignment, other.supervision.alignment)
                if "ivectors" in line:
                    vector, rows = example.input("ivector"), ivectors[key]
                    assert vector is not None
                    assert np.abs(rows - dense(vector.matrix)).max(1).min() < 0.01 * np.ptp(rows)
    assert compared > 3
    assert options_of(line)["acoustic-scale"]


def _options(line: str, seed: int) -> DiscriminativeMakingOptions:
    given = options_of(line)
    frames = {
        name: int(given[name.replace("_", "-")])
        for name in ("left_context", "right_context", "left_context_initial", "num_frames_overlap")
        if name.replace("_", "-") in given
    }
    factor, lengths = int(given.get("frame-subsampling-factor", 1)), tuple(map(int, given["num-frames"].split(",")))
    chunks = ChunkOptions(num_frames=lengths, frame_subsampling_factor=factor, **frames)
    period, scale = int(given.get("online-ivector-period", 1)), float(given["acoustic-scale"])
    return DiscriminativeMakingOptions(
        chunks, online_ivector_period=period, seed=seed, acoustic_scale=scale, determinize=False
    )


def _tables(case: DiscriminativeCase):  # type: ignore[no-untyped-def]
    yield open_general_matrix_table(f"ark:{case.golden('feats.ark')}")
    yield open_int_vector_table(f"ark:{case.golden('ali.ark')}")


def _utterance(frames: int = 8, lattice_frames: int | None = None) -> LatticeUtterance:
    rng = np.random.default_rng(frames)
    features = rng.normal(size=(frames, 3)).astype(np.float32)
    lattice = random_lattice(rng, frames if lattice_frames is None else lattice_frames)
    return LatticeUtterance("utt", features, rng.integers(1, 5, frames).astype(np.int32), lattice)


def _maker(**chunks: object) -> DiscriminativeExampleMaker:
    options = DiscriminativeMakingOptions(chunks=ChunkOptions(**{"num_frames": (4,), "left_context": 1, **chunks}))  # type: ignore[arg-type]
    return DiscriminativeExampleMaker(options, toy_transitions())


def test_chunks_have_their_frames_of_the_alignment() -> None:
    utterance = _utterance()
    examples = dict(_maker().make(utterance))
    assert list(examples) == ["utt-0", "utt-4"]
    for first, example in zip((0, 4), examples.values(), strict=True):
        target = example.outputs[0]
        assert target.supervision.alignment.tolist() == utterance.alignment[first : first + 4].tolist()
        assert target.supervision.levels.frame.max() == 3
        assert target.deriv_weights.tolist() == [1] * 4
        given = example.input("input")
        assert given is not None
        assert len(given.indexes) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, features=one.features[:7]), "7 frames of features need 7"),
        (lambda one: replace(one, alignment=one.alignment[:0]), "alignment is empty"),
        (lambda one: replace(one, lattice=acceptor([], [], [], [], [], [])), "lattice is empty"),
        (lambda one: replace(one, ivectors=np.zeros((200, 2), np.float32)), "200 ivectors"),
    ],
)
def test_utterances_that_cannot_be_used(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TrainingError, match=message):
        _maker().make(change(_utterance()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, alignment=one.alignment[:7]), "lattice has 8 frames, but the alignment 7"),
        (lambda one: replace(one, alignment=one.alignment + 4), "is this the model"),
    ],
)
def test_lattices_and_alignments_that_do_not_belong_together(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ModelFormatError, match=message):
        _maker().make(change(_utterance()))


def test_short_utterances_and_chunks_of_one_frame() -> None:
    assert _maker().make(_utterance(3)) == []
    for frames in (2, 5):
        whole = _utterance(frames, lattice_frames=-(-frames // 3))
        whole = replace(whole, alignment=whole.alignment[: -(-frames // 3)])
        with pytest.raises(TrainingError, match=f"its {frames} frames make fewer than 2 rows"):
            _maker(num_frames=WHOLE, frame_subsampling_factor=3).make(whole)
    with pytest.raises(TrainingError, match="num_frames must be at least 2, such as 150, or -1, got 1"):
        DiscriminativeExampleMaker(DiscriminativeMakingOptions(), toy_transitions())
