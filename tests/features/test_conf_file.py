"""Config files of Kaldi's form; each error says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.errors import ConfigError, ModelFormatError
from nnet3.options import DecodingOptions, EndpointRule, MfccOptions, OnlineCmvnOptions, SilenceOptions
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.search.endpoints import RULES


def _mfcc(folder: Path, text: str) -> MfccOptions:
    path = folder / "mfcc.conf"
    path.write_text(text)
    options = read_conf(path, {"": MfccOptions()}, "max-feature-vectors")[""]
    assert isinstance(options, MfccOptions)
    return options


def test_values_are_read_and_the_rest_is_as_usual(tmp_path: Path) -> None:
    options = _mfcc(
        tmp_path,
        "# a comment\n\n  --num-mel-bins = 40 \n--num_ceps=40 # all of them\n--Use-Energy=F\n--high-freq=-400\r\n"
        "--snip-edges\n--htk-compat=\n--max-feature-vectors=7\n--dither=1\n--dither=0.5",
    )
    expected = MfccOptions(
        num_mel_bins=40, num_ceps=40, use_energy=False, high_freq=-400.0, snip_edges=True, htk_compat=True, dither=0.5
    )
    assert options == expected


def test_a_file_of_comments_changes_nothing(tmp_path: Path) -> None:
    assert _mfcc(tmp_path, "# nothing\n") == MfccOptions()


def test_sections_are_read_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "model.conf"
    path.write_text("--beam=10\n--endpoint.silence-phones=1:2:3\n--endpoint.rule3.max-relative-cost=inf\n")
    sections = {"": DecodingOptions(), "endpoint": SilenceOptions(), "endpoint.rule3": RULES["rule3"]}
    read = read_conf(path, sections)
    assert read[""] == DecodingOptions(beam=10.0)
    assert read["endpoint"] == SilenceOptions((1, 2, 3))
    assert read["endpoint.rule3"] == EndpointRule(min_trailing_silence=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n--num-mel-bin=40", "mfcc.conf:2:1: there is no option '--num-mel-bin' here.*did you mean 'num-mel-bins'"),
        ("num-ceps=13", "mfcc.conf:1:1: expected --name=value"),
        ("--=13", "expected --name=value"),
        ("--num-ceps=many", "mfcc.conf:1:12: --num-ceps must be an integer, got 'many'"),
        ("--num-ceps=0", r"--num-ceps must be within \[1, 1024\], got '0'"),
        ("--num-ceps=99999999999", "must be an integer that fits 32 bits"),
        ("--use-energy=yes", "mfcc.conf:1:14: --use-energy must be true or false, got 'yes'"),
        ("--low-freq=nan", "--low-freq must be a finite number, got 'nan'"),
        ("--num-ceps=30", "mfcc.conf:1:12: num_ceps must be at most num_mel_bins, 23, got 30"),
        ("--high-freq=9000", "mel bins must lie between 0 and half the sample frequency, 8000 Hz, got 20 to 9000"),
        ("--low-freq=8000", "mel bins must lie between"),
        ("--window-type=kaiser", "--window-type must be one of povey, hanning"),
        ("--frame-length=0.1", "frame_length must be 2 to 1048576 samples, got 1.6"),
        ("--sample-frequency=1e6\n--frame-length=1000\n--frame-shift=1000.5", r"must be within \[0.1, 1000\]"),
    ],
)
def test_errors_say_where_and_what_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="(?s)" + message):
        _mfcc(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--norm-means=false\n--norm-vars=true", "2:13: norm-vars needs norm-means"),
        ("--skip-dims=0:-1", "columns count from 0, got -1"),
    ],
)
def test_values_that_conflict_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "online_cmvn.conf"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_conf(path, {"": OnlineCmvnOptions()})


def test_silence_phones_are_given_once(tmp_path: Path) -> None:
    path = tmp_path / "model.conf"
    path.write_text("--endpoint.silence-phones=1:2:1")
    with pytest.raises(ConfigError, match="a silence phone is given twice"):
        read_conf(path, {"endpoint": SilenceOptions()})


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"mfcc\.conf: cannot read this file: No such file"):
        read_conf(tmp_path / "mfcc.conf", {"": MfccOptions()})
    with pytest.raises(ModelFormatError, match="/dev/zero: this is a device, not a file"):
        read_conf("/dev/zero", {"": MfccOptions()})


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mfcc.conf"
    path.write_bytes(b"\0B\xff\xfe")
    with pytest.raises(ConfigError, match="not a text file"):
        read_conf(path, {"": MfccOptions()})
