"""Files for streams give what nnet3.StreamComputer gives, and what Kaldi's looped computation gave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.errors import ExportError, Nnet3Error
from nnet3.export import agreement
from nnet3.kaldi_io import open_matrix_table
from nnet3.model.nnet import Nnet
from tests.cli.run_command import CONFIG
from tests.export.exported import Exported
from tests.inference.stream_networks import BLOCKS, CONFIGS, make_features, make_ivector, make_streams, network
from tests.shared_data import golden_cases

PAGE = Path(__file__).resolve().parents[3] / "docs" / "onnx.md"
PERIOD = 10


def _read(path: Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


def _exported(name: str, folder: Path, frames_per_chunk: int = 7, **options: Any) -> Exported:
    return Exported(network(name), folder, frames_per_chunk=frames_per_chunk, streaming=True, **options)


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_golden_streams_are_what_kaldi_computed(folder: Path, tmp_path: Path) -> None:
    model = nnet3.load(folder / "model.raw")
    exported = Exported(model, tmp_path, frames_per_chunk=21, streaming=True, frame_subsampling_factor=3)
    features, ivectors, expected = (_read(folder / f"{name}.ark") for name in ("feats", "ivectors", "looped"))
    for key, matrix in expected.items():
        online = ivectors[key]
        rows = exported.stream(
            features[key][None], lambda end, online=online: online[None, min(end // PERIOD, len(online) - 1)]
        )
        assert rows.shape == (1, *matrix.shape)
        assert np.linalg.norm(rows - matrix) <= 1e-4 * np.linalg.norm(matrix), key


@pytest.mark.parametrize(("name", "factor"), [*((name, 1) for name in CONFIGS), ("ivector", 3), ("statistics", 3)])
def test_streams_side_by_side_are_those_of_the_executor(name: str, factor: int, tmp_path: Path) -> None:
    exported = _exported(name, tmp_path, frame_subsampling_factor=factor)
    streams = make_streams(name, frame_subsampling_factor=factor)
    features = torch.stack([make_features(streams, 100, seed) for seed in range(3)])
    ivector = make_ivector(streams)
    given = None if ivector is None else ivector.expand(3, -1).numpy()
    found = exported.stream(features.numpy(), lambda end: given)
    for row, alone in zip(found, features, strict=True):
        expected = streams.compute(alone, ivector).numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frames", [1, 8, 15, 16])
def test_short_streams(frames: int, tmp_path: Path) -> None:
    streams = make_streams("tdnn")
    features = make_features(streams, frames)
    found = _exported("tdnn", tmp_path).stream(features.numpy()[None])[0]
    np.testing.assert_allclose(found, streams.compute(features).numpy(), rtol=1e-4, atol=1e-5)


def test_a_stream_goes_on_from_any_of_its_states(tmp_path: Path) -> None:
    exported = _exported("lstm", tmp_path)
    features = np.random.default_rng(0).standard_normal((1, 22, 4)).astype(np.float32)
    first, state = exported.chunk(features[:, :8], exported.start(1))
    one, _ = exported.chunk(features[:, 8:15], state)
    other, _ = exported.chunk(features[:, 15:], state)
    again, _ = exported.chunk(features[:, 8:15], state)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose(
        np.concatenate([first, one], 1)[0], make_streams("lstm").compute(features[0, :15])[:14], rtol=1e-4, atol=1e-5
    )


def test_scores_and_extra_context(tmp_path: Path) -> None:
    exported = _exported("tdnn", tmp_path, log_softmax=True, acoustic_scale=0.5, extra_left_context=2)
    streams = make_streams("tdnn", extra_left_context_initial=2)
    features = make_features(streams, 40)
    expected = 0.5 * streams.compute(features).log_softmax(1)
    np.testing.assert_allclose(exported.stream(features.numpy()[None])[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("quantize", "error"), [("int8", 0.1), ("fp16", 0.01)])
def test_smaller_files(quantize: str, error: float, tmp_path: Path) -> None:
    exported = _exported("lstm", tmp_path, quantize=quantize)
    assert 0 < exported.about.error < error
    streams = make_streams("lstm")
    features = make_features(streams, 40)
    np.testing.assert_allclose(exported.stream(features.numpy()[None])[0], streams.compute(features), atol=2 * error)


def test_weights_are_held_once_for_all_chunks(tmp_path: Path) -> None:
    nnet = Nnet.from_xconfig(
        "input name=input dim=4\nrelu-layer name=wide dim=4000 input=Append(-2,0,1)\noutput-layer name=output dim=100"
    )
    size = Exported(nnet, tmp_path, frames_per_chunk=7, streaming=True).path.stat().st_size
    assert size < 4 * nnet.num_parameters + 20_000


def test_metadata(tmp_path: Path) -> None:
    about = _exported("statistics", tmp_path).about
    assert about == nnet3.load_onnx_metadata(tmp_path / "model.onnx")
    assert (about.form, about.first_frames, about.input_frames, about.output_rows) == ("stream", 10, 10, 10)
    assert (about.left_context, about.right_context, about.frame_subsampling_factor) == (0, 0, 1)
    assert about.state == {"state.input": [2, 3], "state.stats": [4, 7]}


def test_the_client_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nnet = network("lstm")
    nnet3.export_onnx(nnet, "stream.onnx", frames_per_chunk=7, streaming=True, frame_subsampling_factor=3)
    (client,) = (
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "first_frames" in block
    )
    streams = make_streams("lstm", frame_subsampling_factor=3)
    for frames in (1, 22, 50):
        features = make_features(streams, frames).numpy()
        names: dict[str, Any] = {"nnet3": nnet3, "np": np, "onnxruntime": agreement.onnxruntime, "features": features}
        exec(client, names)
        np.testing.assert_allclose(names["output"], streams.compute(features), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frames", [7, 9, 16])
def test_a_call_with_another_number_of_frames_is_refused(frames: int, tmp_path: Path) -> None:
    exported = _exported("lstm", tmp_path)
    with pytest.raises(Exception, match="Reshape"):
        exported.chunk(np.zeros((1, frames, 4), np.float32), exported.start(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "streaming takes chunks of a fixed number of frames: say frames_per_chunk, such as 21"),
        (
            {"frames_per_chunk": 7, "vector": True},
            "streaming is of 'output' alone: leave out vector, extra_right_conte",
        ),
        ({"frames_per_chunk": 7, "extra_right_context": 1}, "streaming is of 'output' alone: leave out vector, "),
        ({"frames_per_chunk": 7, "streaming": 3}, "streaming must be true or false, got 3"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"^{message}"):
        Exported(Nnet.from_config(CONFIG), tmp_path, **{"streaming": True, **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            BLOCKS.replace("output-period=5", "output-period=11"),
            "a stream in chunks of 7 frames has 12 programs, of which",
        ),
        (CONFIGS["ivector"].replace("ReplaceIndex(ivector, t, 0)", "ReplaceIndex(ivector, t, 5)"), "sets t to 0"),
        (CONFIGS["statistics"].replace("left-context=20", "left-context=10000"), "do not come to repeat"),
    ],
)
def test_networks_without_a_file_for_streams(config: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match=message):
        Exported(Nnet.from_config(config), tmp_path, frames_per_chunk=7, streaming=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_agree_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match=r"^onnxruntime and nnet3 do not agree on output 'output'"):
        _exported("lstm", tmp_path)
    assert list(tmp_path.iterdir()) == []
