"""The file of a speaker's state, as Kaldi writes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import SpeakerState
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import load_matrix
from nnet3.options import IvectorOptions, SpliceOptions
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.ivector_files import load_cmvn_stats, load_diagonal_gmm, load_ivector_extractor
from nnet3.speech.features.ivectors import IvectorModel
from tests.asr.small_model import random_features, random_ivector_model
from tests.seeds import RANDOM

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def model() -> IvectorModel:
    splice = read_conf(GOLDEN / "splice.conf", {"": SpliceOptions()})[""]
    assert isinstance(splice, SpliceOptions)
    return IvectorModel(
        load_ivector_extractor(GOLDEN / "final.ie"),
        load_diagonal_gmm(GOLDEN / "final.dubm"),
        load_matrix(GOLDEN / "final.mat"),
        load_cmvn_stats(GOLDEN / "global_cmvn.stats"),
        splice,
        options=IvectorOptions(max_count=4.0, max_remembered_frames=70.0),
    )


@pytest.mark.parametrize("name", ["speaker.state", "speaker.txt"])
def test_a_state_of_kaldi_goes_on_as_there(model: IvectorModel, name: str) -> None:
    """The state is that after the first utterance of the golden run."""
    arrays = np.load(GOLDEN / "arrays.npz")
    utterances = np.split(arrays["features"], arrays["speaker_ends"][:-1])
    got, _ = model.compute(utterances[1], SpeakerState.load(GOLDEN / name, model))
    np.testing.assert_allclose(got, arrays["speaker"][10:14], rtol=1e-5, atol=1e-5)
    own = model.compute(utterances[0], repeat=True)[1]  # Kaldi was asked for the ivector of the last frame, too
    kaldi = SpeakerState.load(GOLDEN / name, model)
    np.testing.assert_allclose(own.cmvn_stats, kaldi.cmvn_stats, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(own.statistics.quadratic, kaldi.statistics.quadratic, rtol=1e-5, atol=1e-5)


def test_a_state_is_written_as_kaldi_writes_it(model: IvectorModel, tmp_path: Path) -> None:
    SpeakerState.load(GOLDEN / "speaker.state", model).save(tmp_path / "state", model)
    assert (tmp_path / "state").read_bytes() == (GOLDEN / "speaker.state").read_bytes()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("max_count", [0.0, 2.0])
def test_a_state_is_read_as_it_was_written(tmp_path: Path, binary: bool, max_count: float) -> None:
    model = random_ivector_model(RANDOM, IvectorOptions(max_count=max_count))
    features = random_features(RANDOM, 30)
    for state in (SpeakerState(), model.compute(features)[1]):
        state.save(tmp_path / "state", model, binary)
        again = SpeakerState.load(tmp_path / "state", model)
        expected, got = (model.compute(features, each)[0] for each in (state, again))
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_state_of_another_model_is_refused(model: IvectorModel, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="of another model: its statistics of everybody are others"):
        SpeakerState.load(GOLDEN / "speaker.state", random_ivector_model(RANDOM))
    other = replace(model, extractor=replace(model.extractor, offset=29.0))
    with pytest.raises(ModelFormatError, match="of another model: its ivectors are others"):
        SpeakerState.load(GOLDEN / "speaker.state", other)
    text = (GOLDEN / "speaker.txt").read_text()
    (tmp_path / "state").write_text(text.replace("<FrozenState>  [ ]", "<FrozenState>  [ 1 ]"))
    with pytest.raises(ModelFormatError, match="frozen statistics are not supported"):
        SpeakerState.load(tmp_path / "state", model)
    (tmp_path / "state").write_text(text.replace("<NumFrames> 7", "<NumFrames> nan"))
    with pytest.raises(ModelFormatError, match="a NaN or an infinity"):
        SpeakerState.load(tmp_path / "state", model)


@pytest.mark.parametrize("name", ["speaker.state", "speaker.txt"])
def test_damaged_states_are_refused_or_read(model: IvectorModel, tmp_path: Path, name: str) -> None:
    whole, refused = (GOLDEN / name).read_bytes(), 0
    for _ in range(100):
        damaged = bytearray(whole)
        for at in RANDOM.integers(0, len(whole), 3):
            damaged[at] = RANDOM.choice([0, 4, 8, 32, 48, 60, 91, 93, 127, 255])
        (tmp_path / "state").write_bytes(
            damaged[: RANDOM.integers(1, len(whole))] if RANDOM.random() < 0.3 else damaged
        )
        try:
            SpeakerState.load(tmp_path / "state", model)
        except ModelFormatError:
            refused += 1
    assert refused > 20
