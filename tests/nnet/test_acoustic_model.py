"""Acoustic models (.mdl files): Kaldi's bytes and description, priors, contexts, damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.errors import ModelFormatError, NetworkError
from nnet3.kaldi_io import Reader
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import AcousticModel, Nnet, device_of, load, network_of
from nnet3.model.nnet.load import read_model
from nnet3.model.nnet.model_file import read_nnet
from tests.nnet.file_checks import assert_every_cut_is_found, assert_same_text, change, to_bytes
from tests.nnet.model_texts import CONTEXTS_TEXT, MDL_TEXT, RAW_TEXT, TRANSITIONS_TEXT
from tests.shared_data import golden_cases


def _read(contents: bytes | str) -> AcousticModel:
    model = read_model(Reader(contents.encode() if isinstance(contents, str) else contents, "final.mdl"))
    assert isinstance(model, AcousticModel)
    return model


def _load(path: Path) -> AcousticModel:
    model = load(path)
    assert isinstance(model, AcousticModel)
    return model


def _bytes(model: AcousticModel, binary: bool = True) -> bytes:
    return to_bytes(model.write_to, binary)


# ---- Kaldi's own files ----


@pytest.mark.parametrize("folder", golden_cases("mdl"), ids=lambda path: path.name)
def test_files_of_kaldi_are_rewritten_the_same(folder: Path, tmp_path: Path) -> None:
    model = _load(folder / "final.mdl")
    model.save(tmp_path / "binary")
    assert (tmp_path / "binary").read_bytes() == (folder / "final.mdl").read_bytes()
    for source in (model, _load(folder / "final.txt.mdl")):
        source.save(tmp_path / "text", binary=False)
        assert_same_text((tmp_path / "text").read_text(), (folder / "final.txt.mdl").read_text())
    model.save(tmp_path / "text", binary=False)
    assert _bytes(_load(tmp_path / "text")) == (folder / "final.mdl").read_bytes(), "the text form loses bits"


@pytest.mark.parametrize("folder", golden_cases("mdl"), ids=lambda path: path.name)
def test_contexts_are_those_of_kaldi(folder: Path) -> None:
    model = _load(folder / "final.mdl")
    said = json.loads((folder / "transition_model.json").read_text())
    assert (model.left_context, model.right_context) == (said["left_context"], said["right_context"])


# ---- what it holds ----


def test_a_model_by_hand() -> None:
    model = _read(MDL_TEXT)
    assert _bytes(model, binary=False).decode() == MDL_TEXT
    assert _bytes(_read(_bytes(model))) == _bytes(model)
    assert model.priors.tolist() == [0.5]
    assert model.nnet.input_names == ["input"]
    assert model.transition_model.num_pdfs == 3


def test_stored_contexts_are_ignored() -> None:
    nnet_text = change(RAW_TEXT, "component=aff.c input=input", "component=aff.c input=Offset(input, -3)")
    model = _read(TRANSITIONS_TEXT + nnet_text + change(CONTEXTS_TEXT, "<LeftContext> 0", "<LeftContext> 17"))
    assert (model.left_context, model.right_context) == (3, 0)
    assert b"<LeftContext> 3 <RightContext> 0 " in _bytes(model, binary=False)


def test_a_context_that_cannot_be_found_is_missed_only_when_asked_for() -> None:
    model = _read(change(MDL_TEXT, "component=aff.c input=input", "component=aff.c input=Round(input, 65536)"))
    with pytest.raises(NetworkError, match="repeats after 65536 frames only: the context cannot be found beyond 1000"):
        _ = model.left_context


def test_info_begins_with_dimensions_and_priors() -> None:
    model = _read(MDL_TEXT)
    assert model.info() == (
        "input-dim: 2\nivector-dim: -1\nnum-pdfs: 1\nprior-dimension: 1\n"
        "prior-sum: 0.5\nprior-min: 0.5\nprior-max: 0.5\n# Nnet info follows.\n" + model.nnet.info()
    )
    assert str(model) == model.info()


def test_info_without_priors_and_with_an_ivector() -> None:
    config = """
    input-node name=input dim=3
    input-node name=ivector dim=4
    output-node name=output input=Append(input, ReplaceIndex(ivector, t, 0))
    """
    model = AcousticModel(_read(MDL_TEXT).transition_model, Nnet.from_config(config))
    assert model.info().startswith(
        "input-dim: 3\nivector-dim: 4\nnum-pdfs: 7\nprior-dimension: 0\n# Nnet info follows.\nleft-context: 0\n"
    )
    assert len(model.priors) == 0


def test_a_copy_is_independent() -> None:
    model = _read(MDL_TEXT)
    twin = model.copy()
    twin.nnet.scale_(2.0)
    twin.priors *= 0.5
    assert model.priors.tolist() == [0.5]
    assert _bytes(model, binary=False).decode() == MDL_TEXT
    assert twin.nnet.components["aff.c"].parameters()["bias_params"].tolist() == [2.0]


def test_priors_can_be_set_and_removed() -> None:
    model = _read(MDL_TEXT)
    model.priors = np.array([0.25])
    assert torch.equal(model.priors, torch.tensor([0.25]))
    model.priors = torch.empty(0)
    assert b"<Priors>  [ ]\n" in _bytes(model, binary=False)
    assert len(_read(_bytes(model)).priors) == 0


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([0.5, 0.5], r"one number for each of 1 outputs, or none: got \(2,\)"),
        ([[0.5]], r"got \(1, 1\)"),
        ([-0.5], "finite and not negative"),
        ([float("nan")], "finite and not negative"),
        ([float("inf")], "finite and not negative"),
    ],
)
def test_priors_that_do_not_fit(priors: list[float], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        _read(MDL_TEXT).priors = torch.tensor(priors)


def test_priors_must_fit_a_network_put_in_later() -> None:
    model = _read(MDL_TEXT)
    model.nnet = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input")
    with pytest.raises(NetworkError, match=r"one number for each of 2 outputs, or none: got \(1,\)"):
        _bytes(model)


def test_the_network_must_be_simple() -> None:
    nnet = Nnet.from_config("input-node name=features dim=3\noutput-node name=output input=features")
    with pytest.raises(NetworkError, match=r"this network has inputs \['features'\] and outputs \['output'\]"):
        AcousticModel(_read(MDL_TEXT).transition_model, nnet)


# ---- damage ----

BAD_TEXTS = [
    ("<Nnet3>", "<Nnet>", "line 21, column 1: expected <Nnet3>, got '<Nnet>'"),
    ("input-node name=input dim=2", "input-node name=inputs dim=2", "line 23, column 47: unknown node 'input'"),
    ("name=output", "name=out", "line 1, column 1: an acoustic model needs a simple network: an output 'output'"),
    ("<LeftContext>", "<RightContext>", "expected <LeftContext>, got '<RightContext>'"),
    ("<LeftContext> 0", "<LeftContext> 0.5", "expected a 32-bit integer, got '0.5'"),
    ("<Priors>", "<Prior>", "expected <Priors>, got '<Prior>'"),
    ("[ 0.5 ]", "[ 0.5 0.5 ]", "line 31, column 52: priors must be one number for each of 1 outputs"),
    ("[ 0.5 ]", "[ nan ]", "a NaN is not allowed in a vector or matrix"),
    ("[ 0.5 ]", "[ -1 ]", "priors must be finite and not negative"),
    ("[ 0.5 ]", "[ 0.5 ] 1", "the file should end here"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_TEXTS)
def test_damaged_text_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as raised:
        _read(change(MDL_TEXT, old, new))
    assert message in str(raised.value)
    assert str(raised.value).startswith("final.mdl: line ")


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_a_file_cut_anywhere_is_refused(binary: bool) -> None:
    contents = _bytes(_read(MDL_TEXT), binary)
    assert_every_cut_is_found(contents, read_model, len(contents.rstrip()))


def test_the_parts_can_be_read_one_by_one() -> None:
    reader = Reader(_bytes(_read(MDL_TEXT)))
    assert TransitionModel.read(reader).num_transition_ids == 6
    assert read_nnet(reader).output_names == ["output"]
    assert reader.peek_token() == "<LeftContext>"


# ---- networks of models, and where they are ----


def test_the_network_of_a_model_is_in_it_or_is_the_model() -> None:
    model = _read(MDL_TEXT)
    assert network_of(model) is model.nnet is network_of(model.nnet)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("NaturalGradientAffineComponent input-dim=2 output-dim=2", "linear_params"),
        ("ConstantComponent output-dim=2 is-updatable=false", "output"),
    ],
)
def test_a_network_is_where_its_parameters_or_constants_are(line: str, name: str) -> None:
    nnet = Nnet.from_config(
        f"input-node name=input dim=2\ncomponent name=c type={line}\ncomponent-node name=c component=c input=input\n"
        "output-node name=output input=c\n"
    )
    assert device_of(nnet) == torch.device("cpu")
    setattr(nnet.components["c"], name, torch.empty(2, 2, device="meta"))
    assert device_of(nnet) == torch.device("meta")


def test_a_network_without_tensors_is_on_the_cpu() -> None:
    assert device_of(Nnet((), {})) == torch.device("cpu")
