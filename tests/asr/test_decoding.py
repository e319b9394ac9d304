"""From scores to words: graphs of both kinds in a directory, and grammars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import ArgumentError, ExecutionError, ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.options import DecodingOptions
from nnet3.speech.asr.decoding import DecodedSegment, DecodingGraph
from nnet3.speech.asr.model_folder import GraphFiles
from nnet3.speech.language_models.graph_words import DIGEST, write_digest
from tests.asr.toy_lattices import many_paths
from tests.asr.toy_phones import KINDS, PHONES, chain_model, ids_of_phones
from tests.kaldi_io.graph_bytes import lookahead_bytes, ngram_bytes

OPTIONS = DecodingOptions(beam=100, lattice_beam=60)
#: Words of a model whose phones 2, 5 and 3 begin, go on in and end words; 4 is a word alone, 1 is silence.
WORDS = {1: "long", 2: "short"}


def word_loop() -> Fst:
    """Any words with silence between them, in which each phone begins with its label and goes on with another one."""
    arcs, states = [], 1
    for word, phones in ((0, [1]), (1, [2, 5, 3]), (2, [4])):
        state = 0
        for number, phone in enumerate(phones):
            first, goes_on = 2 * phone, 2 * phone - 1
            if number:
                arcs.append((state, states, 0, 0))
            arcs.append((state if not number else states, states + 1, first, word if number == len(phones) - 1 else 0))
            arcs.append((states + 1, states + 1, goes_on, 0))
            state = states + 1
            states += 2
        arcs.append((state, 0, 0, 0))
    src, dst, ilabel, olabel = zip(*arcs, strict=True)
    final = np.full(states, np.inf)
    final[0] = 0
    return Fst.from_arcs(0, final, src, dst, ilabel, np.full(len(src), 0.01), olabel)


def scores_of(*phones: tuple[int, int]) -> np.ndarray:
    """Scores that are high for these phones, each for so many rows."""
    model = chain_model()
    ids = np.array(ids_of_phones(model, *phones))
    scores = np.full((len(ids), model.num_pdfs), -20.0, np.float32)
    scores[np.arange(len(ids)), model.pdf(ids)] = 0
    return scores


SAID = (1, 2), (2, 2), (5, 1), (3, 2), (4, 3), (1, 3), (4, 2)


@pytest.fixture
def files(tmp_path: Path) -> GraphFiles:
    save_fst(word_loop(), str(tmp_path / "HCLG.fst"))
    (tmp_path / "words.txt").write_text("<eps> 0\n" + "".join(f"{word} {label}\n" for label, word in WORDS.items()))
    (tmp_path / "word_boundary.int").write_text(KINDS)
    return GraphFiles({"HCLG.fst": tmp_path / "HCLG.fst"}, tmp_path / "words.txt", tmp_path / "word_boundary.int")


@pytest.fixture
def lookahead_files(files: GraphFiles, tmp_path: Path) -> GraphFiles:
    graph = word_loop()
    reaches = [[(1, 4)]] * graph.num_states  # more than true: that is allowed
    (tmp_path / "HCLr.fst").write_bytes(lookahead_bytes(graph, reaches, 3))
    model = ngram_bytes({(): {1: 0.7, 2: 0.9}, (0,): {1: 0.5}, (1,): {2: 0.1}}, {(): 1.0}, {(0,): 0.2, (1,): 0.3})
    (tmp_path / "Gr.fst").write_bytes(model)
    (tmp_path / "disambig_tid.int").write_text("11 12\n")
    parts = {name: tmp_path / name for name in ("HCLr.fst", "Gr.fst", "disambig_tid.int")}
    return GraphFiles(parts, files.words, files.word_boundary)


@pytest.mark.parametrize("kind", ["files", "lookahead_files"])
def test_words_of_another_graph(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    files = request.getfixturevalue(kind)
    write_digest(tmp_path / DIGEST, files.words)
    DecodingGraph.load(files, chain_model())
    (tmp_path / "words.txt").write_text((tmp_path / "words.txt").read_text() + "another 99\n")
    with pytest.raises(ModelFormatError, match=r"words\.txt: .* was made of other words, says words\.sha256 beside it"):
        DecodingGraph.load(files, chain_model())
    for damaged in (b"", b"\xff\0"):
        (tmp_path / "words.sha256").write_bytes(damaged)
        with pytest.raises(ModelFormatError, match="made of other words"):
            DecodingGraph.load(files, chain_model())
    (tmp_path / "words.sha256").unlink()
    DecodingGraph.load(files, chain_model())


@pytest.mark.parametrize("kind", ["files", "lookahead_files"])
def test_words_with_times(kind: str, request: pytest.FixtureRequest) -> None:
    graph = DecodingGraph.load(request.getfixturevalue(kind), chain_model())
    segment = graph.start(OPTIONS)
    for rows in np.array_split(scores_of(*SAID), 4):
        segment.accept(rows)
    found = segment.found()
    assert found is not None
    spoken = found.text(seconds_per_row=0.03, begin=1.0, alternatives=2)
    assert spoken.text == "long short short"
    times = [(word.start, word.end) for word in spoken.words]
    assert np.allclose(times, 1 + 0.03 * np.array([[2, 7], [7, 10], [13, 15]]), atol=2e-3)
    assert all(0.9 < word.confidence <= 1 for word in spoken.words if word.confidence is not None)
    assert " ".join(word.word for word in spoken.alternatives[0].words) == spoken.text
    assert spoken.alternatives[0].confidence > spoken.alternatives[1].confidence
    assert segment.notices == []


def test_words_whose_phones_are_of_another_graph_are_told_once(
    files: GraphFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """They have the rows of their arcs, as without word_boundary.int."""
    files.word_boundary.write_text("2 internal\n4 internal\n")
    graph = DecodingGraph.load(files, chain_model())
    for _ in range(2):
        assert [word.label for word in DecodedSegment(graph, many_paths(40)).words] == [1] * 40
    assert [record.getMessage()[:55] for record in caplog.records] == [
        "word_boundary.int is not used: words do not begin and e"
    ]


def test_what_is_found_before_the_end(files: GraphFiles) -> None:
    segment = DecodingGraph.load(files, chain_model()).start(OPTIONS)
    scores = scores_of(*SAID)
    for rows, words in ((2, []), (9, [1, 2]), (13, [1, 2]), (15, [1, 2, 2])):
        segment.accept(scores[segment.search.num_rows : rows])
        path, found, trace = segment.search.best_path(), segment.found(use_final=False), segment.trace()
        assert path is not None
        assert found is not None
        assert trace is not None
        assert np.array_equal(trace, (path.transition_ids, path.states))
        assert path.words.tolist() == words == [word.label for word in found.words]


def test_what_the_lattice_has_already(files: GraphFiles) -> None:
    """It is what a search finds that has heard no more than these rows."""
    graph, scores = DecodingGraph.load(files, chain_model()), scores_of(*SAID, *SAID, *SAID)
    options = replace(OPTIONS, determinize_max_delay=6, determinize_min_chunk_size=2)
    segment, seen = graph.start(options), set()
    for row in scores:
        segment.accept(row[np.newaxis])
        rows = segment._lattice.num_rows
        settled = segment.settled()
        assert (settled is None) == (rows == 0)
        if settled is None or rows in seen:
            continue
        seen.add(rows)
        alone = graph.start(OPTIONS)
        alone.accept(scores[:rows])
        expected = alone.found(use_final=False)
        assert expected is not None
        expected = replace(expected, graph_scale=1.0)
        assert [word.label for word in settled.words] == [word.label for word in expected.words]
        for one, other in zip(settled.words, expected.words, strict=True):
            assert tuple(one) == pytest.approx(tuple(other), abs=1e-4)
    assert len(seen) > 3
    assert max(seen) < len(scores)


def test_a_grammar_leaves_only_its_words(lookahead_files: GraphFiles) -> None:
    graph = DecodingGraph.load(lookahead_files, chain_model())
    only_short, unknown = graph.with_phrases(["short strange", "short short"])
    assert unknown == ["strange"]
    segment = only_short.start(OPTIONS)
    segment.accept(scores_of(*SAID))
    found = segment.found()
    assert found is not None
    assert {word.label for word in found.words} == {2}
    with pytest.raises(ArgumentError, match="at least one phrase"):
        graph.with_phrases([])


@pytest.mark.parametrize("phrases", [["strange"], [""], ["[unk]", "strange strange", " "], ["<eps>"]])
def test_phrases_without_known_words_count_as_ends(lookahead_files: GraphFiles, phrases: list[str]) -> None:
    graph = DecodingGraph.load(lookahead_files, chain_model())
    nothing, unknown = graph.with_phrases(phrases)
    assert unknown == sorted({word for phrase in phrases for word in phrase.split()})
    segment = nothing.start(OPTIONS)
    segment.accept(scores_of(*SAID))
    found = segment.found()
    assert found is not None
    assert found.words == []
    costs = []
    for more in ([], phrases):
        segment = graph.with_phrases(["short", *more])[0].start(OPTIONS)
        segment.accept(scores_of((4, 3)))
        found = segment.found()
        assert found is not None
        costs.append(found.alternatives(1)[0].cost)
    assert costs[1] > costs[0] + 0.1


def test_graphs_that_are_not_this_models(files: GraphFiles, tmp_path: Path) -> None:
    loop = word_loop()
    other = Fst(
        0, loop.final, loop.offsets, np.where(loop.ilabel == 8, 99, loop.ilabel), loop.olabel, loop.cost, loop.dst
    )
    save_fst(other, str(tmp_path / "HCLG.fst"))
    with pytest.raises(ModelFormatError, match=f"has input label 99, but the model has {2 * PHONES} transition-ids"):
        DecodingGraph.load(files, chain_model())
    save_fst(loop, str(tmp_path / "HCLG.fst"))
    with pytest.raises(ModelFormatError, match=r"HCLG\.fst: .* no table of its words, and there is no words.txt"):
        DecodingGraph.load(replace(files, words=None), chain_model())
    with pytest.raises(ArgumentError, match=r"a grammar needs a model with HCLr.fst and Gr.fst"):
        DecodingGraph.load(files, chain_model()).with_phrases(["long"])


def test_speech_that_fits_nothing(files: GraphFiles) -> None:
    fst = Fst.from_arcs(0, [np.inf, 0], [0], [1], [1], [0.0], [1])
    save_fst(fst, str(files.files["HCLG.fst"]))
    segment = DecodingGraph.load(files, chain_model()).start(OPTIONS)
    for rows in (3, 2 * OPTIONS.determinize_max_delay, 1):
        segment.accept(scores_of((1, rows)))
        assert segment.found() is None


def test_costs_whose_sums_are_lost(lookahead_files: GraphFiles) -> None:
    """A damaged byte in the cost of the end, which is paid before the end and taken back at a word."""
    model = ngram_bytes({(): {1: 0.7, 2: 0.9}, (0,): {1: 0.5}}, {(): -4.95e27}, {(0,): 0.2})
    lookahead_files.files["Gr.fst"].write_bytes(model)
    segment = DecodingGraph.load(lookahead_files, chain_model()).start(OPTIONS)
    segment.accept(np.concatenate([scores_of(*SAID)] * 8))
    with pytest.raises(ExecutionError, match="sums of them are lost: is the graph damaged"):
        segment.found()


def test_what_was_narrowed_is_told(files: GraphFiles) -> None:
    """Also if it is in the last piece of the lattice, or the only one."""
    segment = DecodingGraph.load(files, chain_model()).start(replace(OPTIONS, max_mem=1))
    segment.accept(scores_of(*SAID))
    assert segment.found() is not None
    assert segment.notices == ["the lattice needs too much memory: its beam is 0 instead of 60 (max-mem)"]


@pytest.mark.parametrize("kind", ["files", "lookahead_files"])
def test_a_segment_without_an_end_stays_small(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are in the lattice are forgotten, states of the composition too; words are those of all."""
    monkeypatch.setattr("nnet3.speech.search.composition._MOST_STATES", 20)
    segment = DecodingGraph.load(request.getfixturevalue(kind), chain_model()).start(replace(OPTIONS, lattice_beam=4.0))
    scores, times, most = scores_of(*SAID), 20, 0
    for _ in range(times):
        segment.accept(scores)
        most = max(most, len(segment.search.tokens._rows))
    assert segment.search.num_rows == times * len(scores)
    assert most < 2 * OPTIONS.determinize_max_delay
    path, found = segment.search.best_path(), segment.found()
    assert path is not None
    assert len(path.transition_ids) == segment.search.num_rows
    assert path.words.tolist() == [1, 2, 2] * times
    assert found is not None
    assert [word.label for word in found.words] == [1, 2, 2] * times
