"""Writes the model directory of a tuned model: the old directory with another network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnet3.base.kaldi_io.whole_folder import whole_folder
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.model.nnet import AcousticModel
from nnet3.speech.asr.model_folder import ModelFolder


@contextmanager
def new_folder(path: str, model: str) -> Iterator[Path]:
    """Yields a folder that gets the name `path` only at the end; a failure leaves no folder.

    Raises Nnet3Error if a folder with files has the name already, or if the name lies inside the model directory.
    """
    if Path(path).resolve().is_relative_to(Path(model).resolve()):
        raise ArgumentError(f"{path}: this is the model directory {model}, or inside it: name another folder")
    with whole_folder(path, ()) as folder:
        yield folder


def write_model_folder(source: ModelFolder, model: AcousticModel, folder: Path) -> None:
    """Copies a model directory, with `model` in the place of its network. Raises Nnet3Error."""
    try:
        shutil.copytree(source.path, folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    except shutil.Error as error:
        name, _, reason = error.args[0][0]
        raise Nnet3Error(f"{name}: cannot be copied: {reason}") from None
    model.save(folder / source.network)
