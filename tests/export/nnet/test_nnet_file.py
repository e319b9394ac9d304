"""The check of files notices what is wrong in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from nnet3.decode import Scoring
from nnet3.errors import ExportError
from nnet3.export.agreement import check_file, errors_of
from nnet3.export.nnet.file_forms import chunk_of
from nnet3.export.nnet.nnet_file import NnetFile
from nnet3.export.nnet.sources import Form, Source
from nnet3.export.nnet.streams import streams_of
from nnet3.export.nnet.wave import read_wave
from nnet3.model.nnet import Nnet
from nnet3.options import OnnxOptions
from tests.export.exported import Exported
from tests.inference.stream_networks import network

CHUNK = {"frames_per_chunk": 7}
STREAMS = {"frames_per_chunk": 7, "streaming": True}


def contents(exported: Exported, nnet: Nnet, form: Form, source: Source | None = None, scale: float = 1.0) -> NnetFile:
    return NnetFile(nnet, nnet, form, source or Source(4), Scoring(None, scale), exported.about)


def test_another_network_has_other_outputs(tmp_path: Path) -> None:
    nnet, options = network("tdnn"), OnnxOptions(**CHUNK)
    exported = Exported(nnet, tmp_path, **CHUNK)
    made = contents(exported, nnet, chunk_of(nnet, options))
    assert errors_of(exported.path, made.compare)["output"] < 1e-5
    nnet.scale_(0.5)
    with pytest.raises(
        ExportError, match=r"^onnxruntime and nnet3 do not agree on output 'output': the difference is "
    ):
        check_file(exported.path, made.compare)


def test_other_scores(tmp_path: Path) -> None:
    nnet = network("lstm")
    exported = Exported(nnet, tmp_path, **STREAMS)
    form = streams_of(nnet, OnnxOptions(**STREAMS))
    errors = [
        errors_of(exported.path, contents(exported, nnet, form, scale=scale).compare)["output"] for scale in (1.0, 0.5)
    ]
    assert errors[0] < 1e-5 < 0.1 < errors[1]


@pytest.mark.parametrize("name", ["state.lstm", "place", "wave.rest", "wave.frame", "wave.end"])
def test_a_stream_that_forgets_its_state_is_noticed(name: str, tmp_path: Path) -> None:
    nnet, options = network("lstm"), dict[str, Any](STREAMS)
    source = Source(4)
    if name.startswith("wave"):
        conf = tmp_path / "mfcc.conf"
        conf.write_text("--num-ceps=4\n--snip-edges=false\n")
        options["features"] = f"mfcc:{conf}"
        source = read_wave(options["features"], 4)
    exported = Exported(nnet, tmp_path, **options)
    model = onnx.load(exported.path)
    (last,) = (node for node in model.graph.node if node.output[0] == f"next_{name}")
    zero = onnx.numpy_helper.from_array(np.array(0, np.int64 if name == "place" else np.float32), "zero")
    model.graph.initializer.append(zero)
    last.CopyFrom(onnx.helper.make_node("Mul", [last.input[0], "zero"], [last.output[0]]))
    onnx.save(model, exported.path)
    form = streams_of(nnet, OnnxOptions(**STREAMS))
    with pytest.raises(Exception, match=r"do not agree on output 'output'|Reshape"):
        check_file(exported.path, contents(exported, nnet, form, source).compare)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    nnet = network("tdnn")
    exported = Exported(nnet, tmp_path, **CHUNK)
    exported.path.write_bytes(b"nothing")
    with pytest.raises(ExportError, match=r"^the file that was made is not valid: "):
        check_file(exported.path, contents(exported, nnet, chunk_of(nnet, OnnxOptions(**CHUNK))).compare)
