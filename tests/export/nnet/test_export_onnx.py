"""export_onnx: whole networks, options, and what is left behind when something is wrong."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import nnet3
from nnet3.errors import ExportError, NetworkError, Nnet3Error
from nnet3.export import agreement, write_onnx
from nnet3.kaldi_io import open_matrix_table
from nnet3.model.nnet import AcousticModel, Nnet
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG
from tests.export.exported import Exported
from tests.inference.trained_network import FEATURES, trained_network
from tests.shared_data import GOLDEN, golden_cases, needs_shared

FEW = ("recipe/153", "random/006", "random/030")  # convolutions, a recurrence, attention
TWO_OUTPUTS = CONFIG + "output-node name=other input=affine\n"


def _read(path: Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.mark.parametrize("folder", golden_cases("decode")[:2], ids=lambda path: path.name)
def test_chunks_of_golden_utterances_are_what_kaldi_computed(folder: Path, tmp_path: Path) -> None:
    given = dict(
        word.removeprefix("--").split("=", 1) for word in shlex.split((folder / "compute.cmd").read_text())[1:]
    )
    period = int(given.pop("online-ivector-period"))
    del given["online-ivectors"]
    options = {key.replace("-", "_"): int(value) for key, value in given.items()}
    exported = Exported(nnet3.load(folder / "model.raw"), tmp_path, **options)
    features, ivectors = _read(folder / "feats.ark"), _read(folder / "ivectors.ark")
    for key, expected in _read(folder / "compute.ark").items():
        starts = np.arange(0, len(expected), exported.about.output_rows)
        counts = np.minimum(exported.about.output_rows, len(expected) - starts)
        middles = starts * exported.about.frame_subsampling_factor
        middles += (counts - 1) * exported.about.frame_subsampling_factor // 2
        chosen = ivectors[key][np.minimum(middles // period, len(ivectors[key]) - 1)]
        rows = exported.compute(features[key], chosen)
        assert np.linalg.norm(rows - expected) <= 1e-4 * np.linalg.norm(expected), key


@needs_shared
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
@pytest.mark.parametrize("name", FEW)
def test_a_few_golden_networks(name: str, tmp_path: Path) -> None:
    exported = Exported(nnet3.load(GOLDEN / name / "model.raw"), tmp_path, frames_per_chunk=12)
    assert exported.about.output_rows == 12


def test_any_number_of_sequences(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(IVECTOR_CONFIG, seed=1)
    exported = Exported(nnet, tmp_path, frames_per_chunk=4)
    random = np.random.default_rng(0)
    features, ivectors = random.standard_normal((3, 4, 3)).astype("f"), random.standard_normal((3, 2)).astype("f")
    found = exported.run(features, ivectors)["output"]
    for sequence in range(3):
        alone = nnet.compute(features[sequence], ivectors[sequence]).numpy()
        np.testing.assert_allclose(found[sequence], alone, rtol=1e-5, atol=1e-6)


def test_batch_norm_and_dropout_are_in_test_mode_and_the_network_stays_as_it_is(tmp_path: Path) -> None:
    nnet = trained_network()
    before = nnet.info()
    exported = Exported(nnet, tmp_path, frames_per_chunk=10)
    found = exported.run(FEATURES.numpy()[np.newaxis])["output"][0]
    np.testing.assert_allclose(found, nnet.compute(FEATURES).numpy(), rtol=1e-5, atol=1e-6)
    assert nnet.info() == before


def test_scores(tmp_path: Path) -> None:
    model = nnet3.load(GOLDEN / "mdl/1/final.mdl")
    assert isinstance(model, AcousticModel)
    model.priors = torch.rand(model.nnet.node_dim("output")) + 0.1
    options = {"frames_per_chunk": 6, "use_priors": True, "log_softmax": True, "acoustic_scale": 0.5}
    exported = Exported(model, tmp_path, **options)
    about = exported.about
    features = np.random.default_rng(0).standard_normal((6, about.input_dim)).astype("f")
    ivector = np.ones(about.ivector_dim, "f") if about.ivector_dim else None
    plain = model.nnet.compute(features, ivector)
    expected = 0.5 * (plain.log_softmax(1) - model.priors.log())
    found = exported.compute(features, None if ivector is None else ivector[np.newaxis])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_several_outputs_by_name(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(TWO_OUTPUTS, seed=1)
    exported = Exported(nnet, tmp_path, frames_per_chunk=4, outputs="other,output")
    found = exported.run(np.ones((1, 5, 3), "f"))
    assert {name: rows.shape for name, rows in found.items()} == {"other": (1, 4, 4), "output": (1, 4, 4)}
    np.testing.assert_allclose(torch.from_numpy(found["other"]).log_softmax(2), found["output"], atol=1e-6)


def test_parameters_of_other_types_and_long_double_weights_are_taken_as_float32(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG, seed=1).to(dtype=torch.float64)
    exported = Exported(nnet, tmp_path, frames_per_chunk=4)
    weights = onnx.load(exported.path).graph.initializer
    assert {tensor.data_type for tensor in weights if "weight" in tensor.name} == {onnx.TensorProto.FLOAT}


def test_weights_are_held_once_and_batch_norm_is_folded(tmp_path: Path) -> None:
    recurrent = GOLDEN / "train/lstm/start.raw"
    nnet = (
        nnet3.load(recurrent) if recurrent.exists() else nnet3.load(golden_cases("train", "start.raw")[0] / "start.raw")
    )
    assert isinstance(nnet, Nnet)
    sizes = [Exported(nnet, tmp_path, frames_per_chunk=n).path.stat().st_size for n in (4, 8)]
    parameters = 4 * nnet.num_parameters
    assert parameters < sizes[0] < sizes[1] < parameters + 2 * (sizes[1] - sizes[0]) + 50_000


def test_large_weights_lie_in_a_second_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_onnx, "MOST_BYTES", 10)
    nnet = nnet3.Nnet.from_config(
        "input-node name=input dim=30\noutput-node name=output input=a\n"
        "component name=a type=AffineComponent input-dim=30 output-dim=40\n"
        "component-node name=a component=a input=input"
    )
    exported = Exported(nnet, tmp_path, frames_per_chunk=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    features = np.ones((1, 2, 30), "f")
    np.testing.assert_allclose(exported.run(features)["output"][0], nnet.compute(features[0]).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk": 3}, "there is no option 'chunk'; the options are frames_per_chunk, "),
        ({"frames_per_chunk": -1}, r"frames_per_chunk must be within \[0, 100000\], got -1"),
        ({"extra_left_context": 10**9}, r"extra_left_context must be within \[0, 100000\], got 1000000000"),
        ({"outputs": "output,output"}, "outputs must be some of output, each once, got output, output"),
        ({"outputs": ("xent",)}, "outputs must be some of output, each once, got xent"),
        ({"vector": True, "extra_left_context": 2}, "vector is of all frames as they are: leave out subsampling and"),
        ({"opset": 9}, r"opset must be within \[18, 23\], got 9"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"^{message}"):
        Exported(nnet3.Nnet.from_config(CONFIG, seed=1), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_priors_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"^use_priors was asked for, but a raw network has none"):
        Exported(nnet3.Nnet.from_config(CONFIG, seed=1), tmp_path, use_priors=True)
    assert list(tmp_path.iterdir()) == []


def test_a_quantized_network_is_refused_by_its_component(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"^component 'affine' cannot be exported: its products are in int8; take"):
        Exported(nnet3.Nnet.from_config(CONFIG, seed=1).quantize(), tmp_path)


def test_a_network_that_is_not_simple_is_refused(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config("input-node name=x dim=2\noutput-node name=output input=x")
    with pytest.raises(
        ExportError, match=r"^only a simple network can be exported: .* this network has inputs \['x'\]"
    ):
        Exported(nnet, tmp_path)


def test_a_file_that_does_not_agree_is_not_kept_and_the_old_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG, seed=1)
    old = Exported(nnet, tmp_path, frames_per_chunk=4).path.read_bytes()
    monkeypatch.setattr(agreement, "TOLERANCE", 0.0)
    with pytest.raises(
        ExportError, match=r"^onnxruntime and nnet3 do not agree on output 'output': the difference is "
    ):
        Exported(nnet3.Nnet.from_config(CONFIG, seed=2), tmp_path, frames_per_chunk=4)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [old]


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(ExportError, match=r"^/dev/null: this is no file that an ONNX file can take the place of$"):
        nnet3.export_onnx(nnet3.Nnet.from_config(CONFIG), "/dev/null")


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="cannot write this file"):
        nnet3.export_onnx(nnet3.Nnet.from_config(CONFIG), tmp_path / "none" / "model.onnx")
