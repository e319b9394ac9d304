"""Directories of x-vector models: files wherever they lie, what is missing or does not fit, a vector by its steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3 import load_nnet, xvectors
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.kaldi_io import load_matrix, load_vector
from nnet3.options import SlidingCmvnOptions, VadOptions, XvectorOptions
from nnet3.speech.features.features import FeatureStream, read_feature_options
from nnet3.speech.features.sliding_cmvn import normalised_by_window
from nnet3.speech.speaker.speaker_model import SpeakerModel
from nnet3.speech.speaker.voice_activity import voiced_frames
from tests.speaker.made_voices import RATE, save, voice, wav_bytes


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def test_a_vector_is_made_in_the_recipes_steps(model_folder: Path) -> None:
    samples = voice(1, 5)
    rows = FeatureStream(read_feature_options(model_folder / "conf/mfcc.conf", "mfcc"), RATE).accept(
        samples.astype(np.float32), last=True
    )
    normalised, _ = normalised_by_window(rows, SlidingCmvnOptions(300, center=True))
    voiced = voiced_frames(rows, VadOptions(5.5, 0.5))
    assert 0.5 * len(voiced) < voiced.sum() < 0.8 * len(voiced)
    nnet = load_nnet(model_folder / "exp/xvector_nnet_1a/final.raw")
    nnet.apply_config("output-node name=output input=tdnn6.affine")
    expected = xvectors(nnet, normalised[voiced], 10000, 25).numpy()
    model = SpeakerModel(model_folder)
    vector = model.vector((samples, RATE))
    np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-5)
    trained = model_folder / "exp/xvectors_train"
    centred = load_matrix(trained / "transform.mat") @ (expected - load_vector(trained / "mean.vec"))
    prepared = model.prepared(vector[np.newaxis])[0]
    np.testing.assert_allclose(
        prepared, centred * np.sqrt(len(centred)) / np.linalg.norm(centred), rtol=1e-3, atol=1e-4
    )


def test_recordings_may_be_files_and_have_channels(model_folder: Path, tmp_path: Path) -> None:
    model, samples = SpeakerModel(model_folder), voice(2, 3)
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples.astype(np.float32), RATE))
    expected = model.vector((samples, RATE))
    np.testing.assert_array_equal(model.vector(tmp_path / "a.wav"), expected)
    np.testing.assert_array_equal(model.vector((np.stack([samples, samples], axis=1), RATE)), expected)
    assert model.vector((np.repeat(samples, 2), 2 * RATE)).shape == expected.shape


def test_recordings_without_a_voice_are_refused(model_folder: Path, tmp_path: Path) -> None:
    model = SpeakerModel(model_folder)
    with pytest.raises(Nnet3Error, match="no voice"):
        model.vector((np.ones(RATE, np.int16), RATE))
    with pytest.raises(Nnet3Error, match="too short for a frame"):
        model.vector((np.ones(10, np.int16), RATE))
    with pytest.raises(ModelFormatError, match="cannot read"):
        model.vector(tmp_path / "nothing.wav")
    with pytest.raises(Nnet3Error):
        model.vector(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "why"),
    [("conf/mfcc.conf", "mfcc.conf is missing"), ("exp/xvector_nnet_1a/final.raw", "final.raw is missing")],
)
def test_missing_files_are_named(folder: Path, name: str, why: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFormatError, match=why):
        SpeakerModel(folder)
    with pytest.raises(ModelFormatError, match="no such model directory"):
        SpeakerModel(folder / "nowhere")


def test_a_file_of_two_is_chosen(folder: Path) -> None:
    """As models for diarization have one of each for either half of the data."""
    other = folder / "exp/xvectors_other"
    shutil.copytree(folder / "exp/xvectors_train", other)
    with pytest.raises(
        ModelFormatError, match=r"more than one mean\.vec: exp/xvectors_other/mean\.vec, exp/xvectors_tra"
    ):
        SpeakerModel(folder)
    for number in range(9):
        shutil.copytree(other, folder / f"exp/more_{number}")
    with pytest.raises(ModelFormatError, match=r"exp/more_4/mean\.vec, \.\.\.: say which counts"):
        SpeakerModel(folder)
    chosen = {name: f"exp/xvectors_other/{file}" for name, file in FILES.items()}
    assert SpeakerModel(folder, **chosen).plda is not None  # type: ignore[arg-type]
    assert SpeakerModel(folder, **{name: other / file for name, file in FILES.items()}).plda is not None
    (folder / "plda").write_bytes((other / "plda").read_bytes())
    with pytest.raises(ModelFormatError, match=r"more than one mean\.vec"):
        SpeakerModel(folder)


FILES = {"mean": "mean.vec", "transform": "transform.mat", "plda": "plda"}


def test_parts_that_do_not_fit_are_refused(folder: Path) -> None:
    trained = folder / "exp/xvectors_train"
    for name, write, why in (
        ("mean.vec", lambda writer: writer.vector(np.zeros(5)), r"vectors have 12 numbers, mean.vec 5"),
        ("transform.mat", lambda writer: writer.matrix(np.ones((4, 5))), "vectors have 12 numbers, transform.mat 5"),
        ("transform.mat", lambda writer: writer.matrix(np.ones((3, 12))), "vectors have 3 numbers, plda is of 4"),
    ):
        before = (trained / name).read_bytes()
        save(trained / name, write)
        with pytest.raises(ModelFormatError, match=why):
            SpeakerModel(folder)
        (trained / name).write_bytes(before)
    (folder / "exp/xvector_nnet_1a/min_chunk_size").write_text("many\n")
    with pytest.raises(ModelFormatError, match="expected a number of frames, got 'many'"):
        SpeakerModel(folder)
    for name in ("min_chunk_size", "max_chunk_size"):
        (folder / "exp/xvector_nnet_1a" / name).unlink()
    assert SpeakerModel(folder).xvector_options == XvectorOptions(10000, 25)
    (folder / "conf/mfcc.conf").write_text("--num-ceps=20\n")
    with pytest.raises(ModelFormatError, match=r"the network takes 13 numbers a frame, mfcc\.conf makes 20"):
        SpeakerModel(folder)


def test_damaged_files_are_refused(folder: Path) -> None:
    for name in ("mean.vec", "transform.mat", "plda"):
        path = folder / "exp/xvectors_train" / name
        before = path.read_bytes()
        for contents in (before[:-9], before + b"more", b""):
            path.write_bytes(contents)
            with pytest.raises(ModelFormatError):
                SpeakerModel(folder)
        path.write_bytes(before)
