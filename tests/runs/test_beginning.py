"""What a run begins with: kinds of model files, devices of processes, patterns of dropout, folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.errors import ConfigError, Nnet3Error
from nnet3.runs import beginning as module
from nnet3.runs.beginning import (
    choose_device,
    contents_digest,
    dropout_schedule,
    load_start,
    prepare_folder,
    take_threads,
)
from nnet3.runs.kinds import KINDS
from nnet3.runs.settings import RunSettings
from nnet3.runs.settings_text import parse_toml
from nnet3.runs.world import World

CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=3
component name=drop1 type=DropoutComponent dim=3 dropout-proportion=0.5
component name=other-drop type=DropoutComponent dim=3 dropout-proportion=0.5
component-node name=affine component=affine input=input
component-node name=drop1 component=drop1 input=affine
component-node name=other-drop component=other-drop input=drop1
output-node name=output input=other-drop
"""


def _settings(training: str = "", model: str = "x.raw", seed: int = 0) -> RunSettings:
    text = f"[model]\nfile = '{model}'\nseed = {seed}\n[training]\n{training}\n[output]\nfolder = 'exp'\n"
    return KINDS.read(parse_toml(text, "run.toml"))


@pytest.mark.parametrize("binary", [True, False])
def test_a_model_file_is_taken_as_it_is(tmp_path: Path, binary: bool) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG, seed=3)
    nnet.save(tmp_path / "0.raw", binary=binary)
    loaded = load_start(_settings(model=str(tmp_path / "0.raw")))
    assert isinstance(loaded, nnet3.Nnet)
    torch.testing.assert_close(loaded.flat_parameters(), nnet.flat_parameters())


def test_a_config_is_drawn_by_the_seed(tmp_path: Path) -> None:
    (tmp_path / "net.config").write_text(CONFIG)
    first, again, other = (load_start(_settings(model=f"{tmp_path}/net.config", seed=seed)) for seed in (3, 3, 4))
    assert isinstance(first, nnet3.Nnet)
    assert isinstance(again, nnet3.Nnet)
    assert isinstance(other, nnet3.Nnet)
    expected = nnet3.Nnet.from_config(CONFIG, seed=3).flat_parameters()[0]
    assert torch.equal(first.flat_parameters()[0], expected)
    assert torch.equal(again.flat_parameters()[0], expected)
    assert not torch.equal(other.flat_parameters()[0], expected)


def test_contents_of_a_file(tmp_path: Path) -> None:
    for name, contents in (("a", b"x" * (5 << 20)), ("b", b"x" * (5 << 20)), ("c", b"x" * (5 << 20) + b"y")):
        (tmp_path / name).write_bytes(contents)
    a, b, c = (contents_digest(f"{tmp_path}/{name}") for name in "abc")
    assert a == b != c
    assert len(a) == 16


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device(_settings(), World()) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"run.toml:5:1: .* expected a device that is there, got 'cuda'"):
        choose_device(_settings("device = 'cuda'"), World())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank in range(2):
        assert choose_device(_settings("device = 'cuda'"), World(5, 8, rank)) == torch.device("cuda", rank)
    assert choose_device(_settings("device = 'cuda:1'"), World()) == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="expected one of 2 CUDA devices, got 'cuda:2'"):
        choose_device(_settings("device = 'cuda:2'"), World())
    with pytest.raises(ConfigError, match="expected one of 2 CUDA devices, got 'cuda:2'"):
        choose_device(_settings("device = 'cuda'"), World(2, 3, 2))


def test_dropout_for_components_that_there_are() -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    assert dropout_schedule(_settings(), nnet).points == ()
    schedule = dropout_schedule(_settings("dropout-schedule = '*drop=0.1,0.1 drop?=0.2,0.2'"), nnet)
    assert [pattern for pattern, _ in schedule.points] == ["*drop", "drop?"]
    with pytest.raises(ConfigError) as error:
        dropout_schedule(_settings("dropout-schedule = 'drop=0,0'"), nnet)
    assert "run.toml:5:1: [training] dropout-schedule: expected patterns of the names of dropout" in str(error.value)
    assert "got 'drop', which fits none of them" in str(error.value)
    assert "there are drop1, other-drop" in str(error.value)
    plain = nnet3.Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    with pytest.raises(ConfigError, match="the network has no dropout component"):
        dropout_schedule(_settings("dropout-schedule = '0,0'"), plain)


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    for _ in range(2):
        prepare_folder(tmp_path / "a" / "b")
        assert os.listdir(tmp_path / "a" / "b") == []
    (tmp_path / "a" / "b" / ".probe").mkdir()
    with pytest.raises(Nnet3Error, match=r"b: the run's folder \(output.folder\) cannot be written: Is a directory"):
        prepare_folder(tmp_path / "a" / "b")


@pytest.mark.parametrize(("wanted", "taken"), [(0, []), (1, [1]), (3, [3]), (4, [3]), (10_000, [3])])
def test_there_are_no_more_threads_than_processors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: int, taken: list[int]
) -> None:
    found: list[int] = []
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    for rank in range(2):
        take_threads(wanted, World(rank, 2))
    assert found == taken * 2
    assert caplog.messages == [f"[training] threads is {wanted}, but this machine has 3 processors: 3 are used"] * (
        wanted > 3
    )
