"""Checkpoints: the newest whole one, old ones removed, damage and full disks."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.runs import checkpoints as module
from nnet3.runs.checkpoints import Checkpoints
from nnet3.runs.packing import put_together, take_apart

NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=2
    component name=affine type=AffineComponent input-dim=2 output-dim=3
    component-node name=affine component=affine input=input
    output-node name=output input=affine
    """
)


def _save(checkpoints: Checkpoints, step: int) -> Path:
    return checkpoints.save(step, {"position": [step]}, {"trainer": take_apart({"x": torch.tensor(step)})}, NNET)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    result = Checkpoints(tmp_path / "exp" / "checkpoints", keep=2)
    result.prepare()
    return result


def test_the_newest_is_used_and_old_ones_go(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest() is None
    for step in (5, 10, 100):
        _save(checkpoints, step)
    assert sorted(os.listdir(checkpoints.folder)) == ["000000010", "000000100"]
    latest = checkpoints.latest()
    assert latest is not None
    assert (latest.step, latest.facts["position"], put_together(*latest.parts("trainer"))["x"].item()) == (
        100,
        [100],
        100,
    )
    loaded = nnet3.load(latest.path / "model.raw")
    assert isinstance(loaded, nnet3.Nnet)
    assert torch.equal(loaded.flat_parameters()[0], NNET.flat_parameters()[0])


@pytest.mark.parametrize("name", ["run.json", "model.raw", "trainer.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_one_is_passed_over(
    checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    _save(checkpoints, 5)
    path = _save(checkpoints, 10) / name
    contents = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(contents[: len(contents) // 2] if damage == "cut" else b"\x01" + contents[1:])
    with caplog.at_level(logging.WARNING, "nnet3"):
        latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 5
    assert "000000010" in caplog.text
    assert "passed over" in caplog.text
    _save(checkpoints, 10)
    again = checkpoints.latest()
    assert again is not None
    assert again.step == 10


def test_what_interrupted_writes_have_left_is_removed(checkpoints: Checkpoints) -> None:
    _save(checkpoints, 5)
    (checkpoints.folder / ".000000010.1234.tmp").mkdir()
    (checkpoints.folder / "12").mkdir()  # not a name of ours: it is neither read nor removed
    checkpoints.prepare()
    assert sorted(os.listdir(checkpoints.folder)) == ["000000005", "12"]
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 5
    for step in (10, 15):
        _save(checkpoints, step)
    assert sorted(os.listdir(checkpoints.folder)) == ["000000010", "000000015", "12"]


def test_states_are_known_by_their_names(checkpoints: Checkpoints) -> None:
    _save(checkpoints, 5)
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.has("trainer")
    assert not latest.has("rank-1")


def test_another_format_is_no_checkpoint(checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
    _save(checkpoints, 5)
    path = _save(checkpoints, 10) / "run.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 5
    assert "expected format 1, got 2" in caplog.text


def test_without_an_earlier_one_a_full_disk_says_so(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Nnet3Error("an error of ours")

    monkeypatch.setattr(module, "save_parts", fail)
    with pytest.raises(Nnet3Error, match=r"written: an error of ours; there is no earlier checkpoint: when this is"):
        _save(checkpoints, 10)


def test_when_all_are_damaged_it_is_an_error(checkpoints: Checkpoints) -> None:
    (_save(checkpoints, 5) / "run.json").write_text("{}")
    with pytest.raises(Nnet3Error, match="all 1 checkpoints are damaged"):
        checkpoints.latest()


def test_a_full_disk_keeps_the_last_good_one(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _save(checkpoints, 5)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ("save_parts", "_checksum"):
        with monkeypatch.context() as patch:
            patch.setattr(module, place, full)
            with pytest.raises(Nnet3Error) as error:
                _save(checkpoints, 10)
        assert "000000010: this checkpoint cannot be written: No space left on device" in str(error.value)
        assert f"the last good checkpoint is {good}" in str(error.value)
        assert os.listdir(checkpoints.folder) == ["000000005"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Nnet3Error, match=r"file/x: checkpoints cannot be written here: Not a directory"):
        Checkpoints(tmp_path / "file" / "x", keep=1).prepare()
