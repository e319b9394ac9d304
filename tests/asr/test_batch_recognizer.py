"""Batches: what each stream hears is what a recognizer alone hears, however the calls come."""

from __future__ import annotations

import gc
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3.asr import BatchModel, BatchRecognizer, GpuInit, GpuThreadInit, KaldiRecognizer, Model
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.asr import batch_recognizer
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.effort import draws

SOUNDS = [audio(1.6), audio(1.2)[::-1].copy()]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> BatchModel:
    GpuThreadInit()
    return BatchModel(str(write_recognizer(tmp_path_factory.mktemp("model") / "small")))


@pytest.fixture(scope="module")
def alone(model: BatchModel) -> list[list[str]]:
    """The texts of results of each sound, from a recognizer alone."""
    found = []
    for sound in SOUNDS:
        recognizer = KaldiRecognizer(model.model, RATE)
        parts = np.split(sound, range(PIECE, len(sound), PIECE))
        results = [recognizer.Result() for part in parts if recognizer.AcceptWaveform(part)]
        found.append([json.loads(each)["text"] for each in [*results, recognizer.FinalResult()]])
    return found


def taken(recognizer: BatchRecognizer) -> list[str]:
    found = []
    while result := recognizer.Result():
        found.append(json.loads(result)["text"])
    return found


def test_what_results_would_be_rescored_by_is_not_read(tmp_path: Path) -> None:
    folder = write_recognizer(tmp_path / "small")
    (folder / "rescore").mkdir()
    for name in ("G.fst", "G.carpa"):
        (folder / "rescore" / name).write_bytes(b"damaged")
    with pytest.raises(ModelFormatError, match="rescore"):
        Model(str(folder))
    assert BatchModel(str(folder)).model.rescoring is None


@settings(max_examples=draws(4))
@given(st.lists(st.sampled_from(["audio 0", "audio 1", "wait", "pending", "result"]), max_size=20))
def test_any_calls_in_any_order(model: BatchModel, alone: list[list[str]], calls: list[str]) -> None:
    recognizers = [BatchRecognizer(model, RATE) for _ in SOUNDS]
    parts = [iter(np.split(sound, range(PIECE, len(sound), PIECE))) for sound in SOUNDS]
    found: list[list[str]] = [[], []]
    for call in [*calls, *["audio 0"] * 9, *["audio 1"] * 9]:
        if call == "wait":
            model.Wait()
        elif call == "pending":
            before = recognizers[0].GetPendingChunks()
            assert recognizers[0].GetPendingChunks() <= before
        elif call == "result":
            for each, results in zip(recognizers, found, strict=True):
                results += taken(each)
        else:
            number = int(call[-1])
            part = next(parts[number], None)
            if part is not None:
                recognizers[number].AcceptWaveform(part.tobytes())
    for each in recognizers:
        each.FinishStream()
    while max(each.GetPendingChunks() for each in recognizers):
        pass
    assert [results + taken(each) for each, results in zip(recognizers, found, strict=True)] == alone


def test_times_are_whole_rows(model: BatchModel) -> None:
    recognizer = BatchRecognizer(model, RATE)
    recognizer.AcceptWaveform(SOUNDS[0].tobytes())
    recognizer.FinishStream()
    model.Wait()
    words = json.loads(recognizer.Result())["result"]
    times = np.array([[word["start"], word["end"]] for word in words]) / 0.03
    np.testing.assert_allclose(times, np.round(times), atol=1e-4)
    assert recognizer.Result() == ""
    recognizer.SetNLSML(True)
    recognizer.AcceptWaveform(SOUNDS[0].tobytes())
    recognizer.FinishStream()
    model.Wait()
    document = ElementTree.fromstring(recognizer.Result())
    assert document.findtext("interpretation/instance") == " ".join(word["word"] for word in words)
    assert 0 < float(document.find("interpretation").attrib["confidence"]) <= 1  # type: ignore[union-attr]


def test_a_failure_ends_its_stream_alone(model: BatchModel, alone: list[list[str]]) -> None:
    good, bad = BatchRecognizer(model, RATE), BatchRecognizer(model, RATE)
    for part in np.split(SOUNDS[0], range(PIECE, len(SOUNDS[0]), PIECE)):
        good.AcceptWaveform(part)
    bad.AcceptWaveform("text")  # type: ignore[arg-type]
    good.FinishStream()
    model.Wait()
    assert taken(good) == alone[0]
    for call in (bad.Result, bad.GetPendingChunks, bad.FinishStream):
        with pytest.raises(ArgumentError):
            call()


def test_more_streams_than_a_computer_has(model: BatchModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_recognizer, "_STREAMS", 2)
    few = BatchModel(str(model.model.folder.path))
    recognizers = [BatchRecognizer(few, RATE) for _ in range(5)]
    assert len(few._computers) == 3
    for each in recognizers:
        each.AcceptWaveform(SOUNDS[1].tobytes())
    few.Wait()
    del each, recognizers
    gc.collect()
    again = [BatchRecognizer(few, RATE) for _ in range(5)]
    assert len(few._computers) == 3
    for each in again:
        each.AcceptWaveform(SOUNDS[1].tobytes())
        each.FinishStream()
    few.Wait()
    assert len({each.Result() for each in again}) == 1


def test_the_gpu_is_for_models_that_come_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnet3.speech.asr import vosk_process

    monkeypatch.setattr(vosk_process, "_device", {"batches": "cpu"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    GpuInit()
    assert vosk_process.device_of_batches() == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    GpuInit()
    assert vosk_process.device_of_batches() == "cuda"


def test_a_recognizer_may_go_while_the_network_runs(model: BatchModel) -> None:
    """Garbage is collected at any moment: nothing is waited for, and the next round frees the stream."""
    gc.collect()  # recognizers of other tests go now, not below
    recognizer = BatchRecognizer(model, RATE)
    computer = recognizer._computer
    recognizer.AcceptWaveform(SOUNDS[0].tobytes())
    model.Wait()
    before = len(computer._open)
    with computer._lock:
        del recognizer
        gc.collect()
    model.Wait()
    assert len(computer._open) == before - 1
