"""write_onnx: contents of a front-end as an ONNX file that exists only if onnxruntime computes what nnet3 does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import onnx_ir as ir
import onnxruntime

from nnet3.base.kaldi_io.files import check_can_write, check_is_path, is_special
from nnet3.base.kaldi_io.replacing import ONNX, put_in_place
from nnet3.errors import ExportError
from nnet3.export.agreement import Pair, check_file, errors_of
from nnet3.export.build import model_of
from nnet3.export.graph import GraphBuilder
from nnet3.export.metadata import FileMetadata
from nnet3.export.smaller import WRITERS, set_metadata

MOST_BYTES = 2**31 - 2**20  # of weights in the file itself
_DATA = ".data"  # what the name of the file with the weights has in addition

About = TypeVar("About", bound=FileMetadata, covariant=True)


class Contents(Protocol[About]):
    """What a front-end puts into a file.

    `build` adds the nodes to a graph, and returns the graph's inputs and the tensor behind each output. `compare`
    yields outputs for random inputs, from a session of the file and from nnet3.
    """

    @property
    def about(self) -> About: ...

    def build(self, graph: GraphBuilder) -> tuple[Sequence[ir.Value], Mapping[ir.Value, ir.Value]]: ...

    def compare(self, session: onnxruntime.InferenceSession) -> Iterator[Pair]: ...


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a file to write. Raises what it takes for places where none can be written."""
    check_is_path(path, "the ONNX file to write")
    if is_special(path):
        raise ExportError(f"{os.fspath(path)}: this is no file that an ONNX file can take the place of")
    check_can_write(path, ONNX)
    return Path(os.path.realpath(path))


def write_onnx(contents: Contents[About], target: Path, quantize: str = "none") -> About:
    """Writes contents to a file; returns the metadata. Raises ExportError, and leaves the target as it was.

    Weights too large for one file go to a second file. With `quantize`, "int8" or "fp16", the file is compared before
    its weights are made smaller, and the metadata have the error after.
    """
    graph, about = GraphBuilder(), contents.about
    model = model_of(graph, *contents.build(graph), about)
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    data = f"{target.name}{_DATA}" if size > MOST_BYTES else None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp") as folder:
        file = Path(folder) / target.name
        ir.save(model, file, external_data=data)
        check_file(file, contents.compare)
        if quantize != "none":
            full, file, data = file, file.with_suffix(".smaller"), None
            WRITERS[quantize](full, file)
            found: dict[str, Any] = {"quantize": quantize, "error": max(errors_of(file, contents.compare).values())}
            about = replace(about, **found)
            set_metadata(file, about)
        with open(file, "rb") as written:
            os.fsync(written.fileno())
        if data is not None:
            put_in_place(Path(folder) / data, target.with_name(data))
        put_in_place(file, target)
    return about
