"""Speaker vectors: Vosk's own of recordings, the frames and windows of the page, and models that cannot be used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import nnet3
from nnet3.asr import KaldiRecognizer, Model, Recognizer, SpkModel
from nnet3.base.kaldi_io.load import load_matrix, load_vector
from nnet3.errors import ArgumentError, ConfigError, ExecutionError, ModelFormatError
from nnet3.speech.asr.speakers import NORMALISATION, SpeakerStream, speech_frames
from nnet3.speech.features.features import FeatureStream
from nnet3.speech.features.sliding_cmvn import normalised_by_window
from tests.asr.golden_vosk import Heard, check_mode, modes_of, said, samples_of
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.asr.small_speakers import FEATURES, write_speaker_model
from tests.rescoring_data import needs_rescoring, rescoring_cases
from tests.seeds import RANDOM

CASES = rescoring_cases("spk")
MODES = [(case, mode) for case in CASES for mode in modes_of(case)]


@needs_rescoring
def test_there_are_cases() -> None:
    assert len(CASES) >= 4


@pytest.fixture(scope="module")
def heard() -> dict[Path, Heard]:
    return {case: Heard(case) for case in CASES}


@pytest.mark.parametrize(("case", "mode"), MODES, ids=[f"{case.name}-{mode['name']}" for case, mode in MODES])
def test_vectors_of_the_wheel(heard: dict[Path, Heard], case: Path, mode: dict[str, Any]) -> None:
    check_mode(case, mode, said(heard[case], mode))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_frames_of_the_network(case: Path) -> None:
    model = SpkModel(case / "spk")
    samples = np.frombuffer(samples_of(case), "<i2").astype(np.float32)
    features = FeatureStream(model.features, 8000).accept(samples)
    rows = np.array((case / "rows.txt").read_text().split(), int)
    used = features[speech_frames(rows, len(features))]
    if (case / "mfcc.mat").exists():
        np.testing.assert_allclose(used, load_matrix(case / "mfcc.mat"), atol=1e-3)
    np.testing.assert_allclose(
        normalised_by_window(used, NORMALISATION)[0], load_matrix(case / "normalised.mat"), atol=1e-3
    )


@pytest.mark.parametrize("case", [each for each in CASES if (each / "segments_stream_2000.txt").exists()], ids=str)
def test_frames_of_segments(case: Path) -> None:
    """Rows and offsets as Kaldi wrote them down give the vectors of the streamed answers."""
    model = SpkModel(case / "spk")
    stream = SpeakerStream(model, 8000)
    stream.accept(np.frombuffer(samples_of(case), "<i2").astype(np.float32))
    firsts = [int(line.split()[4].rstrip(",")) for line in (case / "segments_stream_2000.txt").read_text().splitlines()]
    answers = json.loads((case / "answers.json").read_text())["stream_2000"]
    assert len(firsts) == len(answers)
    for number, (first, answer) in enumerate(zip(firsts, answers, strict=True)):
        rows = np.array((case / f"rows_stream_2000.{number}.txt").read_text().split(), int)
        stream.begin_segment(first)
        found, expected = stream.found(first, rows), answer.get("result", answer)
        if found is None:
            assert "spk" not in expected
            continue
        assert found.num_frames == expected["spk_frames"]
        np.testing.assert_allclose(found.vector, expected["spk"], atol=1e-3)


@given(st.integers(1, 700), st.integers(0, 3))
def test_the_sliding_mean_is_that_of_the_page(total: int, seed: int) -> None:
    frames = np.random.default_rng(seed).normal(size=(total, 2)).astype(np.float32)
    slow = np.empty_like(frames)
    for t in range(total):
        start, end = t - 150, t + 150
        if start < 0:
            start, end = 0, end - start
        if end > total:
            start, end = max(start - (end - total), 0), total
        slow[t] = frames[t] - frames[start:end].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(normalised_by_window(frames, NORMALISATION)[0], slow, atol=1e-5)


@given(st.sets(st.integers(0, 40)), st.integers(0, 120))
def test_frames_of_rows_of_speech(rows: set[int], num_frames: int) -> None:
    frames = speech_frames(np.array(sorted(rows), int), num_frames)
    assert frames.tolist() == [i for i in range(num_frames) if i // 3 in rows]


# ---- a small speaker model ----


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_speaker_model(tmp_path / "spk")


def test_a_vector_by_hand(folder: Path) -> None:
    """The network gives an affine function of the mean of the frames, which is 0 without the sliding mean."""
    speaker = SpkModel(folder)
    frames = RANDOM.normal(size=(60, FEATURES)).astype(np.float32)
    nnet = nnet3.load(folder / "final.ext.raw")
    _, offset = nnet.components["last"].parameters().values()
    raw = load_matrix(folder / "transform.mat") @ (offset.numpy() - load_vector(folder / "mean.vec"))
    vector = speaker.vector(frames)
    np.testing.assert_allclose(vector, raw * np.sqrt(3) / np.linalg.norm(raw), atol=1e-4)
    assert speaker.dim == 3


def test_results_have_vectors(model: Model, folder: Path) -> None:
    speaker = SpkModel(folder)
    recognizer = KaldiRecognizer(model, RATE)
    recognizer.SetSpkModel(speaker)
    sound = audio(3.0)
    found = []
    for part in np.split(sound, range(RATE // 5, len(sound), RATE // 5)):
        if recognizer.AcceptWaveform(part):
            found.append(json.loads(recognizer.Result()))
    found.append(json.loads(recognizer.FinalResult()))
    with_vector = [each for each in found if "spk" in each]
    assert with_vector
    for each in with_vector:
        assert len(each["spk"]) == 3
        assert each["spk_frames"] >= 50
        np.testing.assert_allclose(np.linalg.norm(each["spk"]), np.sqrt(3), atol=1e-5)
    assert all(each.keys() <= {"text"} for each in found if "spk" not in each)
    alone = Recognizer(model, RATE, speaker_model=speaker)
    alone.accept(sound)
    assert alone.finish().extra["spk_frames"] >= sum(each["spk_frames"] for each in with_vector)
    recognizer.SetMaxAlternatives(2)
    recognizer.AcceptWaveform(sound)
    assert set(json.loads(recognizer.FinalResult())) == {"alternatives"}


def test_a_speaker_model_is_set_between_streams(model: Model, folder: Path) -> None:
    speaker, recognizer = SpkModel(folder), KaldiRecognizer(model, RATE)
    recognizer.AcceptWaveform(audio(1.0))
    for _ in range(2):
        with pytest.raises(ExecutionError, match="a stream keeps its speaker model: set it before the first audio"):
            recognizer.SetSpkModel(speaker)
        recognizer.Result()
    recognizer.FinalResult()
    recognizer.SetSpkModel(speaker)
    for wrong in ("spk", None, model):
        with pytest.raises(ArgumentError, match=r"a speaker model is an nnet3\.asr\.SpkModel, got"):
            recognizer.SetSpkModel(wrong)  # type: ignore[arg-type]


def test_too_little_speech_has_no_vector(model: Model, folder: Path) -> None:
    recognizer = KaldiRecognizer(model, RATE, SpkModel(folder))
    recognizer.AcceptWaveform(audio(0.5))
    assert "spk" not in json.loads(recognizer.FinalResult())


def test_audio_of_a_lower_rate(model: Model, folder: Path) -> None:
    (folder / "mfcc.conf").write_text(
        f"--sample-frequency=16000\n--num-mel-bins=8\n--num-ceps={FEATURES}\n--use-energy=false\n--allow-upsample=false"
    )
    with pytest.raises(ArgumentError, match="the audio has 8000 Hz, the model 16000 Hz and --allow-upsample=false"):
        KaldiRecognizer(model, RATE, SpkModel(folder))


@pytest.mark.parametrize(
    ("name", "contents", "error"),
    [
        ("mean.vec", "[ 1 2 3 ]\n", "mean.vec: the mean is of dimension 3, but the network's output is of 4"),
        (
            "transform.mat",
            "[ 1 2 3\n 4 5 6 ]\n",
            "the transform's columns are of dimension 3, but the network's output",
        ),
        ("mean.vec", "[ 1 2 3e20 4 ]\n", "mean.vec: the numbers must have finite numbers up to"),
        ("mean.vec", "[ 1 2 nan 4 ]\n", "mean.vec: line 1, column 7: a NaN is not allowed"),
        ("mean.vec", "", "mean.vec"),
        ("final.ext.raw", "<Nnet3>", "final.ext.raw"),
        ("mfcc.conf", "--num-ceps=4\n--num-mel-bins=8\n", "the network's input is of dimension 5, but the features of"),
        ("mfcc.conf", "--num-cep=4\n", "there is no option '--num-cep' here"),
    ],
)
def test_files_that_do_not_fit(folder: Path, name: str, contents: str, error: str) -> None:
    (folder / name).write_text(contents)
    with pytest.raises((ModelFormatError, ConfigError)) as caught:
        SpkModel(folder)
    assert error in str(caught.value)


def test_folders_that_are_no_speaker_models(folder: Path, model: Model) -> None:
    (folder / "mean.vec").unlink()
    with pytest.raises(ModelFormatError, match=r"a speaker model is a folder with mfcc\.conf, .*; missing: mean\.vec"):
        SpkModel(folder)
    with pytest.raises(ModelFormatError, match="missing: mfcc"):
        SpkModel(folder / "nowhere")
    write_speaker_model(folder.parent / "other")
    shutil.copy(model.folder.path / "am/final.mdl", folder.parent / "other/final.ext.raw")
    with pytest.raises(ModelFormatError, match="a speaker model has a raw network"):
        SpkModel(folder.parent / "other")
