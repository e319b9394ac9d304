"""Recognizers: sequences of operations, and what Vosk's loop would do with the parts."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import AcousticStream, BatchRecognizer, Endpointing, KaldiRecognizer, Model, Recognizer, SpokenText
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import ArgumentError, ExecutionError, ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.speech.asr.acoustic_stream import compute_scores
from nnet3.speech.search.endpoints import trailing_silence
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.effort import at_night, draws

SECONDS = 3.0
AUDIO = audio(SECONDS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


@pytest.fixture(scope="module")
def lookahead(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "lookahead", lookahead=True))


def slow_segments(model: Model, parts: list[np.ndarray]) -> list[SpokenText]:
    """The loop as it is described: a result where a call ends at an endpoint, and one at the end of the stream."""
    front, found, segment, first = model.front, [], model.graph.start(model.front.decoding), 0

    def path(first: int = 0) -> tuple[Any, Any]:
        best = segment.search.best_path()
        return best.transition_ids[first:], best.states[first:]

    stream = AcousticStream(front, front.computer(), RATE, path)
    for part in parts:
        for rows in stream.accept(part):
            segment.accept(rows)
        silent = trailing_silence((path()[0] + 1) // 2, [1])
        rules = Endpointing(model.folder.endpoint_rules)
        if rules.which(segment.search.num_rows, silent, segment.search.relative_cost):
            found.append(segment.found().text(0.03, 0.03 * first))
            segment, first = model.graph.start(front.decoding), stream.num_rows
            stream.begin_segment(path)
    segment.accept(stream.finish())
    return [*found, segment.found().text(0.03, 0.03 * first)]


def heard(recognizer: Recognizer, parts: list[np.ndarray]) -> list[SpokenText]:
    found = [recognizer.result() for part in parts if recognizer.accept(part)]
    return [*found, recognizer.finish()]


def cut(samples: np.ndarray, *lengths: int) -> list[np.ndarray]:
    return np.split(samples, np.cumsum(lengths))


def test_segments_are_those_of_the_loop(model: Model) -> None:
    parts = cut(AUDIO, *[PIECE] * (len(AUDIO) // PIECE))
    expected = slow_segments(model, parts)
    assert len(expected) > 2
    assert sum(len(spoken.words) for spoken in expected) > 5
    assert heard(Recognizer(model, RATE), parts) == expected
    begins = [spoken.words[0].start for spoken in expected if spoken.words]
    assert begins == sorted(begins)


@settings(max_examples=draws(2))
@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_calls_of_whole_pieces_make_no_difference(model: Model, lengths: list[int]) -> None:
    recognizer, whole = Recognizer(model, RATE), Recognizer(model, RATE)
    for part in cut(AUDIO, *[PIECE * length for length in lengths]):
        recognizer.accept(part)
    whole.accept(AUDIO)
    assert recognizer.finish() == whole.finish()


OPERATIONS = st.lists(st.sampled_from(["accept", "result", "partial", "finish", "reset"]), min_size=1, max_size=12)


@settings(max_examples=draws(8))
@given(OPERATIONS)
def test_any_operations_in_any_order(model: Model, operations: list[str]) -> None:
    """A second recognizer of the same model, which hears the rest in turns with the first, is not disturbed."""
    first, second = Recognizer(model, RATE), Recognizer(model, RATE)
    parts = iter(cut(AUDIO, *[2 * PIECE] * 9))
    waiting, end, last = [], 0.0, 0.0  # seconds given, and where the words of the last result ended
    for operation in operations:
        if operation == "accept":
            part = next(parts)
            first.accept(part)
            second.accept(part)
            waiting.append(part)
            end += len(part) / RATE
            continue
        spoken = getattr(first, operation)()
        if not waiting:
            assert spoken is None or (not spoken.words and not spoken.alternatives)
        if spoken is not None and spoken.words:
            assert last - 0.05 <= spoken.words[0].start <= spoken.words[-1].end <= end + 0.05
        if operation != "partial":
            last = end if operation == "finish" else last
            waiting = []
    alone = Recognizer(model, RATE)
    for _ in range(operations.count("accept")):
        alone.accept(AUDIO[: 2 * PIECE] if alone._samples == 0 else AUDIO[alone._samples : alone._samples + 2 * PIECE])
    assert second.finish() == alone.finish()
    for recognizer in (first, second, alone):
        recognizer.close()
    assert len(model._idle) <= 8


def test_a_stream_begins_anew_after_its_end(model: Model) -> None:
    recognizer, fresh = Recognizer(model, RATE), Recognizer(model, RATE)
    for each in (recognizer, fresh):
        each.accept(AUDIO)
    once = recognizer.finish()
    assert once == fresh.finish()
    recognizer.accept(AUDIO)
    again = recognizer.finish()
    assert [word.word for word in again.words] == [word.word for word in once.words]
    times = np.array([[word.start, word.end] for word in again.words])
    np.testing.assert_allclose(times - SECONDS, [[word.start, word.end] for word in once.words], atol=1e-6)


def test_a_reset_forgets_the_segment(model: Model) -> None:
    recognizer = Recognizer(model, RATE)
    recognizer.accept(AUDIO[: 10 * PIECE])
    recognizer.reset()
    assert recognizer.result() == recognizer.partial() == SpokenText([])
    recognizer.accept(AUDIO[10 * PIECE :])
    rest = recognizer.finish()
    assert rest.words
    assert rest.words[0].start >= 10 * 0.2 - 0.4


def test_very_long_streams_begin_anew(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.speech.asr.recognizer._MOST_ROWS", 50)
    recognizer = Recognizer(model, RATE)
    recognizer.accept(AUDIO)
    recognizer.result()
    recognizer.accept(AUDIO)
    again, fresh = recognizer.finish(), Recognizer(model, RATE)
    fresh.accept(AUDIO)
    expected = fresh.finish()
    assert [word.word for word in again.words] == [word.word for word in expected.words]
    assert again.words[0].start == pytest.approx(SECONDS + expected.words[0].start)


def test_vosks_names_give_its_json(model: Model) -> None:
    recognizer = KaldiRecognizer(model, RATE)
    assert recognizer.PartialResult() == recognizer.Result() == recognizer.FinalResult() == '{\n  "text" : ""\n}'
    assert recognizer.AcceptWaveform(AUDIO[:PIECE].tobytes()) == 0
    recognizer.AcceptWaveform(AUDIO[PIECE:].tobytes())
    partial = json.loads(recognizer.PartialResult())
    assert set(partial) == {"partial"}
    recognizer.SetPartialWords(True)
    recognizer.all_partial_words = True
    words = json.loads(recognizer.PartialResult())["partial_result"]
    assert set(words[0]) == {"conf", "end", "start", "word"}
    recognizer.SetWords(True)
    result = json.loads(recognizer.Result())
    assert " ".join(word["word"] for word in result["result"]) == result["text"] != ""
    assert recognizer.Result() == '{\n  "text" : ""\n}'
    for wrong in (1.5, "2", None):
        with pytest.raises(ArgumentError, match="alternatives must be a whole number, got"):
            recognizer.SetMaxAlternatives(wrong)  # type: ignore[arg-type]
    recognizer.SetMaxAlternatives(2)
    assert json.loads(recognizer.FinalResult()) == {"alternatives": [{"text": "", "confidence": 1.0}]}
    recognizer.AcceptWaveform(AUDIO)
    listed = json.loads(recognizer.FinalResult())["alternatives"]
    assert len(listed) == 2
    assert listed[0]["confidence"] >= listed[1]["confidence"]
    recognizer.Reset()
    assert model.vosk_model_find_word("low") == 2
    assert model.vosk_model_find_word("strange") == -1


def test_words_of_partial_results(model: Model) -> None:
    """They are those of the lattice, which are behind the audio, or those of all audio."""
    recognizer = KaldiRecognizer(model, RATE)
    recognizer.SetPartialWords(True)
    behind = 0
    for number, part in enumerate(cut(AUDIO, *[PIECE] * 15)[:15]):
        recognizer.AcceptWaveform(part)
        assert recognizer._segment is not None
        recognizer.all_partial_words = False
        some = json.loads(recognizer.PartialResult())
        assert some["partial"] == " ".join(word["word"] for word in some.get("partial_result", ()))
        if number < 8:  # fewer than 60 rows of 30 ms
            assert some == {"partial": ""}
        end = 0.03 * recognizer._segment._lattice.num_rows
        assert all(word["end"] <= end + 1e-6 for word in some.get("partial_result", ()))
        recognizer.all_partial_words = True
        words = json.loads(recognizer.PartialResult()).get("partial_result", [])
        behind += some["partial"] != "" and words[-1]["start"] > end
    assert behind


def test_subtitles_of_a_stream(model: Model, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(AUDIO.tobytes())
    with open(tmp_path / "raw", "rb") as stream:
        text = Recognizer(model, RATE).SrtResult(stream, words_per_line=2)
    assert text.startswith("1\n00:00:0")
    wrong: list[tuple[Any, Any]] = [(None, 2), (io.BytesIO(AUDIO.tobytes()), 0), (io.BytesIO(b""), "two")]
    for source, words in wrong:
        with pytest.raises(ArgumentError):
            Recognizer(model, RATE).SrtResult(source, words)
    assert " --> " in text


def test_a_grammar(lookahead: Model, caplog: pytest.LogCaptureFixture) -> None:
    recognizer = KaldiRecognizer(lookahead, RATE, '["high", "high strange"]')
    assert "strange" in caplog.text
    recognizer.accept(AUDIO)
    with pytest.raises(ExecutionError, match="phrases change between segments only"):
        recognizer.set_phrases(["low"])
    assert {word.word for word in recognizer.result().words} == {"high"}
    recognizer.SetGrammar("[]")
    recognizer.accept(AUDIO)
    free, fresh = recognizer.finish(), Recognizer(lookahead, RATE)
    assert "low" in {word.word for word in free.words}
    assert fresh.finish() == SpokenText([])


@pytest.mark.parametrize("phrases", [["low", "high low"], None])
@pytest.mark.parametrize("before", [[], *at_night(["result"]), ["reset"], ["finish"], ["result", "finish"]])
@pytest.mark.parametrize("is_shared", [False, True])
def test_phrases_begin_a_new_stream(
    lookahead: Model, phrases: list[str] | None, before: list[str], is_shared: bool
) -> None:
    def likelihood(recognizer: Recognizer) -> float:
        for part in cut(AUDIO, *[PIECE] * 10)[:10]:
            recognizer.accept(part)
        return recognizer.result().alternatives[0].confidence

    computer = lookahead.computer(3) if is_shared else None
    fresh = Recognizer(lookahead, RATE, phrases, alternatives=1, computer=computer)
    changed = Recognizer(lookahead, RATE, ["high"], alternatives=1, computer=computer)
    if before:
        changed.accept(AUDIO[10 * PIECE :])
    for operation in before:
        getattr(changed, operation)()
    changed.set_phrases(phrases)
    assert likelihood(changed) == likelihood(fresh)
    assert changed._begin_time == (len(AUDIO) / RATE - 2 if before else 0)


def test_a_refused_grammar_leaves_the_stream(lookahead: Model, model: Model) -> None:
    for each, wrong in ((lookahead, []), (model, ["high"])):
        recognizer, other = Recognizer(each, RATE), Recognizer(each, RATE)
        for first in (recognizer, other):
            first.accept(AUDIO[: 10 * PIECE])
            first.result()
        with pytest.raises(ArgumentError):
            recognizer.set_phrases(wrong)
        for first in (recognizer, other):
            first.accept(AUDIO[10 * PIECE :])
        assert recognizer.finish() == other.finish()


def test_a_grammar_of_unknown_words_hears_nothing(lookahead: Model, caplog: pytest.LogCaptureFixture) -> None:
    recognizer = KaldiRecognizer(lookahead, RATE, '["strange", "[unk]"]')
    assert "does not know these words of the phrases: [unk], strange" in caplog.text
    recognizer.SetWords(True)
    recognizer.AcceptWaveform(AUDIO)
    assert json.loads(recognizer.PartialResult()) == {"partial": ""}
    assert json.loads(recognizer.FinalResult()) == {"text": ""}


def test_a_grammar_for_a_fixed_graph(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nnet3"):
        KaldiRecognizer(model, RATE, '["high"]')
    assert "the grammar changes nothing" in caplog.text
    with pytest.raises(ArgumentError, match=r"needs a model with HCLr\.fst"):
        Recognizer(model, RATE, ["high"])


def test_wrong_arguments(model: Model, lookahead: Model) -> None:
    with pytest.raises(ArgumentError, match=r"needs an nnet3\.asr\.Model, got str"):
        Recognizer("model", RATE)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="sample rate"):
        Recognizer(model, 3)
    with pytest.raises(ArgumentError, match="a JSON list of phrases"):
        Recognizer(lookahead, RATE, "yes no")
    with pytest.raises(ArgumentError, match="a list of texts"):
        Recognizer(lookahead, RATE, [3])  # type: ignore[list-item]
    for wrong in ({"channels": "two"}, {"channels": None}, {"channel": "left"}, {"channels": 0}, {"computer": 5}):
        with pytest.raises(ArgumentError):
            Recognizer(model, RATE, **wrong)
    with pytest.raises(ArgumentError, match="at most 10000 alternatives are listed, got 2147483647"):
        Recognizer(model, RATE, alternatives=2**31 - 1)
    with pytest.raises(ArgumentError, match=r"needs an nnet3\.asr\.BatchModel, got Model"):
        BatchRecognizer(model, RATE)  # type: ignore[arg-type]
    recognizer = Recognizer(model, RATE)
    with pytest.raises(ArgumentError):
        recognizer.accept("text")  # type: ignore[arg-type]
    with recognizer:
        assert recognizer.finish() == SpokenText([])
    for call in (recognizer.result, recognizer.partial, recognizer.finish, recognizer.reset):
        with pytest.raises(ExecutionError, match="this recognizer is closed"):
            call()
    with pytest.raises(ExecutionError, match="this recognizer is closed"):
        recognizer.accept(AUDIO)


def test_models_that_cannot_be_loaded(model: Model) -> None:
    for device in ("foo", "cuda:99"):
        with pytest.raises(ExecutionError, match="device"):
            Model(model.folder.path, device=device)
    with pytest.raises(ArgumentError, match="the path of a folder with a graph is needed, got 5"):
        Model(model.folder.path, graph=5)  # type: ignore[arg-type]


def test_audio_beyond_all_scales_leaves_the_stream(model: Model) -> None:
    recognizer, expected = Recognizer(model, RATE), Recognizer(model, RATE)
    for wrong in (np.full(PIECE, 1e38, np.float32), np.full(9, np.nan), "text", np.zeros((3, 2), np.int16)):
        recognizer.accept(AUDIO[:PIECE])
        expected.accept(AUDIO[:PIECE])
        with pytest.raises(ArgumentError):
            recognizer.accept(wrong)  # type: ignore[arg-type]
    assert recognizer.finish() == expected.finish()


def test_one_thread_at_a_time_is_heard(model: Model) -> None:
    """Another one is told so, and the stream goes on; a recognizer that is closed meanwhile ends behind the piece."""
    recognizer, expected = Recognizer(model, RATE), Recognizer(model, RATE)
    steps = recognizer.steps(AUDIO[:PIECE])
    inputs = next(steps)
    for call in (recognizer.result, recognizer.partial, recognizer.finish, recognizer.reset):
        with pytest.raises(ExecutionError, match="at work already: give each thread a recognizer of its own"):
            call()
    for wrong in (lambda: recognizer.accept(AUDIO), lambda: recognizer.set_phrases(phrases=None)):
        with pytest.raises(ExecutionError, match="at work already"):
            wrong()
    with pytest.raises(StopIteration):
        steps.send(compute_scores([inputs])[inputs.stream])
    expected.accept(AUDIO[:PIECE])
    assert recognizer.finish() == expected.finish()
    steps = recognizer.steps(AUDIO[:PIECE])
    inputs, idle = next(steps), len(model._idle)
    recognizer.close()
    assert len(model._idle) == idle
    with pytest.raises(StopIteration):
        steps.send(compute_scores([inputs])[inputs.stream])
    assert len(model._idle) == idle + 1


def test_graphs_and_networks_of_other_models(tmp_path: Path) -> None:
    folder = write_recognizer(tmp_path / "model")
    save_fst(Fst.from_arcs(0, np.zeros(2), [0], [1], [7], [0.0], [0]), str(folder / "graph/HCLG.fst"))
    with pytest.raises(ModelFormatError, match="does the graph belong to this model"):
        Model(folder)
    (folder / "graph/HCLG.fst").unlink()
    with pytest.raises(ModelFormatError, match=r"HCLG\.fst or HCLr\.fst, Gr\.fst"):
        Model(folder)
