"""Supervision and examples of sequence training against Kaldi's own, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.chain import ChainExample, Supervision
from nnet3.errors import TrainingError
from nnet3.examples import Chunk, ChunkOptions, NnetIo, write_io
from nnet3.kaldi_io import (
    CompressedMatrix,
    Fst,
    RandomAccessTable,
    Writer,
    load_fst,
    open_general_matrix_table,
    open_pair_table,
    random_access_fsts,
    random_access_matrices,
    random_access_vectors,
)
from nnet3.options import ChainMakingOptions, SupervisingOptions, Tolerances
from nnet3.training.chain.graphs.chunks import supervision_of_graph
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import TimedPhones, phones_of_durations, phones_of_lattice
from nnet3.training.chain.making import ChainExampleMaker, Utterance, normalized
from nnet3.training.chain.supervision_file import read_supervision
from tests.chain.golden_chain import ChainCase
from tests.chain.graphs.path_costs import check_same_language, cost_of, random_sequence
from tests.chain.graphs.small_hmms import small_hmms
from tests.shared_data import golden_cases, needs_shared

pytest.importorskip("kaldifst")
CASES = [ChainCase(folder) for folder in golden_cases("chain", "egs.ark")]
WITH_SUPERVISION = [case for case in CASES if (case.folder / "sup.ark").exists()]
END_TO_END = [case for case in CASES if (case.folder / "graphs.ark").exists()]
#: Where Kaldi's states and arcs come out in the same order, too
IDENTICAL = ("mono", "biphone", "unconstrained")


def _check_equal(made: Fst, expected: Fst, random: np.random.Generator) -> None:
    """The same label sequences, at costs that agree as well as those of the golden data can."""
    check_same_language(made, expected)
    for fst in (made, expected):
        for _ in range(3):
            labels = _accepted_sequence(fst, random)
            assert cost_of(made, labels) == pytest.approx(cost_of(expected, labels), abs=3e-3)


def _accepted_sequence(fst: Fst, random: np.random.Generator) -> tuple[int, ...]:
    for _ in range(1000):
        labels = random_sequence(fst, random, 200 if (fst.dst > fst.src).all() else int(random.integers(1, 60)))
        if np.isfinite(cost_of(fst, labels)):
            return labels
    raise AssertionError("no path ends")


def _phones(case: ChainCase, lm_scale: float) -> Iterator[tuple[str, TimedPhones]]:
    if (case.folder / "phone_lat.ark").exists():
        for key, lattice in open_lattice_table(f"ark:{case.folder}/phone_lat.ark"):
            yield key, phones_of_lattice(lattice, lm_scale)
        return
    for key, pairs in open_pair_table(f"ark:{case.folder}/lengths.ark"):
        yield key, phones_of_durations(pairs)


@needs_shared
@pytest.mark.parametrize("case", WITH_SUPERVISION, ids=lambda case: case.folder.name)
def test_golden_supervisions_are_made_again(case: ChainCase) -> None:
    given = case.options("chain-get-supervision")
    tolerances = [int(given[name]) for name in ("left-tolerance", "right-tolerance", "frame-subsampling-factor")]
    options = SupervisingOptions(
        Tolerances(*tolerances), float(given.get("lm-scale", 0)), given.get("convert-to-pdfs") != "false"
    )
    expected = RandomAccessTable(f"ark:{case.folder}/sup.ark", read_supervision)
    random = np.random.default_rng(0)
    for key, phones in _phones(case, options.lm_scale):
        made, right = supervise(phones, case.hmms, options), expected[key]
        assert (made.weight, made.num_sequences) == (right.weight, right.num_sequences)
        assert (made.frames_per_sequence, made.label_dim) == (right.frames_per_sequence, right.label_dim)
        if case.folder.name in IDENTICAL:
            for name in ("final", "offsets", "ilabel", "cost", "dst"):
                np.testing.assert_array_equal(getattr(made.fsts[0], name), getattr(right.fsts[0], name))
        else:
            _check_equal(made.fsts[0], right.fsts[0], random)


class _GivenChunks:
    """In the place of a splitter: the chunks that Kaldi drew."""

    def __init__(self, chunks: list[Chunk]):
        self.chunks = chunks

    def split(self, num_frames: int, rng: np.random.Generator) -> list[Chunk]:
        return self.chunks


def _chunk_of(key: str, example: ChainExample, factor: int, covered: np.ndarray) -> Chunk:
    """The chunk that an example of Kaldi is of; `covered`: how many chunks have each output frame."""
    times, count = example.inputs[0].indexes[:, 1], len(example.outputs[0].indexes)
    first, length = int(key.rpartition("-")[2]), count * factor
    part = covered[first // factor : first // factor + count]
    return Chunk(first, length, -int(times[0]), int(times[-1]) + 1 - length, (1 / part).astype(np.float32))


def _bytes_of(io: NnetIo) -> bytes:
    writer = Writer(binary=True)
    write_io(writer, io)
    return writer.getvalue()


def _check_example(made: ChainExample, expected: ChainExample, random: np.random.Generator) -> None:
    assert [io.name for io in made.inputs] == [io.name for io in expected.inputs]
    assert _bytes_of(made.inputs[0]) == _bytes_of(expected.inputs[0])
    for mine, theirs in zip(made.inputs[1:], expected.inputs[1:], strict=True):
        assert mine.structure == theirs.structure  # which frame's ivector it is was drawn at random
    mine, theirs = made.outputs[0], expected.outputs[0]
    np.testing.assert_array_equal(mine.indexes, theirs.indexes)
    np.testing.assert_allclose(mine.deriv_weights, theirs.deriv_weights, rtol=1e-6)
    for name in ("num_sequences", "frames_per_sequence", "label_dim", "end_to_end"):
        assert getattr(mine.supervision, name) == getattr(theirs.supervision, name), name
    assert len(mine.supervision.alignment_pdfs) == len(theirs.supervision.alignment_pdfs)
    _check_equal(mine.supervision.fsts[0], theirs.supervision.fsts[0], random)


@needs_shared
@pytest.mark.parametrize("case", WITH_SUPERVISION, ids=lambda case: case.folder.name)
def test_each_golden_example_is_made_again(case: ChainCase) -> None:
    """Each of Kaldi's examples is made again, from the same chunk of the same utterance."""
    given = case.options("nnet3-chain-get-egs")
    factor = int(given["frame-subsampling-factor"])
    options = ChainMakingOptions(
        ChunkOptions(frame_subsampling_factor=factor),
        compress=given["compress"] == "true" if "compress" in given else True,
        online_ivector_period=int(given.get("online-ivector-period", 1)),
    )
    raw = (case.folder / "egs_raw.ark").exists()
    weights = NormalizationWeights(load_fst(str(case.folder / "normalization.fst")), 0.5 if raw else 1.0)
    transitions = case.hmms.transitions if "transition-model" in given else None
    maker = ChainExampleMaker(options, None if raw else weights, transitions)
    expected = case.examples("egs_raw.ark" if raw else "egs.ark")
    final = case.examples("egs.ark")
    ivectors = random_access_matrices(f"ark:{case.folder}/ivectors.ark") if "online-ivectors" in given else None
    given_weights = (
        random_access_vectors(f"ark:{case.folder}/deriv_weights.ark") if "deriv-weights-rspecifier" in given else None
    )
    supervisions = RandomAccessTable(f"ark:{case.folder}/sup.ark", read_supervision)
    random = np.random.default_rng(0)
    compared = 0
    for key, features in open_general_matrix_table(f"ark:{case.folder}/feats.ark"):
        theirs = {name: example for name, example in expected.items() if name.rpartition("-")[0] == key}
        covered = np.zeros(features.shape[0], np.int64)
        for name, example in theirs.items():
            start = int(name.rpartition("-")[2]) // factor
            covered[start : start + len(example.outputs[0].indexes)] += 1
        chunks = [_chunk_of(name, example, factor, covered) for name, example in theirs.items()]
        maker.splitter = _GivenChunks(chunks)  # type: ignore[assignment]
        utterance = Utterance(
            key,
            features,
            None if ivectors is None else ivectors[key],
            None if given_weights is None else given_weights[key],
        )
        for name, example in maker.make(utterance, supervisions[key]):
            _check_example(example, theirs[name], random)
            if raw:
                _check_example(normalized(example, weights), final[name], random)
            compared += 1
    assert compared == len(expected)


@needs_shared
@pytest.mark.parametrize("case", END_TO_END, ids=lambda case: case.folder.name)
def test_golden_end_to_end_examples(case: ChainCase) -> None:
    given = case.options("nnet3-chain-e2e-get-egs")
    chunks = ChunkOptions(
        tuple(map(int, given["num-frames"].split(","))),
        left_context=int(given["left-context"]),
        right_context=int(given["right-context"]),
        frame_subsampling_factor=int(given["frame-subsampling-factor"]),
    )
    weights = NormalizationWeights(load_fst(str(case.folder / "normalization.fst")))
    maker = ChainExampleMaker(ChainMakingOptions(chunks), weights)
    graphs = random_access_fsts(f"ark:{case.folder}/graphs.ark")
    expected = case.examples("egs.ark")
    tables = case.hmms.transitions
    for key, features in open_general_matrix_table(f"ark:{case.folder}/feats.ark"):
        if key not in expected:
            continue
        graph = supervision_of_graph(graphs[key], tables.pdf_of_id)
        made = maker.make_end_to_end(Utterance(key, features), graph, tables.num_pdfs)
        _check_example(made, expected.pop(key), np.random.default_rng(0))
    assert not expected


NORMALIZATION = Fst.from_arcs(0, [0.0], [0, 0], [0, 0], [1, 2], [0.5, 0.25])
CHAIN = Fst.from_arcs(0, [np.inf] * 4 + [0], range(4), range(1, 5), [1, 2, 3, 2])
SUPERVISION = Supervision(1.0, 1, 4, 3, (CHAIN,))
FEATURES = np.arange(24, dtype=np.float32).reshape(12, 2)


def _maker(
    num_frames: tuple[int, ...] = (6,), weights: NormalizationWeights | None = None, **options
) -> ChainExampleMaker:
    chunks = ChunkOptions(num_frames, left_context=1, right_context=2, frame_subsampling_factor=3)
    return ChainExampleMaker(ChainMakingOptions(chunks, compress=False, **options), weights)


def test_chunks_of_an_utterance() -> None:
    made = _maker().make(Utterance("utt", FEATURES), SUPERVISION)
    assert [key for key, _ in made] == ["utt-0", "utt-6"]
    first, second = (example for _, example in made)
    assert first.inputs[0].indexes[:, 1].tolist() == list(range(-1, 8))
    assert first.inputs[0].matrix[:, 0].tolist() == [0, 0, 2, 4, 6, 8, 10, 12, 14]
    assert second.inputs[0].matrix[:, 0].tolist() == [10, 12, 14, 16, 18, 20, 22, 22, 22]
    target = second.outputs[0]
    assert target.indexes.tolist() == [[0, 0, 0], [0, 3, 0]]
    assert target.deriv_weights.tolist() == [1, 1]
    assert target.supervision.frames_per_sequence == 2
    assert target.supervision.fsts[0].ilabel.tolist() == [0, 3, 2]


def test_long_keys_say_frames_and_context() -> None:
    made = _maker(long_key=True).make(Utterance("utt", FEATURES), SUPERVISION)
    assert [key for key, _ in made] == ["utt-0-1-6-2-v1", "utt-6-1-6-2-v1"]


def test_deriv_weights_that_end_early_are_zero() -> None:
    weights = np.array([0.5, 0.25, 0.125], np.float32)
    made = _maker().make(Utterance("utt", FEATURES, deriv_weights=weights), SUPERVISION)
    assert [example.outputs[0].deriv_weights.tolist() for _, example in made] == [[0.5, 0.25], [0.125, 0]]


def test_ivectors_may_be_of_any_frame_of_the_utterance() -> None:
    ivectors = np.arange(12, dtype=np.float32).reshape(12, 1)
    maker = _maker(length_tolerance=0)
    drawn = set()
    for _ in range(200):
        made = maker.make(Utterance("utt", FEATURES, ivectors), SUPERVISION)
        drawn.add(float(made[1][1].inputs[1].matrix[0, 0]))
    assert drawn == set(range(5, 12))


def test_what_is_made_by_default() -> None:
    """Compressed inputs, short keys, the same at each run, one ivector a frame, tolerances as Kaldi's."""
    ivectors = np.arange(112, dtype=np.float32).reshape(112, 1)
    runs = [ChainExampleMaker(ChainMakingOptions(ChunkOptions((12,), frame_subsampling_factor=3))) for _ in range(2)]
    made = [maker.make(Utterance("utt", FEATURES, ivectors), SUPERVISION)[0] for maker in runs]
    assert made[0][0] == "utt-0"
    assert [type(io.matrix) for io in made[0][1].inputs] == [CompressedMatrix, CompressedMatrix]
    numbers = [float(dense(example.inputs[1].matrix)[0, 0]) for _, example in made]
    assert numbers[0] == numbers[1] < 12
    other = ChainExampleMaker(replace(runs[0].options, seed=0)).make(Utterance("utt", FEATURES, ivectors), SUPERVISION)
    assert float(dense(other[0][1].inputs[1].matrix)[0, 0]) == numbers[0]
    with pytest.raises(TrainingError, match="113 ivectors"):
        runs[0].make(Utterance("utt", FEATURES, np.ones((113, 1), np.float32)), SUPERVISION)


@pytest.mark.parametrize("frames", [9, 10, 15])
def test_features_may_be_longer_or_shorter_by_an_output_frame(frames: int) -> None:
    """What both have is used; the last output frame may reach beyond the features."""
    features = np.arange(2 * frames, dtype=np.float32).reshape(frames, 2)
    made = _maker().make(Utterance("utt", features, deriv_weights=np.ones(5, np.float32)), SUPERVISION)
    assert [key for key, _ in made] == ["utt-0", "utt-3" if frames == 9 else "utt-6"]
    for wrong in (6, 16):
        with pytest.raises(TrainingError, match="off by more than 1"):
            _maker().make(Utterance("utt", np.ones((wrong, 2), np.float32)), SUPERVISION)
    with pytest.raises(TrainingError, match="it has 6 deriv-weights"):
        _maker().make(Utterance("utt", features, deriv_weights=np.ones(6, np.float32)), SUPERVISION)


def test_chunks_whose_times_are_free() -> None:
    """Supervision of transition-ids becomes one of pdfs with cycles, and the pdfs of one of its paths are kept."""
    hmms = small_hmms()
    phones = phones_of_durations([(1, 4), (2, 5), (3, 3)])
    options = SupervisingOptions(Tolerances(2, 2, 3), convert_to_pdfs=False)
    chunks = ChunkOptions((6,), frame_subsampling_factor=3)
    maker = ChainExampleMaker(ChainMakingOptions(chunks), transitions=hmms.transitions)
    ids = replace(supervise(phones, hmms, options), weight=0.5)
    for _, example in maker.make(Utterance("utt", FEATURES), ids):
        part = example.outputs[0].supervision
        assert (part.end_to_end, part.frames_per_sequence, part.label_dim) == (True, 2, hmms.transitions.num_pdfs)
        assert (part.weight, part.num_sequences, part.alignment_pdfs.dtype) == (0.5, 1, np.int32)
        assert np.isfinite(cost_of(part.fsts[0], tuple((part.alignment_pdfs + 1).tolist())))
        assert len(part.alignment_pdfs) == 2
    with pytest.raises(
        TrainingError, match=r"has 12 labels, but the transition model \d+ transition-ids: make it with"
    ):
        maker.make(Utterance("utt", FEATURES), supervise(phones, hmms, replace(options, convert_to_pdfs=True)))
    nothing = NormalizationWeights(Fst.from_arcs(0, [0.0], [0], [0], [99]))
    assert (
        ChainExampleMaker(ChainMakingOptions(chunks), nothing, hmms.transitions).make(Utterance("utt", FEATURES), ids)
        == []
    )


def test_chunks_that_the_graph_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    made = _maker(weights=NormalizationWeights(NORMALIZATION)).make(Utterance("utt", FEATURES), SUPERVISION)
    assert [key for key, _ in made] == ["utt-0"]
    assert "utt: the chunk at frame 6 is left out: the normalization graph has none of its sequences" in caplog.text


@pytest.mark.parametrize(
    ("utterance", "supervision", "message"),
    [
        (Utterance("u", FEATURES[:0]), SUPERVISION, "there are no frames"),
        (Utterance("u", FEATURES[:4]), SUPERVISION, "4 frames of features need 2 frames of supervision"),
        (Utterance("u", FEATURES), replace(SUPERVISION, end_to_end=True), "of one sequence, and not end to end"),
        (Utterance("u", FEATURES), replace(SUPERVISION, num_sequences=2), "of one sequence, and not end to end"),
        (Utterance("u", FEATURES, deriv_weights=np.ones(9, np.float32)), SUPERVISION, "it has 9 deriv-weights, but 4"),
        (Utterance("u", FEATURES, np.ones((300, 1), np.float32)), SUPERVISION, "300 ivectors"),
    ],
)
def test_what_does_not_fit(utterance: Utterance, supervision: Supervision, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        _maker().make(utterance, supervision)


def test_end_to_end_lengths() -> None:
    maker = _maker((6, 12))
    made = maker.make_end_to_end(Utterance("utt", FEATURES[:10]), CHAIN, 3)
    assert made.inputs[0].indexes[:, 1].tolist() == list(range(-1, 14))
    assert made.inputs[0].matrix[-3:, 0].tolist() == [18, 18, 18]
    assert made.outputs[0].supervision.end_to_end
    assert made.outputs[0].supervision.weight == 1.0
    assert made.outputs[0].deriv_weights.tolist() == [1, 1, 1, 1]
    longest = maker.make_end_to_end(Utterance("utt", np.ones((16, 2), np.float32)), CHAIN, 3)
    assert longest.inputs[0].indexes[:, 1].tolist() == list(range(-1, 14))
    with pytest.raises(TrainingError, match="its 17 frames are not within 4"):
        maker.make_end_to_end(Utterance("utt", np.ones((17, 2), np.float32)), CHAIN, 3)
    with pytest.raises(TrainingError, match="300 ivectors"):
        maker.make_end_to_end(Utterance("utt", FEATURES, np.ones((300, 1), np.float32)), CHAIN, 3)
    at_edges = ChunkOptions((12,), 0, 1, 2, left_context_initial=5, right_context_final=0, frame_subsampling_factor=3)
    whole = ChainExampleMaker(ChainMakingOptions(at_edges)).make_end_to_end(Utterance("utt", FEATURES), CHAIN, 3)
    assert whole.inputs[0].indexes[[0, -1], 1].tolist() == [-5, 11]
    with pytest.raises(TrainingError, match="its 20 frames are not within 4 of one of the lengths 6, 12"):
        maker.make_end_to_end(Utterance("utt", np.ones((20, 2), np.float32)), CHAIN, 3)
    with pytest.raises(TrainingError, match="its transcript takes at least 4 output frames, it has 2"):
        maker.make_end_to_end(Utterance("utt", FEATURES[:6]), CHAIN, 3)
    weighted = _maker((12,), NormalizationWeights(NORMALIZATION))
    with pytest.raises(TrainingError, match="the normalization graph has none of its sequences"):
        weighted.make_end_to_end(Utterance("utt", FEATURES), CHAIN, 3)
    assert len(_maker((-1,)).make_end_to_end(Utterance("utt", FEATURES), CHAIN, 3).outputs[0].indexes) == 4


def test_training_graphs_with_unknown_transition_ids() -> None:
    with pytest.raises(TrainingError, match="has transition-id 3, but the model has 2"):
        supervision_of_graph(CHAIN, np.array([-1, 0, 1]))


def test_normalizing_what_cannot_be() -> None:
    (_, example), *_ = _maker().make(Utterance("utt", FEATURES), SUPERVISION)
    with pytest.raises(TrainingError, match="must have one output, it has 2"):
        normalized(replace(example, outputs=example.outputs * 2), NormalizationWeights(NORMALIZATION))
    nothing = NormalizationWeights(Fst.from_arcs(0, [0.0], [0], [0], [7]))
    with pytest.raises(TrainingError, match="has none of its sequences"):
        normalized(example, nothing)
