"""tools/real_model.py, the parts of it that need no package index: copies, comparisons, sound at another rate."""

from __future__ import annotations

import importlib
import io
import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from nnet3 import AcousticModel, load
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"


@pytest.fixture
def real_model(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("tools.real_model")
    monkeypatch.setattr(module, "failures", [])
    return module


def test_copies_of_a_real_model_are_equal(
    real_model: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real_model.copies(MDL, tmp_path)
    assert real_model.failures == []
    assert capsys.readouterr().out.count("good  ") == 2
    damaged = bytearray(MDL.read_bytes())
    damaged[-1] ^= 0x40  # the last bit of a prior
    (tmp_path / "other.mdl").write_bytes(damaged)
    assert isinstance(load(tmp_path / "other.mdl"), AcousticModel)
    real_model.report("a difference", False)
    assert real_model.failures == ["a difference"]


def test_fine_tuning_leaves_the_model_itself_alone(
    real_model: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    am = load(MDL)
    assert isinstance(am, AcousticModel)
    dim, generator = am.nnet.node_dim("input"), torch.Generator().manual_seed(0)
    utterances = [torch.randn(frames, dim, generator=generator) for frames in (30, 21)]
    before = [t.clone() for c in am.nnet.components.values() for t in c.parameters().values()]
    reported: list[tuple[str, bool]] = []
    real_model.fine_tune(am, utterances, tmp_path / "tuned.mdl", lambda *line: reported.append(line))
    assert len(reported) == 3
    assert all(good for text, good in reported if "loss" not in text)  # so small a model learns little in so few steps
    assert isinstance(load(tmp_path / "tuned.mdl"), AcousticModel)
    after = [t for c in am.nnet.components.values() for t in c.parameters().values()]
    assert all(map(torch.equal, before, after))  # a copy was tuned


def test_sound_at_another_rate(real_model: ModuleType, tmp_path: Path) -> None:
    times = np.arange(8000) / 8000
    resampled = real_model.resample(1000 * np.sin(2 * np.pi * 440 * times), 8000)
    assert len(resampled) == 16000
    np.testing.assert_allclose(resampled, 1000 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000), atol=1e-6)
    real_model.write_wave(tmp_path / "x.wav", resampled)
    samples, rate = real_model.read_wave((tmp_path / "x.wav").read_bytes())
    assert rate == 16000
    assert np.abs(samples - resampled).max() <= 0.5
    with wave.open(io.BytesIO((tmp_path / "x.wav").read_bytes())) as file:
        assert file.getnchannels() == 1
