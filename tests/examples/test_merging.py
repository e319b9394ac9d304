"""Merging: Kaldi's bytes, and a slow oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import ArgumentError, TrainingError
from nnet3.examples import EXAMPLES, Example, ExampleReader, NnetIo, example_writer
from nnet3.kaldi_io import CompressedMatrix, GeneralMatrix, SparseMatrix
from nnet3.training.examples.merging import ExampleGroup, MergingStatistics, MinibatchSizes, merge_examples, short
from tests.shared_data import golden_cases
from tests.train.example_data import frame_example, grid, written


@pytest.mark.parametrize(
    ("text", "size", "largest", "within"),
    [
        ("16", 10, 16, {0: 0, 15: 0, 16: 16, 40: 16}),
        ("64,128", 10, 128, {63: 0, 64: 64, 127: 64, 128: 128}),
        ("128,64", 10, 128, {127: 64}),
        ("1:64", 10, 64, {0: 0, 1: 1, 63: 63, 99: 64}),
        ("4:8,16", 10, 16, {3: 0, 5: 5, 12: 8, 16: 16}),
        ("128=64/256=40,30", 100, 64, {64: 64, 63: 0}),
        ("128=64/256=40,30", 250, 40, {40: 40, 39: 30, 29: 0}),
        ("128=64/256=40,30", 192, 64, {}),  # equally near: the first one
        ("128=64/256=40,30", 193, 40, {}),
        ("10=5", 99, 5, {5: 5}),
        ("999999999", 1, 999999999, {}),
    ],
)
def test_rules_say_how_many_examples_make_a_minibatch(
    text: str, size: int, largest: int, within: dict[int, int]
) -> None:
    rule = MinibatchSizes.parse(text)
    assert rule.largest(size) == largest
    assert {available: rule.largest_within(size, available) for available in within} == within


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number > 0, got ''"),
        ("0", "expected a number > 0, got '0'"),
        ("-5", "expected a number > 0, got '-5'"),
        ("8,", "expected a number > 0, got ''"),
        ("8:4", "the range 8:4 is empty"),
        ("1:2:3", "got '2:3'"),
        ("64/128", "with several rules each needs a size of example"),
        ("64=1/64=2", "must be different"),
        ("a=5", "got 'a'"),
        ("²", "got '²'"),
        ("1000000000", "got '1000000000'"),
        ("8=4/16", "with several rules each needs a size of example"),
    ],
)
def test_what_is_no_rule(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        MinibatchSizes.parse(text)
    assert message in str(error.value)
    assert "such as 64,128 or 1:64" in str(error.value)


def test_of_several_processes_together() -> None:
    rule = MinibatchSizes.parse("128=64/256=40,10:20").times(3)
    assert rule == MinibatchSizes.parse("128=192/256=120,30:60")


def test_rules_of_half_the_size() -> None:
    rule = MinibatchSizes.parse("128=65/256=40,1:20").halved()
    assert rule == MinibatchSizes.parse("128=32/256=20,1:10")
    assert rule.times(1) == rule


@pytest.mark.parametrize(
    "path", golden_cases("train", "egs.ark") + golden_cases("xvector", "egs.ark"), ids=lambda path: path.parent.name
)
def test_golden_minibatches_are_merged_to_the_same_bytes(path: Path, tmp_path: Path) -> None:
    """Compressed features are decoded with fused multiply-add, as by the build that merged these."""
    merged = tmp_path / "merged.ark"
    with ExampleReader(f"ark:{path / 'egs.ark'}", EXAMPLES) as table, example_writer(f"ark:{merged}", EXAMPLES) as out:
        singles = (
            (key, Example(tuple(replace(io, matrix=_fused(io.matrix)) for io in each.ios))) for key, each in table
        )
        for key, minibatch in merge_examples(singles, EXAMPLES, MinibatchSizes.parse("16")):
            out.write(key, minibatch)
    assert merged.read_bytes() == (path / "merged.ark").read_bytes()


def _fused(matrix: GeneralMatrix) -> GeneralMatrix:
    """Decodes a matrix; a product and the sum with it are rounded once."""
    if not isinstance(matrix, CompressedMatrix):
        return matrix
    if matrix.quantiles is None:
        width = np.float64(np.float32(matrix.range * (1.0 / np.iinfo(matrix.codes.dtype).max)))
        return (matrix.codes * width + matrix.min_value).astype(np.float32)
    step = np.float64(np.float32(matrix.range) * np.float32(1.52590218966964e-05))
    points = (matrix.quantiles * step + matrix.min_value).astype(np.float32)  # (columns, 4)
    codes = matrix.codes.T.astype(np.int64)
    part = np.where(codes <= 64, 0, np.where(codes <= 192, 1, 2))
    rise = np.take_along_axis(np.diff(points), part, axis=1) * (codes - np.array([0, 64, 192])[part]).astype(np.float32)
    base = np.take_along_axis(points, part, axis=1)
    return (base + rise * (1.0 / np.array([64, 128, 63]))[part]).astype(np.float32).T


def _rows(first: int, count: int) -> Example:
    times = np.arange(first, first + count)
    return Example((NnetIo("input", grid(1, times), np.zeros((count, 2), np.float32)),))


def test_what_is_left_in_the_end_comes_in_the_order_of_kaldis_hash_table() -> None:
    """More structures than the table has buckets at first, and structures that come and go."""
    shapes = [(-(k * k % 3), (7 * k * k + 3 * k) % 41 + 1) for k in range(150)]
    made = [(str(k), _rows(*shape)) for k, shape in enumerate(shapes)]
    merged = merge_examples(made, EXAMPLES, MinibatchSizes.parse("1:5"))
    found = [
        (int(io.indexes[0, 1]), len(io.indexes) // minibatch.num_sequences, minibatch.num_sequences)
        for _, minibatch in merged
        for io in minibatch.ios
    ]
    assert len(found) == 46
    assert found[14:] == [
        *((-1, 2, 1), (-1, 37, 1), (-1, 34, 1), (0, 8, 1), (0, 14, 2), (0, 2, 2), (-1, 5, 4), (-1, 19, 4), (-1, 36, 4)),
        *((0, 37, 2), (0, 21, 3), (0, 23, 2), (-1, 15, 4), (0, 1, 3), (-1, 11, 1), (0, 34, 2), (0, 30, 2), (0, 5, 3)),
        *((0, 25, 3), (0, 11, 2), (0, 35, 3), (0, 27, 3), (0, 32, 3), (0, 38, 2), (0, 22, 3), (0, 15, 2), (0, 19, 2)),
        *((0, 20, 3), (-1, 30, 4), (0, 36, 2), (-1, 38, 4), (-1, 8, 2)),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), max_size=40),
    st.sampled_from(["3", "1:4", "2,5", "3=2/5=1:3", "7"]),
)
def test_groups_are_those_of_the_oracle(shapes: list[tuple[int, int]], rule: str) -> None:
    rng = np.random.default_rng(len(shapes))
    made = [frame_example(rng, frames, context) for frames, context in shapes]
    statistics = MergingStatistics()
    sizes = MinibatchSizes.parse(rule)
    own = list(
        merge_examples(((str(k), example) for k, example in enumerate(made)), EXAMPLES, sizes, False, statistics)
    )
    expected, discarded = _slow_merge(made, sizes)
    assert [key for key, _ in own] == [f"merged-{k}-{each.num_sequences}" for k, (_, each) in enumerate(own)]
    minibatches = {minibatch.ios[0].matrix.tobytes(): minibatch for _, minibatch in own}  # in the end of any order
    assert len(minibatches) == len(expected)
    for group in expected:
        minibatch = minibatches[EXAMPLES.merge(group).ios[0].matrix.tobytes()]
        assert [io.name for io in minibatch.ios] == ["input", "output"]
        for io in minibatch.ios:
            rows = [
                ((number, t, 0), row.tolist())
                for number, example in enumerate(group)
                for part in example.ios
                if part.name == io.name
                for (_, t, _), row in zip(part.indexes.tolist(), dense(part.matrix), strict=True)
            ]
            assert [tuple(index) for index in io.indexes.tolist()] == [index for index, _ in rows]
            assert dense(io.matrix).tolist() == [row for _, row in rows]
        assert isinstance(minibatch.ios[1].matrix, SparseMatrix)
    assert statistics.num_discarded == discarded
    assert statistics.num_examples == len(made)
    assert str(statistics).startswith(f"{len(made)} examples made {len(expected)} minibatches, {discarded} were")


def _slow_merge(made: list[Example], sizes: MinibatchSizes) -> tuple[list[list[Example]], int]:
    queues: dict[str, list[Example]] = {}
    groups = []
    for example in made:
        shape = repr([(io.name, io.matrix.shape, io.indexes.tolist()) for io in example.ios])
        queues.setdefault(shape, []).append(example)
        if len(queues[shape]) == sizes.largest(max(len(io.indexes) for io in example.ios)):
            groups.append(queues.pop(shape))
    discarded = 0
    for queue in queues.values():
        size = max(len(io.indexes) for io in queue[0].ios)
        while queue:
            count = sizes.largest_within(size, len(queue))
            if count == 0:
                discarded += len(queue)
                break
            groups.append([queue.pop(0) for _ in range(count)])
    return groups, discarded


def test_ivectors_names_in_order_and_compression() -> None:
    rng = np.random.default_rng(0)
    ivector = NnetIo("ivector", grid(1, np.arange(1)), np.ones((1, 2), np.float32))
    made = [frame_example(rng, ivector=ivector) for _ in range(3)]
    merged = EXAMPLES.merge(made, True)
    assert [io.name for io in merged.ios] == ["input", "ivector", "output"]
    assert [type(io.matrix) for io in merged.ios] == [CompressedMatrix, CompressedMatrix, SparseMatrix]
    assert merged.ios[1].indexes.tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert merged.num_sequences == 3
    again = EXAMPLES.merge([merged, merged], False)  # what is merged can be merged on
    assert [type(io.matrix) for io in again.ios] == [np.ndarray, np.ndarray, SparseMatrix]
    assert again.num_sequences == 6
    assert again.ios[1].indexes[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_merging_does_not_change_what_is_merged() -> None:
    made = [frame_example(np.random.default_rng(0)) for _ in range(2)]
    before = [written(example) for example in made]
    EXAMPLES.merge(made)
    assert [written(example) for example in made] == before


def test_structure_is_not_the_kind_of_matrix() -> None:
    example = frame_example(np.random.default_rng(0))
    full = Example(tuple(NnetIo(io.name, io.indexes, dense(io.matrix)) for io in example.ios))
    other = Example(tuple(reversed(example.ios)))
    assert EXAMPLES.structure(full) == EXAMPLES.structure(example) != EXAMPLES.structure(other)
    assert isinstance(EXAMPLES.merge([example, full]).ios[1].matrix, np.ndarray)


def test_too_many_sequences() -> None:
    far, nearer = (
        Example((NnetIo("input", np.array([[n, 0, 0]], np.int32), np.ones((1, 1), np.float32)),))
        for n in (2**30 - 1, 2**30 - 2)
    )
    assert EXAMPLES.merge([nearer, nearer]).num_sequences == 2**31 - 2
    with pytest.raises(TrainingError, match="2 examples of 1073741824 sequences are too many"):
        EXAMPLES.merge([far, far])


def test_ios_of_one_name_and_different_widths_are_an_error_that_names_the_examples() -> None:
    indexes = np.array([[0, 0, 0]], np.int32)
    ios = [NnetIo("input", indexes, np.ones((1, columns), np.float32)) for columns in (5, 20)]
    torn = Example((*ios, NnetIo("output", indexes, np.ones((1, 1), np.float32))))
    wanted = "'input': matrices of 5 and 20 columns cannot be one"
    with pytest.raises(TrainingError, match=f"^{wanted}$"):
        EXAMPLES.merge([torn, torn])
    with pytest.raises(TrainingError, match=f"^a minibatch of a b: {wanted}$"):
        list(merge_examples([("a", torn), ("b", torn)], EXAMPLES, MinibatchSizes.parse("2")))


def test_what_is_counted_and_compressed() -> None:
    rng = np.random.default_rng(0)
    made = [(str(k), frame_example(rng, frames)) for k, frames in enumerate([4, 4, 6, 4, 4, 4, 6, 6])]
    statistics = MergingStatistics()
    for _ in range(2):
        for _, minibatch in merge_examples(made, EXAMPLES, MinibatchSizes.parse("2,3"), True, statistics):
            assert isinstance(minibatch.ios[0].matrix, CompressedMatrix)
    assert str(statistics).splitlines() == [
        "16 examples made 6 minibatches, 0 were discarded",
        "  2 minibatches of 2 examples of 6 rows",
        "  2 minibatches of 3 examples of 6 rows",
        "  2 minibatches of 3 examples of 8 rows",
    ]
    assert str(statistics.discarded) == "Counter()"
    for options in ({}, {"statistics": statistics}):
        keys, minibatches = zip(*merge_examples(made[:3], EXAMPLES, MinibatchSizes.parse("2"), **options), strict=True)
        assert keys == ("merged-0-2",)
        assert isinstance(minibatches[0].ios[0].matrix, np.ndarray)
    assert (statistics.num_discarded, statistics.num_minibatches) == (1, 7)


def test_which_structures_did_not_fill_a_minibatch() -> None:
    rng = np.random.default_rng(0)
    lengths = [frames for frames in range(1, 14) for _ in range(2 if frames == 5 else 1)]
    made = [(str(k), frame_example(rng, frames)) for k, frames in enumerate([*lengths, 20, 20, 20])]
    statistics = MergingStatistics()
    list(merge_examples(made, EXAMPLES, MinibatchSizes.parse("3"), statistics=statistics))
    lines = str(statistics).splitlines()
    assert lines[:3] == [
        "17 examples made 1 minibatches, 14 were discarded",
        "  1 minibatches of 3 examples of 22 rows",
        "  2 examples of input (7 rows, t = -1 to 5), output (5 rows, t = 0 to 4) did not fill a minibatch",
    ]
    assert (
        lines[3] == "  1 examples of input (3 rows, t = -1 to 1), output (1 rows, t = 0 to 0) did not fill a minibatch"
    )
    assert len(lines) == 2 + 10 + 1
    assert lines[-1] == "  and of 3 more structures"
    empty = Example((NnetIo("input", np.zeros((0, 3), np.int32), np.zeros((0, 1), np.float32)),))
    assert EXAMPLES.describe(empty) == "input (0 rows)"


def test_parts_of_a_group() -> None:
    group = ExampleGroup("merged", tuple("abcde"), tuple(range(5)))
    parts = [group.part(number, 3) for number in range(3)]
    assert [part.keys for part in parts] == [("a",), ("b", "c"), ("d", "e")]
    assert [part.examples for part in parts] == [(0,), (1, 2), (3, 4)]
    assert {part.key for part in parts} == {"merged"}
    assert group.part(0, 1) == group
    assert str(group) == "a minibatch of a b c and 2 more"
    assert short(("a", "b", "c")) == "a b c"


def test_nothing_to_merge() -> None:
    with pytest.raises(ArgumentError, match="no examples"):
        EXAMPLES.merge([])
