"""The examples on real data learn what they are to learn."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.effort import EFFORT, at_night
from tests.shared_data import SHARED

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "computational_networks"
RECORDINGS = SHARED / "data" / "fsdd" / "recordings.zip"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(EXAMPLES)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_one_hidden_layer(example) -> None:
    assert example("one_hidden_layer").run() > 0.94


def test_the_convolutional_network_learns(example, tmp_path) -> None:
    epochs, right = ((2, 1), 0.9) if EFFORT == 1 else ((19, 11), 0.98)
    assert example("cnn").run(epochs, str(tmp_path / "kernels.png")) >= right
    assert (tmp_path / "kernels.png").stat().st_size > 1000


def test_the_tensor_network_learns(example) -> None:
    assert example("tensor_network").run(epochs=12) > 0.95


def test_the_cosine_matcher_learns(example) -> None:
    steps, right = (80, 0.9) if EFFORT == 1 else (250, 0.95)
    assert example("cosine_matcher").run(steps=steps) > right


@pytest.fixture(scope="module")
def one_speaker(tmp_path_factory) -> str:
    """The recordings of one speaker alone, by day three of each digit: to read all takes longer than to learn these."""
    path = tmp_path_factory.mktemp("recordings") / "jackson.zip"
    with zipfile.ZipFile(RECORDINGS) as archive, zipfile.ZipFile(path, "w") as own:
        for name in archive.namelist():
            if "_jackson_" in name and (EFFORT > 1 or int(Path(name).stem.rpartition("_")[2]) in (4, 5, 6)):
                own.writestr(name, archive.read(name))
    return str(path)


@pytest.mark.skipif(not RECORDINGS.exists(), reason="no recordings of spoken digits")
@pytest.mark.parametrize("bidirectional", [True, *at_night(False)])
def test_spoken_digits_are_learnt(example, one_speaker, bidirectional) -> None:
    epochs, right = (1, 0.0) if EFFORT == 1 else (5, 0.85)
    assert example("spoken_digits").run(one_speaker, bidirectional, speakers=["jackson"], epochs=epochs) >= right


def test_strings_are_reversed(example) -> None:
    """By a few steps they are not, but all lines run."""
    steps, right = (2, 0) if EFFORT == 1 else (500, 0.7)
    assert example("reversal").run(steps=steps) >= right
