"""Features and extractors of the options of online2 programs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.asr import FeatureStream, OnlineIvectors
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.options import DecodingOptions, OnlineFeatureOptions, SilenceWeightingOptions
from nnet3.speech.asr.online_front import load_online_features, online_front
from nnet3.speech.features.features import OnlineCmvn
from tests.asr.small_model import FEATURES, IVECTOR, acoustic_model, random_cmvn_stats, write_folder, write_matrix
from tests.asr.small_recognizer import RATE, audio
from tests.seeds import RANDOM

EXTRACTOR = """
--splice-config=ivector/splice.conf
--cmvn-config=ivector/online_cmvn.conf
--lda-matrix=ivector/final.mat
--global-cmvn-stats=ivector/global_cmvn.stats
--diag-ubm=ivector/final.dubm
--ivector-extractor=ivector/final.ie
"""
SAID = OnlineFeatureOptions(mfcc_config="conf/mfcc.conf", ivector_extraction_config="ivector.conf")
SOUND = audio(0.7).astype(np.float32)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named as they are, from the current folder on."""
    write_folder(tmp_path / "all", RANDOM)
    monkeypatch.chdir(tmp_path / "all")
    Path("ivector.conf").write_text(EXTRACTOR)
    Path("cmvn.conf").write_text("--cmn-window=20\n")
    write_matrix(random_cmvn_stats(RANDOM), Path("cmvn.stats"))


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_rows_are_frames_with_the_ivectors_that_they_have_when_they_come(greedy: bool, normalised: bool) -> None:
    cmvn = {"cmvn_config": "cmvn.conf", "global_cmvn_stats": "cmvn.stats"} if normalised else {}
    features = load_online_features(OnlineFeatureOptions(**SAID.values() | cmvn), greedy)
    assert features.ivectors is not None
    plain = FeatureStream(features.features, RATE).accept(SOUND, last=True)
    frames = plain
    if features.cmvn is not None:
        frames = OnlineCmvn(*features.cmvn).next_rows(plain)
    known = None
    for chunk in (0.0, 0.1):
        rows, after = features.rows(RATE, SOUND, chunk, known)
        assert rows.shape == (len(plain), FEATURES + IVECTOR)
        assert np.allclose(rows[:, :FEATURES], frames, atol=1e-5)
        ivectors = OnlineIvectors(features.ivectors, known)
        ivectors.accept(plain, last=True)
        if not greedy:
            vectors = [ivectors.at(frame) for frame in range(len(plain))]
            assert np.allclose(rows[:, FEATURES:], vectors, atol=1e-4)
        elif chunk == 0:
            assert np.allclose(rows[:, FEATURES:], ivectors.at(0), atol=1e-4)
        else:
            assert np.allclose(rows[-1, FEATURES:], ivectors.at(0), atol=1e-2)
            assert not np.allclose(rows[0, FEATURES:], rows[-1, FEATURES:], atol=1e-2)
        known = after
    assert load_online_features(OnlineFeatureOptions()).rows(16000, SOUND[:10], 0.1)[0].shape == (0, 13)


def test_a_front_needs_parts_that_fit(caplog: pytest.LogCaptureFixture) -> None:
    features = load_online_features(SAID)
    model = nnet3.load("am/final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    rest = features, DecodingOptions(), SilenceWeightingOptions()
    assert online_front(model, "a.mdl", *rest).ivectors is features.ivectors
    with pytest.raises(ArgumentError, match=r"a\.mdl: this network takes no ivectors: leave out --ivector"):
        online_front(acoustic_model(with_ivector=False), "a.mdl", *rest)
    with pytest.raises(ArgumentError, match="has an input 'ivector': give --ivector"):
        online_front(model, "a.mdl", features._replace(ivectors=None), *rest[1:])
    with pytest.raises(ModelFormatError, match="'input' has dimension 6, but the features have 23"):
        online_front(model, "a.mdl", load_online_features(OnlineFeatureOptions(
            feature_type="fbank", mfcc_config="conf/mfcc.conf", ivector_extraction_config="ivector.conf"
        )), *rest[1:])  # fmt: skip
    assert caplog.record_tuples == [("nnet3", logging.WARNING, "--mfcc-config has no effect with --feature-type=fbank")]
    stats = replace(SAID, global_cmvn_stats="nothing")
    assert load_online_features(stats).cmvn is None
    assert "--global-cmvn-stats has no effect without --cmvn-config" in caplog.text


def test_pitch_lies_behind_the_features(caplog: pytest.LogCaptureFixture) -> None:
    Path("pitch.conf").write_text("--sample-frequency=8000\n--add-delta-pitch=false\n--add-pov-feature=true\n")
    without = {"online_pitch_config": "pitch.conf"}
    features = load_online_features(OnlineFeatureOptions(**SAID.values() | without | {"add_pitch": True}))
    assert features.pitch is not None
    rows, _ = features.rows(RATE, SOUND, 0.1)
    plain = FeatureStream(features.features, RATE).accept(SOUND, last=True)
    assert rows.shape[1] == FEATURES + features.pitch.features.dim + IVECTOR
    assert np.allclose(rows[:, :FEATURES], plain[: len(rows)])
    assert caplog.messages == []
    assert load_online_features(OnlineFeatureOptions(**SAID.values() | without)).pitch is None
    assert "--online-pitch-config has no effect without --add-pitch" in caplog.text


def test_files_of_the_extractor_must_be_named() -> None:
    Path("ivector.conf").write_text("--lda-matrix=ivector/final.mat\n")
    with pytest.raises(ArgumentError, match=r"ivector\.conf: --ivector-extractor, --diag-ubm, --global-cmvn-s"):
        load_online_features(SAID)
    with pytest.raises(Nnet3Error, match=r"none\.conf: cannot read"):
        load_online_features(OnlineFeatureOptions(mfcc_config="none.conf"))
    assert not load_online_features(OnlineFeatureOptions()).features.allow_upsample
