"""Writes the model directory that tuning gives: the old one with another network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnet3.asr import ModelFolder
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.kaldi_io.whole_folder import whole_folder
from nnet3.nnet import AcousticModel


@contextmanager
def new_folder(path: str, model: str) -> Iterator[Path]:
    """Yields a folder that has its name at the end; nothing is left if something fails before.

    Raises Nnet3Error if the name is that of a folder with files, or lies inside the model directory.
    """
    if Path(path).resolve().is_relative_to(Path(model).resolve()):
        raise ArgumentError(f"{path}: this is the model directory {model}, or inside it: name another folder")
    with whole_folder(path, ()) as folder:
        yield folder


def write_model_folder(source: ModelFolder, model: AcousticModel, folder: Path) -> None:
    """Copies a model directory, with this network in the place of its own. Raises Nnet3Error."""
    try:
        shutil.copytree(source.path, folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    except shutil.Error as error:
        name, _, reason = error.args[0][0]
        raise Nnet3Error(f"{name}: cannot be copied: {reason}") from None
    model.save(folder / source.network)
