"""What files say of themselves, and what is read of files that others have written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import nnet3
from nnet3.errors import ArgumentError, ExportError
from tests.cli.run_command import CONFIG
from tests.export.exported import Exported


def test_metadata(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG, seed=1)
    exported = Exported(nnet, tmp_path, frames_per_chunk=4, frame_subsampling_factor=2, extra_right_context=1, opset=19)
    about = nnet3.load_onnx_metadata(exported.path)
    assert about == exported.about
    assert (about.left_context, about.right_context, about.input_frames, about.output_rows) == (1, 1, 5, 2)
    assert (about.frame_subsampling_factor, about.input_dim, about.ivector_dim, about.opset) == (2, 3, 0, 19)
    assert about.output_dims == {"output": 4}
    same, other = (
        Exported(n, tmp_path, frames_per_chunk=4).about.digest for n in (nnet, nnet3.Nnet.from_config(CONFIG, seed=2))
    )
    assert about.digest == same != other
    loaded = onnx.load(exported.path)
    assert {item.domain for item in loaded.opset_import} == {""}


@pytest.mark.parametrize("contents", [b"", b"no file of this kind", b"\x08\x08\x12\x05nnet3"])
def test_metadata_of_other_files(contents: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(contents)
    with pytest.raises(ExportError, match=r"other.onnx: this is no ONNX file that nnet3 has written"):
        nnet3.load_onnx_metadata(tmp_path / "other.onnx")
    with pytest.raises(ExportError, match=r"none.onnx: cannot read this file: No such file or directory"):
        nnet3.load_onnx_metadata(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("shift_samples", value) for value in ('"3"', "1.5", "true")),
        *(("snip_edges", "1"), ("any_length", "1"), ("error", "1e999"), ("error", "{}"), ("input_dim", "true")),
        *(("input_dim", "[" * 100_000), ("output_dims", "[]"), ("output_dims", "[1]"), ("form", "{}")),
        *(("version", "["), ("version", "[" * 100_000), ("opset", "9" * 5000)),
    ],
)
def test_values_of_other_types(name: str, value: str, tmp_path: Path) -> None:
    exported = Exported(nnet3.Nnet.from_config(CONFIG, seed=1), tmp_path, frames_per_chunk=4)
    model = onnx.load(exported.path)
    (found,) = (item for item in model.metadata_props if item.key == f"nnet3.{name}")
    found.value = value
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(ExportError, match="this is no ONNX file that nnet3 has written"):
        nnet3.load_onnx_metadata(tmp_path / "other.onnx")


def test_numbers_of_frames(tmp_path: Path) -> None:
    about = Exported(nnet3.Nnet.from_config(CONFIG, seed=1), tmp_path, frames_per_chunk=4).about
    with pytest.raises(ExportError, match="this file takes features, not samples"):
        about.num_frames(16000)
    about = replace(about, frame_samples=400, shift_samples=160)
    assert [about.num_frames(samples) for samples in (0, 399, 400, 559, 560)] == [0, 0, 1, 1, 2]
    about = replace(about, snip_edges=False)
    assert [about.num_frames(samples) for samples in (0, 79, 80, 239, 240)] == [0, 0, 1, 1, 2]
    with pytest.raises(ArgumentError, match="a number of samples must be an integer"):
        about.num_frames(0.5)
