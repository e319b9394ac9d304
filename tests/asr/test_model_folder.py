"""Model directories of each layout; what is missing or wrong is said at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3.asr import Model, ModelFolder
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.kaldi_io import Writer
from nnet3.options import (
    DecodingOptions,
    IvectorOptions,
    MfccOptions,
    OnlineCmvnOptions,
    SilenceWeightingOptions,
    SpliceOptions,
)
from tests.asr.small_model import (
    FEATURES,
    acoustic_model,
    chain_transition_model,
    random_cmvn_stats,
    write_folder,
    write_kaldi_folder,
    write_matrix,
)
from tests.asr.small_recognizer import write_recognizer
from tests.seeds import RANDOM


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "model", RANDOM)
    return tmp_path / "model"


def test_a_directory_of_vosk_is_read(folder: Path) -> None:
    model = ModelFolder(folder)
    assert model.layout == "of Vosk"
    assert model.features == MfccOptions(sample_frequency=8000.0, num_mel_bins=8, num_ceps=6, use_energy=False)
    expected = DecodingOptions(min_active=20, acoustic_scale=1.0, frame_subsampling_factor=3, frames_per_chunk=6)
    assert model.decoding == expected
    assert model.silence_phones == (1,)
    assert [rule.min_trailing_silence for rule in model.endpoint_rules.values()] == [5, 0.25, 1, 2, 0]
    graph = model.graph_files()
    assert not graph.is_lookahead
    assert graph.files == {"HCLG.fst": folder / "graph/HCLG.fst"}
    assert graph.words == folder / "graph/words.txt"
    assert graph.word_boundary == folder / "graph/phones/word_boundary.int"
    front = model.load()
    assert front.ivectors is not None
    assert front.ivectors.splice == SpliceOptions(2, 1)
    assert front.ivectors.options.max_count == 100
    assert front.ivectors.cmvn.min_energy == 50
    assert front.cmvn is None
    ivectors, _ = front.ivectors.compute(np.zeros((5, FEATURES), np.float32))
    assert ivectors.shape == (1, 4)


def test_a_directory_in_one_folder_has_fixed_settings(folder: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    shutil.copy(folder / "am/final.mdl", flat)
    shutil.copy(folder / "conf/mfcc.conf", flat)
    shutil.copytree(folder / "ivector", flat / "ivector")
    for name in ("HCLr.fst", "Gr.fst", "disambig_tid.int", "word_boundary.int"):
        (flat / name).touch()
    model = ModelFolder(flat)
    assert (model.decoding.beam, model.decoding.max_active, model.decoding.lattice_beam) == (13, 7000, 6)
    assert (model.decoding.acoustic_scale, model.decoding.frame_subsampling_factor) == (1.0, 3)
    assert model.silence_phones == tuple(range(1, 11))
    assert model.graph_files().is_lookahead
    assert model.graph_files().words is None
    assert model.graph_files().word_boundary == flat / "word_boundary.int"
    assert model.load().ivectors is not None


def test_a_directory_of_kaldis_script_is_read(tmp_path: Path) -> None:
    online = tmp_path / "online"
    write_kaldi_folder(online, RANDOM)
    (online / "frame_subsampling_factor").write_text("2\n")
    (online / "conf/ivector_extractor.conf").rename(online / "conf/x.conf")
    (online / "conf/online.conf").write_text(
        "--feature-type=mfcc\n--mfcc-config=/elsewhere/mfcc.conf\n--ivector-extraction-config=/elsewhere/x.conf\n"
        "--endpoint.silence-phones=1\n"
    )
    with open(online / "conf/x.conf", "a") as file:
        file.write("--num-gselect=3\n--max-count=75\n")
    (online / "graph").rename(tmp_path / "graph")
    model = ModelFolder(online, graph=tmp_path / "graph")
    assert model.decoding.frame_subsampling_factor == 2
    assert model.silence_phones == (1,)
    assert model.silence_weighting == SilenceWeightingOptions()
    assert "HCLG.fst" in model.graph_files().files
    front = model.load()
    assert front.ivectors is not None
    assert (front.ivectors.options.num_gselect, front.ivectors.options.max_count) == (3, 75)
    assert front.ivectors.cmvn.min_energy == -np.inf
    assert front.ivectors.splice == SpliceOptions(2, 1)
    (online / "frame_subsampling_factor").write_text("0\n")
    with pytest.raises(ModelFormatError, match="frame_subsampling_factor: expected one integer from 1 to 1000"):
        ModelFolder(online)


def test_options_that_no_file_says_are_kaldis(tmp_path: Path) -> None:
    """Vosk's max-count and min-energy are not those of a directory of Kaldi's."""
    write_kaldi_folder(tmp_path / "online", RANDOM)
    conf = tmp_path / "online/conf/ivector_extractor.conf"
    conf.write_text("".join(line for line in conf.read_text().splitlines(True) if "-config" in line))
    front = ModelFolder(tmp_path / "online").load()
    assert front.ivectors is not None
    assert front.ivectors.options == IvectorOptions()
    assert front.ivectors.cmvn == OnlineCmvnOptions()


def write_flat(folder: Path, *, lookahead: bool = False) -> None:
    """Writes a recognizer of Vosk's layout with all in one folder."""
    write_recognizer(folder, lookahead=lookahead)
    (folder / "conf/model.conf").unlink()
    for part in ("am/final.mdl", "conf/mfcc.conf", "graph/phones/word_boundary.int", "graph/words.txt"):
        shutil.move(folder / part, folder)
    for file in (folder / "graph").glob("*.*"):
        shutil.move(file, folder)
    for part in ("am", "conf", "graph"):
        shutil.rmtree(folder / part)


def write_kaldi(folder: Path, *, lookahead: bool = False) -> None:
    write_kaldi_folder(folder, RANDOM)
    shutil.rmtree(folder / "graph")
    write_recognizer(folder.parent / "other", lookahead=lookahead)
    shutil.move(folder.parent / "other/graph", folder)


@pytest.mark.parametrize("lookahead", [False, True])
@pytest.mark.parametrize("write", [write_recognizer, write_flat, write_kaldi])
def test_a_file_that_was_lost_is_missed(write: Callable[..., Any], lookahead: bool, tmp_path: Path) -> None:
    """Vosk needs these files, too; without word_boundary.int times are approximate there as here."""
    folder = tmp_path / "model"
    write(folder, lookahead=lookahead)
    Model(folder)
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    assert len(files) > 10
    for file in files:
        file.rename(tmp_path / "lost")
        if file.name == "word_boundary.int":
            Model(folder)
        else:
            with pytest.raises(ModelFormatError) as caught:
                Model(folder)
            assert file.name in str(caught.value)
        (tmp_path / "lost").rename(file)


def test_models_for_rescoring_that_are_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("rescore", "rnnlm"):
        (folder / name).mkdir()
    ModelFolder(folder)
    assert not caplog.text
    (folder / "rnnlm/final.raw").touch()
    ModelFolder(folder)
    assert "rnnlm/final.raw: not used without rescore/G.carpa" in caplog.text
    (folder / "rescore/G.carpa").touch()
    with pytest.raises(ModelFormatError, match=r"rescore/G\.carpa needs rescore/G\.fst beside it"):
        ModelFolder(folder)


def test_a_model_without_ivectors_needs_no_extractor(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", RANDOM, with_ivector=False)
    write_matrix(random_cmvn_stats(RANDOM), tmp_path / "model/am/global_cmvn.stats")
    front = ModelFolder(tmp_path / "model").load()
    assert front.ivectors is None
    assert front.cmvn is not None
    assert front.cmvn[0].min_energy == 50


def test_all_that_is_missing_is_named_at_once(folder: Path) -> None:
    for name in ("am/final.mdl", "conf/mfcc.conf", "ivector/final.mat", "ivector/final.dubm"):
        (folder / name).unlink()
    with pytest.raises(ModelFormatError) as caught:
        ModelFolder(folder)
    assert str(caught.value) == (
        f"{folder}: it looks like a model directory of Vosk: am/final.mdl, conf/mfcc.conf (or conf/fbank.conf), "
        "ivector/final.dubm, ivector/final.mat are missing; it has am/, conf/, graph/, ivector/. Give a directory as "
        "Vosk publishes them, or as prepare_online_decoding.sh of Kaldi leaves them"
    )


def test_an_extractor_that_the_network_needs_is_missing(folder: Path) -> None:
    shutil.rmtree(folder / "ivector")
    with pytest.raises(ModelFormatError, match=r"the network has an input 'ivector': ivector/final.ie, .* are missing"):
        ModelFolder(folder).load()


def test_a_graph_that_is_no_folder(folder: Path) -> None:
    with pytest.raises(ModelFormatError, match="none: there is no such folder with a graph"):
        ModelFolder(folder, graph=folder / "none")
    with pytest.raises(ModelFormatError, match=r"HCLG\.fst: this is a file, not a folder with a graph"):
        ModelFolder(folder, graph=folder / "graph/HCLG.fst")


def test_a_graph_that_is_missing_is_named(folder: Path) -> None:
    graph = folder / "graph"
    (graph / "HCLG.fst").unlink()
    either = r"search graph should be: HCLG\.fst or HCLr\.fst, Gr\.fst, disambig_tid\.int is missing"
    with pytest.raises(ModelFormatError, match=either):
        ModelFolder(folder).graph_files()
    parts = ["HCLr.fst", "Gr.fst", "disambig_tid.int"]
    for number in range(1, 7):
        there = [part for bit, part in enumerate(parts) if number >> bit & 1]
        for part in there:
            (graph / part).touch()
        missing = [part for part in parts if part not in there]
        with pytest.raises(ModelFormatError) as caught:
            ModelFolder(folder).graph_files()
        said = f"in parts: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; it has "
        assert said in str(caught.value)
        for part in there:
            (graph / part).unlink()


@pytest.mark.parametrize(
    ("rest", "family"),
    [
        ("<DIMENSION> 39 <NUMPDFS> 2 <DiagGMM> ", "Gaussian mixtures (GMM)"),
        ("<SGMM> <NUMSTATES> 2 ", "subspace Gaussian mixtures (SGMM)"),
        ("<Nnet> <NumComponents> 2 <Components> ", "nnet2"),
        ("<Nnet> <Splice> 440 40 ", "nnet1"),
    ],
)
def test_models_of_other_families_are_named(folder: Path, rest: str, family: str) -> None:
    """A transition model comes before each in a final.mdl; nnet1 has files without one."""
    writer = Writer(binary=False)
    chain_transition_model().write_to(writer)
    for contents in (writer.getvalue().decode() + rest, rest):
        (folder / "am/final.mdl").write_text(contents)
        with pytest.raises(ModelFormatError) as caught:
            ModelFolder(folder).load()
        assert f"this is a model of {family}" in str(caught.value)
        assert str(folder / "am/final.mdl") in str(caught.value)


def test_what_is_no_model_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "near/conf").mkdir(parents=True)
    (tmp_path / "near/mfcc.txt").touch()
    (tmp_path / "model.zip").touch()
    for path, message in (
        (tmp_path / "other", "this is no model directory: .* missing; it has nothing"),
        (
            tmp_path / "near",
            r"near: .*: am/final\.mdl and conf/model\.conf or conf/online\.conf and conf/ivector_extractor\.conf or "
            r"final\.mdl and mfcc\.conf is "
            r"missing; it has conf/, mfcc\.txt\. Give",
        ),
        (tmp_path / "nowhere", "there is no such model directory"),
        (tmp_path / "model.zip", "this is a file, not a model directory: unpack it first"),
        (folder / "am/final.mdl", "this is a file, not a model directory"),
        (tmp_path, "this is no model directory, but model in it is one: give that"),
    ):
        with pytest.raises(ModelFormatError, match=message):
            ModelFolder(path)


def test_pitch_lies_behind_the_features(folder: Path, tmp_path: Path) -> None:
    (folder / "conf/pitch.conf").write_text("--sample-frequency=8000\n--add-raw-log-pitch=true\n")
    with pytest.raises(ModelFormatError, match="input 'input' has dimension 6, but the features have 10"):
        ModelFolder(folder).load()
    acoustic_model(pitch=4).save(folder / "am/final.mdl")
    front = ModelFolder(folder).load()
    assert front.pitch is not None
    assert (front.input_dim, front.pitch.options.sample_frequency, front.pitch.features.dim) == (10, 8000, 4)
    (folder / "conf/pitch.conf").write_text("--no-such-option=1\n")
    with pytest.raises(ConfigError, match="there is no option '--no-such-option'"):
        ModelFolder(folder).load()
    kaldi = tmp_path / "kaldi"
    write_kaldi_folder(kaldi, RANDOM)
    with (kaldi / "conf/online.conf").open("a") as file:
        file.write("--add-pitch=true\n--online-pitch-config=/gone/conf/online_pitch.conf\n")
    with pytest.raises(ModelFormatError, match=r"conf/online_pitch\.conf is missing"):
        ModelFolder(kaldi)
    (kaldi / "conf/online_pitch.conf").write_text("--frames-per-chunk=10\n--simulate-first-pass-online=true\n")
    acoustic_model(pitch=3).save(kaldi / "final.mdl")
    assert ModelFolder(kaldi).load().input_dim == 9


def test_parts_that_do_not_fit_are_refused(folder: Path) -> None:
    conf = folder / "conf/mfcc.conf"
    text = conf.read_text()
    conf.write_text(text + "--num-ceps=5\n")
    with pytest.raises(ModelFormatError, match="input 'input' has dimension 6, but the features have 5"):
        ModelFolder(folder).load()
    conf.write_text(text)
    write_matrix(np.ones((2, 4)), folder / "am/global_cmvn.stats")
    with pytest.raises(ModelFormatError, match="the statistics for CMVN has dimension 3, but the features have 6"):
        ModelFolder(folder).load()
    (folder / "am/global_cmvn.stats").unlink()
    (folder / "ivector/splice.conf").write_text("--left-context=9\n")
    with pytest.raises(ModelFormatError, match=r"ivector: the transform must have .* columns"):
        ModelFolder(folder).load()


def test_a_setting_that_is_wrong_has_its_place(folder: Path) -> None:
    with open(folder / "conf/model.conf", "a") as file:
        file.write("--beem=3\n")
    with pytest.raises(
        ConfigError, match=r"(?s)model\.conf:8:1: there is no option '--beem' here.*did you mean 'beam'"
    ):
        ModelFolder(folder)


def test_a_raw_network_is_refused(folder: Path) -> None:
    import nnet3

    model = nnet3.load(folder / "am/final.mdl")
    model.nnet.save(folder / "am/final.mdl")
    with pytest.raises(ModelFormatError, match="this is a raw network"):
        ModelFolder(folder).load()
