"""Files that take samples give what nnet3 gives for features of kaldi-native-fbank; clients are those of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnet3
from nnet3.asr import FeatureStream
from nnet3.errors import ExportError, Nnet3Error
from nnet3.export import agreement
from nnet3.export.nnet.features import add_features
from nnet3.model.nnet import Nnet
from nnet3.speech.features.features import read_feature_options
from tests.cli.run_command import CONFIG
from tests.export.exported import Exported
from tests.export.samples import RATE, speechlike
from tests.inference.stream_networks import network
from tests.seeds import RANDOM
from tests.shared_data import GOLDEN, needs_shared

PAGE = Path(__file__).resolve().parents[3] / "docs" / "onnx.md"
SECTION = PAGE.read_text().partition("## Samples of audio")[2].partition("\n## ")[0]
CLIENTS = {re.search(r'"(\S+).onnx"', code)[1]: code for code in re.findall(r"```python\n(.*?)```", SECTION, re.S)[1:]}  # type: ignore[index]
FORMS: dict[str, dict[str, Any]] = {
    "wave": {},
    "wave-chunks": {"frames_per_chunk": 7},
    "wave-stream": {"frames_per_chunk": 7, "streaming": True},
}
EDGES = {
    "snip": {},
    "mirrored": {"snip-edges": "false"},
    "gaps": {"frame-shift": "40", "snip-edges": "false"},
    "dense": {"frame-shift": "3", "snip-edges": "false"},
    "odd": {"frame-length": "10.2", "frame-shift": "10.13", "snip-edges": "false"},  # 81 samples, 81 further on
}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "mfcc.conf"


def write(conf: Path, dim: int = 4, **options: str) -> str:
    """Writes a config file and returns what `features` is then."""
    values = {"sample-frequency": str(RATE), "num-ceps": str(dim), **options}
    conf.write_text("".join(f"--{name}={value}\n" for name, value in values.items()))
    return f"mfcc:{conf}"


def features_of(conf: Path, samples: np.ndarray) -> np.ndarray:
    return FeatureStream(read_feature_options(conf, "mfcc"), RATE).accept(samples, last=True)


def run_client(name: str, samples: np.ndarray) -> np.ndarray:
    names: dict[str, Any] = {"nnet3": nnet3, "np": np, "onnxruntime": agreement.onnxruntime, "samples": samples}
    exec(CLIENTS[name], names)
    output: np.ndarray = names["output"]
    return output


CASES = [*((form, edges) for form in FORMS for edges in ("snip", "mirrored"))]
CASES += [("wave", "gaps"), ("wave-chunks", "dense"), *(("wave-stream", edges) for edges in ("gaps", "dense", "odd"))]


@pytest.mark.parametrize(("form", "edges"), CASES)
def test_clients_of_the_page(
    form: str, edges: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nnet, options = network("tdnn"), FORMS[form]
    about = nnet3.export_onnx(nnet, f"{form}.onnx", features=write(conf, **EDGES[edges]), **options)
    streams = nnet3.StreamComputer(nnet, frames_per_chunk=7, frame_subsampling_factor=1)
    for seed, length in enumerate([2600, 2000 + int(RANDOM.integers(1000)), 201, 90]):
        samples = speechlike(length, seed)
        features = features_of(conf, samples)
        assert about.num_frames(length) == len(features)
        if len(features) == 0:
            continue
        expected = streams.compute(features) if form == "wave-stream" else nnet.compute(features)
        found = run_client(form, samples)
        assert found.shape == expected.shape
        assert np.abs(found - expected.numpy()).max() <= 1e-4 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("edges", ["snip", "mirrored"])
@pytest.mark.parametrize("name", ["lstm", "ivector"])
def test_streams_side_by_side_end_where_they_end(name: str, edges: str, conf: Path, tmp_path: Path) -> None:
    nnet = network(name)
    features = write(conf, nnet.node_dim("input"), **EDGES[edges])
    exported = Exported(nnet, tmp_path, frames_per_chunk=7, streaming=True, features=features)
    about, batch = exported.about, 4
    totals = np.array([5000, 1000, *RANDOM.integers(300, 5000, batch - 2)])
    waves = [speechlike(int(total), seed) for seed, total in enumerate(totals)]
    ivectors = RANDOM.normal(size=(batch, about.ivector_dim)).astype(np.float32)
    others = {"ivector": ivectors} if about.ivector_dim else {}
    state, rows, start, size = exported.start(batch), [], 0, about.first_samples
    while start < 6500:
        wave = np.zeros((batch, size), np.float32)
        for row, samples in zip(wave, waves, strict=True):
            piece = samples[start : start + size]
            row[: len(piece)] = piece
        counts = (totals - start).clip(0, size)
        output, *after = exported.session.run(None, {"wave": wave, "count": counts, **others, **state})
        state, start, size = dict(zip(state, after, strict=True)), start + size, about.input_samples
        rows.append(output)
    found = np.concatenate(rows, axis=1)
    streams = nnet3.StreamComputer(nnet, frames_per_chunk=7, frame_subsampling_factor=1)
    for number, samples in enumerate(waves):
        alone = features_of(conf, samples)
        expected = streams.compute(alone, *(each[number] for each in others.values())).numpy()
        np.testing.assert_allclose(found[number, : len(expected)], expected, rtol=1e-4, atol=1e-4)


def test_metadata(conf: Path, tmp_path: Path) -> None:
    options = {"features": write(conf, **{"snip-edges": "false"}), **FORMS["wave-stream"]}
    about = Exported(network("lstm"), tmp_path, **options).about
    assert about == nnet3.load_onnx_metadata(tmp_path / "model.onnx")
    assert (about.features, about.sample_frequency, about.snip_edges) == ("mfcc", 8000, False)
    assert (about.frame_samples, about.shift_samples, about.start_sample) == (200, 80, -60)
    assert (about.first_samples, about.input_samples) == (7 * 80 + 200 - 60, 7 * 80)  # all of the last frame
    assert about.state == {"wave.rest": [120], "wave.frame": [1, 4], "wave.end": [1], "state.lstm": [6, 6]}
    assert {item.domain for item in onnx.load(tmp_path / "model.onnx").opset_import} == {""}


@pytest.mark.parametrize(("quantize", "error"), [("int8", 0.1), ("fp16", 0.01)])
def test_weights_of_features_keep_their_bits(quantize: str, error: float, conf: Path, tmp_path: Path) -> None:
    exported = Exported(network("tdnn"), tmp_path, quantize=quantize, features=write(conf))
    assert 0 < exported.about.error < error
    own = [tensor for tensor in onnx.load(exported.path).graph.initializer if tensor.name.startswith("wave:")]
    assert len(own) == 5
    assert {tensor.data_type for tensor in own} == {onnx.TensorProto.FLOAT}


@needs_shared
def test_a_vector_of_all_samples(conf: Path, tmp_path: Path) -> None:
    nnet = nnet3.load_nnet(GOLDEN / "xvector" / "1" / "model.raw")
    features = write(conf, nnet.node_dim("input"), **{"num-mel-bins": "40"})
    samples = speechlike(120 * 80 + 130)
    found = Exported(nnet, tmp_path, vector=True, features=features).session.run(None, {"wave": samples[np.newaxis]})
    expected = nnet3.xvectors(nnet, features_of(conf, samples)).numpy()
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("form", "samples"), [("wave", 199), ("wave-chunks", 1000), ("wave-stream", 1000)])
def test_samples_that_are_too_few_are_an_error_of_the_engine(
    form: str, samples: int, conf: Path, tmp_path: Path
) -> None:
    exported = Exported(network("tdnn"), tmp_path, features=write(conf), **FORMS[form])
    given: dict[str, np.ndarray] = {"wave": np.ones((1, samples), np.float32)}
    given |= {"frames": np.array([[0, 1]])} if form == "wave-chunks" else {}
    given |= {"count": np.array([samples]), **exported.start(1)} if form == "wave-stream" else {}
    with pytest.raises(Exception, match=r"wave|Reshape|Expand"):
        exported.session.run(["output"], given)


@pytest.mark.parametrize(
    ("features", "lines", "message"),
    [
        ("mfcc", "", r"^features must be mfcc:FILE or fbank:FILE, with a config file of Kaldi's, got 'mfcc'$"),
        ("plp:{}", "", "^features must be mfcc:FILE or fbank:FILE"),
        ("mfcc:{}", "--dither=1", "mfcc.conf: dither cannot be in the file, which computes the same every time: say"),
        ("mfcc:{}", "", "mfcc.conf: these features have dimension 13, the network's input has 3$"),
        ("fbank:{}", "--num-mel-bin=3", "mfcc.conf:1:1: there is no option '--num-mel-bin' here"),
        ("mfcc:{}", "--num-ceps=many", "mfcc.conf:1:12: --num-ceps must be an integer, got 'many'"),
        (
            "mfcc:{}",
            "--frame-length=1000",
            "Fourier transform in a file takes up to 8192 .* got 16384: choose",
        ),
        ("mfcc:none.conf", "", "none.conf: cannot read this file"),
    ],
)
def test_features_that_no_file_can_have(features: str, lines: str, message: str, conf: Path, tmp_path: Path) -> None:
    conf.write_text(lines)
    with pytest.raises(Nnet3Error, match=message):
        Exported(Nnet.from_config(CONFIG), tmp_path, features=features.format(conf))
    assert list(tmp_path.iterdir()) == [conf]


def test_an_output_with_the_name_of_an_input(conf: Path, tmp_path: Path) -> None:
    nnet = Nnet.from_config(CONFIG + "output-node name=wave input=affine\n")
    with pytest.raises(ExportError, match=r"^an output cannot have the name of an input of samples, got wave$"):
        Exported(nnet, tmp_path, features=write(conf, 3), outputs="wave")


def test_a_file_that_does_not_agree_is_not_kept(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = write(conf)
    monkeypatch.setattr("nnet3.export.nnet.wave.add_features", _other_features)
    with pytest.raises(ExportError, match=r"^onnxruntime and nnet3 do not agree on output 'output'"):
        Exported(network("tdnn"), tmp_path, features=features)
    assert list(tmp_path.iterdir()) == [conf]


def _other_features(graph: Any, frames: Any, options: Any) -> Any:
    return graph.op("Mul", add_features(graph, frames, options), graph.constant(np.array(1.01, np.float32)))
