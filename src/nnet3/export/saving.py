"""save_checked: an ONNX model as a file that exists only if the check passes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

from nnet3.errors import ExportError
from nnet3.kaldi_io.files import check_can_write, check_is_path, is_special
from nnet3.kaldi_io.replacing import put_in_place

MOST_BYTES = 2**31 - 2**20  # of weights in the file itself
_DATA = ".data"  # what the name of the file with the weights has in addition


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a file to write. Raises what it takes for places where none can be written."""
    check_is_path(path, "the ONNX file to write")
    if is_special(path):
        raise ExportError(f"{os.fspath(path)}: this is no file that an ONNX file can take the place of")
    check_can_write(path)
    return Path(os.path.realpath(path))


def save_checked(model: ir.Model, target: Path, check: Callable[[Path], Path]) -> None:
    """Write a model to a folder beside its target, call `check` with the path of the file, and move the file returned.

    `check` returns the file given or a file made of it. Errors raised by `check` leave the target unchanged. Weights
    too large for one file go to a second file.
    """
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    data = f"{target.name}{_DATA}" if size > MOST_BYTES else None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp") as folder:
        file = Path(folder) / target.name
        ir.save(model, file, external_data=data)
        kept = check(file)
        with open(kept, "rb") as written:
            os.fsync(written.fileno())
        if data is not None and kept == file:
            put_in_place(Path(folder) / data, target.with_name(data))
        put_in_place(kept, target)
