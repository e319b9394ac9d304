"""Loading by path: the kind of model and its form are found out; anything else is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader
from nnet3.model.nnet import AcousticModel, Nnet, load, load_nnet, load_transition_model
from nnet3.model.nnet.load import read_model
from tests.nnet.model_texts import MDL_TEXT, RAW_BINARY, RAW_TEXT, TRANSITIONS_TEXT


def _write(folder: Path, contents: bytes | str) -> Path:
    path = folder / "model"
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


@pytest.mark.parametrize("contents", [RAW_TEXT, RAW_BINARY], ids=["text", "binary"])
def test_a_raw_network(tmp_path: Path, contents: bytes | str) -> None:
    path = _write(tmp_path, contents)
    for nnet in (load(path), load(str(path)), load_nnet(path), nnet3.load(path)):
        assert isinstance(nnet, Nnet)
        assert nnet.num_parameters == 3


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_an_acoustic_model(tmp_path: Path, binary: bool) -> None:
    path = _write(tmp_path, MDL_TEXT)
    model = load(path)
    assert isinstance(model, AcousticModel)
    model.save(path, binary=binary)
    assert repr(load(path)) == repr(model)
    assert load_nnet(path).info() == model.nnet.info()
    assert load_transition_model(path).num_transition_ids == 6


def test_a_bare_transition_model(tmp_path: Path) -> None:
    path = _write(tmp_path, TRANSITIONS_TEXT)
    assert load_transition_model(path).num_pdfs == 3
    with pytest.raises(ModelFormatError, match="expected <Nnet3>, the file ends here"):
        load(path)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", "this file is empty"),
        ("\n \n", r"expected <Nnet3> \(a raw network\) or <TransitionModel> \(an acoustic model\), the file ends here"),
        (b"\0", "zero byte"),
        (b"\0B", "the file ends here"),
        (b"\x89PNG\r\n", "expected <Nnet3>"),
        (b"RIFF\x24\0\0\0WAVEfmt ", r"this is a recording \(WAV\), not a model file$"),
        (b"\x1f\x8b\x08\0", r"this is packed by gzip \(gunzip unpacks it\), not a model file$"),
        (b"PK\x03\x04\0\0", r"this is a ZIP file, such as torch\.save writes, not a model file$"),
        ("<NoOpComponent> <Dim> 3", r"this is a component, not a model file: nnet3\.components\.read reads it"),
        ("input-node name=input dim=3", "this is a config, not a model file"),
        ("<Nnet3>" * 1000, "a token of more than 512 bytes"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, contents: bytes | str, message: str) -> None:
    path = _write(tmp_path, contents)
    with pytest.raises(ModelFormatError, match=message) as raised:
        load(path)
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize(
    ("contents", "end"),
    [
        ("output-node name=output input=input", "got 'output-node': this is a config, of which `nnet3 init` makes a "),
        ("relu-layer name=a", "got 'relu-layer': this is an xconfig, of which `nnet3 init` makes a network"),
        ("<NoOpComponent> <Dim> 3", "got '<NoOpComponent>': this is a component alone, not a network"),
        ("<Nnet4> ", "got '<Nnet4>'"),
        ("<Nnet> <NumComponents> 3", "got '<Nnet>': this is a model of nnet2, of which `nnet3 convert` makes one"),
        ("<Nnet>", "got '<Nnet>': this is a model of nnet1"),
        ("<Nnet> <AffineTransform> 3", "got '<Nnet>': this is a model of nnet1"),
        ("<AffineTransform> 3 3", "got '<AffineTransform>': this is a model of nnet1"),
        ("<DiagGMM> <GCONSTS> ", "got '<DiagGMM>': this is a model of Gaussian mixtures (GMM)"),
        ("<FullGMM> <GCONSTS> ", "got '<FullGMM>': this is a model of Gaussian mixtures (GMM)"),
        ("<IvectorExtractor> <w> ", "got '<IvectorExtractor>': this is an extractor of ivectors"),
        ("ContextDependency 3 1", "got 'ContextDependency': this is a tree"),
        ("x" * 70, f"got '{'x' * 60}'"),
        (" ", "the file ends here"),
    ],
)
def test_a_stream_of_something_else(contents: str, end: str) -> None:
    with pytest.raises(ModelFormatError) as raised:
        read_model(Reader(contents.encode(), "stdin"))
    start, _, said = str(raised.value).partition("expected <Nnet3> (a raw network) or <TransitionModel> (an acoustic ")
    assert start.startswith("stdin: ")
    assert said.removeprefix("model), ").startswith(end)


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "model", tmp_path):
        with pytest.raises(ModelFormatError, match="cannot read this file"):
            load(path)
    (tmp_path / "am").mkdir()
    (tmp_path / "am" / "final.mdl").touch()
    with pytest.raises(ModelFormatError, match=r"Is a directory: give .*/am/final\.mdl$"):
        load(tmp_path)


def test_a_raw_network_has_no_transition_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"this is a raw network, .*: give a \.mdl file"):
        load_transition_model(_write(tmp_path, RAW_TEXT))
