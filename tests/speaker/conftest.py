"""A made-up model, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.speaker.made_voices import make_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speakers") / "model"
    make_model(folder)
    return folder
