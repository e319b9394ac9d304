"""Config files by path, and files that are something else than what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3.errors import ArgumentError, ConfigError, ModelFormatError
from nnet3.model.structure import config_reader

CONFIG = "input-node name=input dim=2\noutput-node name=output input=input\n"


def test_a_config_file(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    path.write_text(CONFIG)
    assert nnet3.Nnet.from_config_file(path).output_names == ["output"]
    assert nnet3.Nnet.from_config_file(str(path)).node_dim("output") == 2


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    path.write_text(CONFIG.replace("input=input", "input=imput"))
    with pytest.raises(ConfigError, match=r"final\.config:2:31: unknown node 'imput'"):
        nnet3.Nnet.from_config_file(path)


def test_a_comment_in_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    path.write_bytes(b"\xef\xbb\xbf# \xfcber alles\n" + CONFIG.encode() + b"# caf\xe9\n")
    assert nnet3.Nnet.from_config_file(path).node_dim("output") == 2
    path.write_bytes(CONFIG.encode() + b"output-node name=\xe9 input=input # fin")
    with pytest.raises(ConfigError, match=r"final\.config:3:18: not a text file: this byte is not UTF-8"):
        nnet3.Nnet.from_config_file(path)


def test_what_is_no_config_file(tmp_path: Path) -> None:
    model = tmp_path / "final.raw"
    nnet = nnet3.Nnet.from_config(CONFIG)
    nnet.save(model)
    with pytest.raises(ConfigError, match=r"this is a model file, not a config: nnet3\.load reads it"):
        nnet3.Nnet.from_config_file(model)
    with pytest.raises(ConfigError, match="cannot read this file: No such file"):
        nnet3.Nnet.from_config_file(tmp_path / "absent")
    model.write_bytes(b"RIFF\x24\x80\0\0WAVEfmt ")
    with pytest.raises(ConfigError, match=r"final\.raw: this is a recording \(WAV\), not a text file$"):
        nnet3.Nnet.from_config_file(model)
    with pytest.raises(ArgumentError, match="the path of a config file is needed, got 3"):
        nnet3.Nnet.from_config_file(3)  # type: ignore[arg-type]


def test_a_large_file_is_no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "final.config"
    path.write_text(CONFIG + "#" * 2000)
    monkeypatch.setattr(config_reader, "_MOST_BYTES", len(CONFIG) + 2000)
    assert nnet3.Nnet.from_config_file(path).node_dim("output") == 2
    monkeypatch.setattr(config_reader, "_MOST_BYTES", len(CONFIG) + 1999)
    size = f"{len(CONFIG) + 2000:,}"
    with pytest.raises(ConfigError, match=rf"final\.config: this file of {size} bytes is too large to be a config"):
        nnet3.Nnet.from_config_file(path)


def test_a_model_after_blanks_is_no_config_either(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    for start in ("<Nnet3>", " \n <TransitionModel>"):
        path.write_text(start)
        with pytest.raises(ConfigError, match="this is a model file, not a config"):
            nnet3.Nnet.from_config_file(path)


def test_a_path_given_as_text_and_text_given_as_path(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    path.write_text(CONFIG)
    with pytest.raises(ArgumentError, match="is a path, not the text of a config: use from_config_file"):
        nnet3.Nnet.from_config(str(path))
    with pytest.raises(ArgumentError, match="a config is a str"):
        nnet3.Nnet.from_config(path)  # type: ignore[arg-type]


def test_load_says_what_to_use(tmp_path: Path) -> None:
    path = tmp_path / "final.config"
    path.write_text(CONFIG)
    with pytest.raises(ModelFormatError, match=r"this is a config.*nnet3\.Nnet\.from_config_file"):
        nnet3.load(path)
    with pytest.raises(ArgumentError, match=r"the path of a model file is needed, got <Nnet .*loaded already"):
        nnet3.load(nnet3.Nnet.from_config(CONFIG))  # type: ignore[arg-type]
