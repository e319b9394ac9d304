"""Programs written for Vosk run with `nnet3.asr` in the place of `vosk`: how they call, in lines of our own."""

from __future__ import annotations

import io
import json
import multiprocessing.dummy
import subprocess
import sys
import types
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nnet3.asr
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.asr.small_speakers import write_speaker_model

SOUND = audio(1.2)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of a language."""
    folder = tmp_path_factory.mktemp("models")
    write_recognizer(folder / "vosk-model-small-en-us-0.15")
    write_recognizer(folder / "vosk-model-small-xx-0.1", lookahead=True)
    return folder


@pytest.fixture(autouse=True)
def vosk(models: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """`nnet3.asr` under the name `vosk`."""
    monkeypatch.setenv("VOSK_MODEL_PATH", str(models))
    monkeypatch.setitem(sys.modules, "vosk", nnet3.asr)
    return nnet3.asr


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[wave.Wave_read]:
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(SOUND.tobytes())
    with wave.open(str(tmp_path / "sound.wav"), "rb") as file:
        yield file


def conversation(recognizer: nnet3.asr.KaldiRecognizer, sound: wave.Wave_read) -> list[dict[str, object]]:
    """The loop of the examples."""
    heard = []
    while data := sound.readframes(4000):
        heard.append(json.loads(recognizer.Result() if recognizer.AcceptWaveform(data) else recognizer.PartialResult()))
    return [*heard, json.loads(recognizer.FinalResult())]


def test_the_simple_example(sound: wave.Wave_read) -> None:
    from vosk import KaldiRecognizer, Model, SetLogLevel

    SetLogLevel(0)
    recognizer = KaldiRecognizer(Model(lang="en-us"), sound.getframerate())
    recognizer.SetWords(True)
    recognizer.SetPartialWords(True)
    *others, last = conversation(recognizer, sound)
    assert any("partial" in each for each in others)
    assert "text" in last


def test_the_example_of_endpoints(sound: wave.Wave_read) -> None:
    from vosk import EndpointerMode, KaldiRecognizer, Model

    recognizer = KaldiRecognizer(Model(lang="en-us"), sound.getframerate())
    recognizer.SetEndpointerMode(EndpointerMode.VERY_LONG)
    conversation(recognizer, sound)
    sound.rewind()
    recognizer.SetEndpointerDelays(0.5, 0.3, 10.0)
    assert "text" in conversation(recognizer, sound)[-1]


def test_the_examples_of_words_and_resets(sound: wave.Wave_read) -> None:
    from vosk import KaldiRecognizer, Model

    recognizer = KaldiRecognizer(Model(lang="xx"), sound.getframerate(), '["high high", "[unk]"]')
    while data := sound.readframes(4000):
        if recognizer.AcceptWaveform(data):
            assert set(json.loads(recognizer.Result())["text"].split()) <= {"high"}
            recognizer.SetGrammar('["low", "[unk]"]')
        elif json.loads(recognizer.PartialResult())["partial"] == "high high":
            recognizer.Reset()
    assert "text" in json.loads(recognizer.FinalResult())


def test_the_examples_of_alternatives_and_nlsml(sound: wave.Wave_read) -> None:
    from vosk import KaldiRecognizer, Model

    recognizer = KaldiRecognizer(Model(model_name="vosk-model-small-en-us-0.15"), sound.getframerate())
    recognizer.SetMaxAlternatives(10)
    recognizer.SetWords(True)
    heard = [each["alternatives"] for each in conversation(recognizer, sound) if "alternatives" in each]
    assert max(map(len, heard)) > 1  # type: ignore[arg-type]
    sound.rewind()
    recognizer.SetNLSML(True)
    recognizer.AcceptWaveform(sound.readframes(8000))
    assert recognizer.FinalResult().startswith('<?xml version="1.0"?>\n<result grammar="default">\n<interpretation')


def test_the_example_of_speakers(sound: wave.Wave_read, tmp_path: Path) -> None:
    from vosk import KaldiRecognizer, Model, SpkModel

    recognizer = KaldiRecognizer(Model(lang="en-us"), sound.getframerate())
    recognizer.SetSpkModel(SpkModel(str(write_speaker_model(tmp_path / "model-spk"))))
    result = conversation(recognizer, sound)[-1]
    if "spk" in result:
        assert np.linalg.norm(result["spk"]) > 0
        assert result["spk_frames"] >= 50  # type: ignore[operator]


def test_the_examples_of_a_pipe(tmp_path: Path) -> None:
    from vosk import KaldiRecognizer, Model

    (tmp_path / "raw").write_bytes(SOUND.tobytes())
    recognizer = KaldiRecognizer(Model(lang="en-us"), RATE)
    recognizer.SetWords(True)
    command = [sys.executable, "-S", "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"]
    with subprocess.Popen([*command, str(tmp_path / "raw")], stdout=subprocess.PIPE) as process:
        assert " --> " in recognizer.SrtResult(process.stdout)


def test_subtitles_have_times_of_milliseconds() -> None:
    """Vosk's package for subtitles drops what is below a millisecond."""
    from nnet3.speech.asr.vosk_json import TimedWord
    from nnet3.speech.asr.vosk_names import _in_milliseconds

    cut = _in_milliseconds(TimedWord("a", 0.27, 1.8595034))
    assert (cut.start, cut.end) == (0.27, 1.859)
    assert _in_milliseconds(TimedWord("a", 0.9999997, 2.0)).start == 1.0


def test_the_example_of_batches(tmp_path: Path) -> None:
    from vosk import BatchModel, BatchRecognizer, GpuInit, GpuThreadInit

    GpuInit()
    GpuThreadInit()
    model = BatchModel(str(nnet3.asr.Model.get_model_path(None, "en-us")))
    files = [io.BytesIO(SOUND.tobytes()), io.BytesIO(SOUND[:5000].tobytes())]
    recognizers, results, ended = [BatchRecognizer(model, RATE) for _ in files], [""] * 2, set()
    while len(ended) < len(files):
        for number, file in enumerate(files):
            if number in ended:
                continue
            data = file.read(8000)
            if data:
                recognizers[number].AcceptWaveform(data)
            else:
                recognizers[number].FinishStream()
                ended.add(number)
        model.Wait()
        for number, recognizer in enumerate(recognizers):
            result = recognizer.Result()
            if len(result) != 0:
                results[number] += " " + json.loads(result)["text"]
    assert results[0].strip()


def test_the_server_of_batches() -> None:
    """It waits until nothing is pending, and asks for a result after each message."""
    from vosk import BatchModel, BatchRecognizer

    recognizer, answers = BatchRecognizer(BatchModel(nnet3.asr.Model.get_model_path(None, "en-us")), RATE), []
    for first in range(0, len(SOUND), 1600):
        recognizer.AcceptWaveform(SOUND[first : first + 1600].tobytes())
        while recognizer.GetPendingChunks() > 0:
            pass
        answers.append(recognizer.Result())
    recognizer.FinishStream()
    while recognizer.GetPendingChunks() > 0:
        pass
    assert "text" in json.loads(recognizer.Result())
    assert "" in answers


def test_the_transcriber() -> None:
    """It makes recognizers of one model in threads, all arguments of the model given by name."""
    from vosk import KaldiRecognizer, Model, list_languages, list_models

    list_models()
    list_languages()
    model = Model(model_path=None, model_name=None, lang="en-us")

    def transcribed(part: np.ndarray) -> list[dict[str, object]]:
        recognizer, results = KaldiRecognizer(model, 16000.0), []
        recognizer.SetWords(True)
        stream = io.BytesIO(np.repeat(part, 2).tobytes())
        while data := stream.read(4000):
            if recognizer.AcceptWaveform(data):
                results.append(json.loads(recognizer.Result()))
            else:
                assert "partial" in json.loads(recognizer.PartialResult())
        return [*results, json.loads(recognizer.FinalResult())]

    with multiprocessing.dummy.Pool(3) as pool:
        found = pool.map(transcribed, [SOUND] * 4)
    assert all(each == found[0] for each in found)
    assert any(word["conf"] <= 1 for result in found[0] for word in result.get("result", ()))  # type: ignore[attr-defined]


def test_the_recognizer_of_speech_recognition(models: Path) -> None:
    from vosk import KaldiRecognizer, Model

    recognizer = KaldiRecognizer(Model(str(models / "vosk-model-small-en-us-0.15")), 16_000)
    recognizer.AcceptWaveform(np.repeat(SOUND, 2).tobytes())
    assert isinstance(json.loads(recognizer.FinalResult())["text"], str)


def test_the_plugin_of_a_voice_assistant(models: Path) -> None:
    """It keeps one recognizer for all utterances, and gives audio with the header of its WAV file."""
    from vosk import KaldiRecognizer, Model as KaldiModel

    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, 16000, 0, "NONE", ""))
        written.writeframes(np.repeat(SOUND, 2).tobytes())
    path = str(models / "vosk-model-small-xx-0.1")
    for recognizer in (
        KaldiRecognizer(KaldiModel(path), 16000),
        KaldiRecognizer(KaldiModel(path), 16000, json.dumps(["low", "high"])),
    ):
        texts = []
        for _ in range(2):
            recognizer.AcceptWaveform(file.getvalue())
            assert isinstance(json.loads(recognizer.PartialResult())["partial"], str)
            texts.append(json.loads(recognizer.FinalResult())["text"])
        assert texts[0] == texts[1]


def test_the_example_of_an_empty_stream() -> None:
    from vosk import KaldiRecognizer, Model

    assert json.loads(KaldiRecognizer(Model(lang="en-us"), 8000).FinalResult()) == {"text": ""}


def test_vosks_names_are_all_there(vosk: types.ModuleType) -> None:
    names = [
        "MODEL_PRE_URL",
        "MODEL_LIST_URL",
        "MODEL_DIRS",
        "list_models",
        "list_languages",
        "Model",
        "SpkModel",
        "EndpointerMode",
        "KaldiRecognizer",
        "SetLogLevel",
        "GpuInit",
        "GpuThreadInit",
        "BatchModel",
        "BatchRecognizer",
        "Processor",
    ]
    assert set(names) <= set(dir(vosk))
    methods = {
        "Model": "vosk_model_find_word get_model_path get_model_by_name get_model_by_lang download_model",
        "KaldiRecognizer": "SetMaxAlternatives SetWords SetPartialWords SetNLSML SetEndpointerMode SetEndpointerDelays "
        "SetSpkModel SetGrammar AcceptWaveform Result PartialResult FinalResult Reset SrtResult",
        "BatchModel": "Wait",
        "BatchRecognizer": "AcceptWaveform Result FinishStream GetPendingChunks",
        "Processor": "process",
    }
    for name, listed in methods.items():
        for method in listed.split():
            assert callable(getattr(getattr(vosk, name), method))
    assert [(mode.name, mode.value) for mode in vosk.EndpointerMode] == [
        ("DEFAULT", 0), ("SHORT", 1), ("LONG", 2), ("VERY_LONG", 3),
    ]  # fmt: skip
