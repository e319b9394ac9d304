"""Examples from features and supervision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import TrainingError
from nnet3.kaldi_io import (
    CompressedMatrix,
    Posterior,
    SparseMatrix,
    compress,
    matrix_writer,
    open_general_matrix_table,
    posterior_writer,
    random_access_matrices,
    random_access_posteriors,
)
from nnet3.options import WHOLE, ChunkOptions, MakingOptions
from nnet3.training.examples.chunk_ios import alignment_matrix, posterior_matrix
from nnet3.training.examples.making import ExampleMaker, MakingStatistics, generator, make_examples

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(50, 3)).astype(np.float32)
PDFS = RNG.integers(7, size=50)


def _plain(**chunks: object) -> MakingOptions:
    return MakingOptions(ChunkOptions(**chunks), compress=False)  # type: ignore[arg-type]


def test_frames_context_and_labels() -> None:
    maker = ExampleMaker(_plain(num_frames=(10,), left_context=3, right_context=2))
    examples = maker.make("utt", FEATURES, alignment_matrix(PDFS, 7))
    assert [key for key, _ in examples] == [f"utt-{first}" for first in (0, 10, 20, 30, 40)]
    for key, example in examples:
        first = int(key.removeprefix("utt-"))
        given, output = example.ios
        assert (given.name, output.name) == ("input", "output")
        assert given.indexes.tolist() == [[0, t, 0] for t in range(-3, 12)]
        assert output.indexes.tolist() == [[0, t, 0] for t in range(10)]
        rows = [min(max(first + t, 0), 49) for t in range(-3, 12)]
        np.testing.assert_array_equal(dense(given.matrix), FEATURES[rows])
        np.testing.assert_array_equal(dense(output.matrix).argmax(axis=1), PDFS[first : first + 10])
        assert dense(output.matrix).sum() == 10


@given(st.integers(5, 60), st.integers(0, 3), st.integers(1, 3), st.integers(0, 9))
def test_every_label_has_the_weight_one(frames: int, overlap: int, factor: int, seed: int) -> None:
    """Over all chunks, unless it is in none of them; and the labels belong to the features."""
    chunks = ChunkOptions((9, 6), overlap, 1, 1, frame_subsampling_factor=factor)
    rows = -(-frames // factor)
    features = np.arange(frames, dtype=np.float32)[:, None] + np.zeros((1, 2), np.float32)
    maker = ExampleMaker(MakingOptions(chunks, compress=False, seed=seed))
    total: dict[int, float] = {}
    for _, example in maker.make("u", features, alignment_matrix(np.arange(rows), rows)):
        given, output = example.ios
        assert output.indexes[:, 1].tolist() == list(range(0, factor * len(output.indexes), factor))
        matrix = output.matrix
        assert isinstance(matrix, SparseMatrix)
        for row, column, weight in zip(matrix.row_of_element(), matrix.ids.tolist(), matrix.values, strict=True):
            total[column] = total.get(column, 0) + weight
            at = given.indexes[:, 1].tolist().index(output.indexes[row, 1])
            assert dense(given.matrix)[at, 0] == column * factor
    assert list(total.values()) == pytest.approx([1.0] * len(total))


def test_supervision_that_is_too_short_has_no_labels_at_the_end() -> None:
    (_, example), *_ = ExampleMaker(_plain(num_frames=(50,))).make("u", FEATURES, alignment_matrix(PDFS[:48], 7))
    np.testing.assert_array_equal(dense(example.ios[1].matrix).sum(axis=1), [1] * 48 + [0, 0])


def test_dense_targets_become_chunks() -> None:
    targets = RNG.normal(size=(17, 2)).astype(np.float32)
    maker = ExampleMaker(_plain(num_frames=(51,), frame_subsampling_factor=3))
    assert maker.make("u", FEATURES, targets) == []
    features = np.concatenate([FEATURES, FEATURES[:3]])
    ((key, example),) = maker.make("u", features, targets)
    first = int(key[2:]) // 3
    np.testing.assert_array_equal(example.ios[1].matrix, targets[np.minimum(np.arange(first, first + 17), 16)])


def test_whole_utterances_are_one_example() -> None:
    maker = ExampleMaker(_plain(num_frames=WHOLE, frame_subsampling_factor=3, left_context=2))
    ((key, example),) = maker.make("u", FEATURES, alignment_matrix(PDFS[:17], 7))
    assert key == "u-0"
    assert example.ios[0].indexes[[0, -1], 1].tolist() == [-2, 49]
    assert example.ios[1].indexes[:, 1].tolist() == list(range(0, 48, 3))


def test_ivectors_are_those_of_a_frame_of_the_chunk() -> None:
    ivectors = np.arange(5, dtype=np.float32)[:, None]
    drawn: dict[str, set[float]] = {}
    for seed in range(200):
        options = _plain(num_frames=(25,), left_context=4, right_context=20)
        options = replace(options, online_ivector_period=10, seed=seed)
        for key, example in ExampleMaker(options).make("u", FEATURES, alignment_matrix(PDFS, 7), ivectors):
            assert example.ios[1].name == "ivector"
            assert example.ios[1].indexes.tolist() == [[0, 0, 0]]
            drawn.setdefault(key, set()).add(float(dense(example.ios[1].matrix)[0, 0]))
    assert drawn == {"u-0": {0, 1, 2, 3, 4}, "u-25": {2, 3, 4}}


def test_data_are_compressed_if_asked_and_stay_compressed() -> None:
    options = replace(_plain(num_frames=(10,)), compress=True)
    _, example = ExampleMaker(options).make("u", FEATURES, FEATURES)[1]
    assert [type(io.matrix) for io in example.ios] == [CompressedMatrix] * 2
    packed = compress(FEATURES)
    for compresses in (True, False):
        options = replace(options, compress=compresses)
        _, example = ExampleMaker(options).make("u", packed, alignment_matrix(PDFS, 7))[1]
        matrix = example.ios[0].matrix
        assert isinstance(matrix, CompressedMatrix)
        np.testing.assert_array_equal(matrix.codes, packed.codes[10:20])


def test_posteriors_become_sparse_rows() -> None:
    posterior = Posterior(
        np.array([0, 4, 4, 5]), np.array([3, 1, 3, 2], np.int32).repeat([1, 1, 1, 2]), np.ones(5, np.float32)
    )
    posterior.weights[3] = 0.0
    matrix = posterior_matrix(posterior, 4)
    assert matrix.dense().tolist() == [[0, 1, 0, 2], [0, 0, 0, 0], [0, 0, 1, 0]]
    assert matrix.indptr.tolist() == [0, 2, 2, 3]
    with pytest.raises(TrainingError, match="ids 1 to 3 are not of 3 pdfs"):
        posterior_matrix(posterior, 3)
    with pytest.raises(TrainingError, match="ids -1 to 2"):
        alignment_matrix(np.array([-1, 2]), 3)
    assert posterior_matrix(Posterior(np.zeros(1, int), posterior.ids[:0], posterior.weights[:0]), 3).rows == 0


@pytest.mark.parametrize(
    ("targets", "ivectors", "message"),
    [
        (PDFS[:47], None, r"50 frames of features need 50 frames of supervision \(.*\), got 47"),
        (PDFS[:0], None, "no frames"),
        (np.append(PDFS, [0, 1, 2]), None, "got 53, which is off by more than 2"),
        (PDFS, np.zeros((0, 2), np.float32), "0 ivectors, one every 1 frames, do not belong to 50 frames"),
        (PDFS, np.zeros((151, 2), np.float32), "151 ivectors"),
    ],
)
def test_lengths_that_do_not_fit(targets: np.ndarray, ivectors: np.ndarray | None, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        ExampleMaker(_plain(num_frames=(10,))).make("u", FEATURES, alignment_matrix(targets, 7), ivectors)


def test_examples_are_made_of_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    feats, post, ivectors = (tmp_path / name for name in ("feats.ark", "post.ark", "iv.ark"))
    lengths = {"a": 20, "b": 5, "c": 20, "d": 20, "e": 33, "f": 20, "g": 9}
    with (
        matrix_writer(f"ark:{feats}") as feats_out,
        posterior_writer(f"ark:{post}") as post_out,
        matrix_writer(f"ark:{ivectors}") as ivectors_out,
    ):
        for key, frames in lengths.items():
            feats_out.write(key, compress(rng.normal(size=(frames, 3))))
            if key != "c":
                ids = rng.integers(9 if key == "f" else 4, size=frames) + 4 * (key == "f")
                post_out.write(key, Posterior(np.arange(frames + 1), ids.astype(np.int32), np.ones(frames, np.float32)))
            if key != "d":
                ivectors_out.write(key, rng.normal(size=(frames, 2)))
    statistics = MakingStatistics()
    with open_general_matrix_table(f"ark:{feats}") as features:
        made = dict(
            make_examples(
                ExampleMaker(_plain(num_frames=(10,))),
                features,
                random_access_posteriors(f"ark:{post}"),
                lambda posterior: posterior_matrix(posterior, 4),
                random_access_matrices(f"ark:{ivectors}"),
                statistics,
            )
        )
    assert statistics == MakingStatistics(utterances=7, examples=len(made), failed=3, short=2)
    assert str(statistics).startswith(f"{len(made)} examples of 7 utterances; 3 could not be used, of 2 no chunk")
    assert {key[0] for key in made} == {"a", "e"}
    for message in ("c is left out: ", "has no supervision of it", "has no ivectors of it", "are not of 4 pdfs"):
        assert message in caplog.text
    assert "b is left out: its 5 frames are too few for a chunk" in caplog.text


def test_generators_take_any_seed() -> None:
    assert generator(-2).random() == generator(-2).random() != generator(2).random()
    assert generator(2**64 + 2).random() == generator(2).random()


def test_what_is_made_by_default() -> None:
    """Compressed, the same at each run, one ivector a frame, with 100 frames of tolerance for ivectors and 2 for
    supervision; a frame without features is refused whatever the tolerance is."""
    maker = ExampleMaker(MakingOptions(ChunkOptions((50,))))
    ((_, example),) = maker.make("u", FEATURES, alignment_matrix(PDFS[:48], 7), np.zeros((150, 2), np.float32))
    assert [type(io.matrix) for io in example.ios] == [CompressedMatrix, CompressedMatrix, SparseMatrix]
    ivectors = np.arange(50, dtype=np.float32)[:, None]
    options = MakingOptions(ChunkOptions((10,)), compress=False)
    first, again = (
        ExampleMaker(each).make("u", FEATURES, FEATURES, ivectors) for each in (options, replace(options, seed=0))
    )
    for (_, one), (_, other) in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.ios[1].matrix, other.ios[1].matrix)
    assert any(example.ios[1].matrix[0, 0] % 10 for _, example in first)
    with pytest.raises(TrainingError, match="no frames"):
        maker.make("u", FEATURES[:0], alignment_matrix(PDFS[:2], 7))
