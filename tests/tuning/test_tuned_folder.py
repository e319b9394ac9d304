"""The folder of a tuned model is a copy with another network, and there only when all went well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnet3.asr import ModelFolder
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.speech.tuning.tuned_folder import new_folder, write_model_folder
from tests.asr.small_model import acoustic_model, write_folder
from tests.seeds import RANDOM


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_folder(tmp_path / "model", RANDOM)
    return tmp_path / "model"


def test_links_become_files(model: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("large\n")
    (model / "graph/HCLG.fst").unlink()
    (model / "graph/HCLG.fst").symlink_to(tmp_path / "shared")
    with new_folder(str(tmp_path / "tuned"), str(model)) as folder:
        assert not (tmp_path / "tuned").exists()
        write_model_folder(ModelFolder(model), acoustic_model(), folder)
    copied = tmp_path / "tuned/graph/HCLG.fst"
    assert copied.read_text() == "large\n"
    assert not copied.is_symlink()


@pytest.mark.parametrize("name", ["model", "model/inside/tuned", "model/../model", "link/tuned"])
def test_the_model_directory_is_not_written_to(model: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(model)
    with (
        pytest.raises(ArgumentError, match=r"this is the model directory .*, or inside it"),
        new_folder(str(tmp_path / name), str(model)),
    ):
        pass


def test_what_cannot_be_copied_is_named(model: Path, tmp_path: Path) -> None:
    os.mkfifo(model / "pipe")
    with (
        pytest.raises(Nnet3Error, match=r"pipe: cannot be copied: .*named pipe"),
        new_folder(str(tmp_path / "tuned"), str(model)) as folder,
    ):
        write_model_folder(ModelFolder(model), acoustic_model(), folder)
    assert not [path for path in tmp_path.iterdir() if "tuned" in path.name]
