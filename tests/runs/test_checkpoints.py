"""Checkpoints: the newest whole one, old ones removed, damage and full disks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.training.runs import checkpoints as module
from nnet3.training.runs.checkpoints import (
    Checkpoint,
    Checkpoints,
    States,
    join_states,
    own_state,
    remove_folder,
    remove_leftovers,
    write_folder,
)
from nnet3.training.runs.packing import put_together, same, take_apart
from nnet3.training.runs.process_group import ProcessGroup

CALLS = ("rename", "fsync", "open")


def _fill(text: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).write_text(text)

    return fill


class _PowerCutError(BaseException):
    pass


def _cut(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Everything ends at call number `after` of those that matter; nothing is cleaned up."""
    count = 0

    def wrap(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count > after:
                raise _PowerCutError
            return function(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    monkeypatch.setattr("nnet3.training.runs.checkpoints.shutil.rmtree", lambda *_, **__: None)


def _visible(parent: Path) -> dict[str, set[str]]:
    folders = [path for path in parent.iterdir() if not path.name.startswith(".")]
    return {folder.name: {f"{file.name} {file.read_text()}" for file in folder.iterdir()} for folder in folders}


def test_an_interruption_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    seen = set()
    for after in range(20):
        parent = tmp_path / str(after)
        parent.mkdir()
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_PowerCutError):
            _cut(patch, after)
            write_folder(parent / "x", _fill("new"))
        assert _visible(parent) in ({}, {"x": {"a new", "b new"}})
        seen.add(len(_visible(parent)))
        remove_leftovers(parent)
        assert len(list(parent.iterdir())) == len(_visible(parent))
    assert seen == {0, 1}


def test_a_failure_cleans_up_and_keeps_what_was_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", _fill("old"))

    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "x", fail)
    assert _visible(tmp_path) == {"x": {"a old", "b old"}}
    assert os.listdir(tmp_path) == ["x"]


def test_what_cannot_be_cleaned_up_does_not_hide_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "x", fail)


def test_a_folder_that_cannot_be_removed_wholly_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it has a name that nobody reads, and goes the next time."""
    write_folder(tmp_path / "x", _fill("old"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", refuse)
        remove_folder(tmp_path / "x")
        remove_leftovers(tmp_path)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".x.")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == []


def test_replacing_and_removing(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", _fill("old"))
    write_folder(tmp_path / "x", _fill("new"))
    assert _visible(tmp_path) == {"x": {"a new", "b new"}}
    (tmp_path / ".y.1234.tmp").write_text("a file")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["x"]
    remove_folder(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_a_leftover_that_is_gone_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / ".x.1234.tmp"]))
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == []


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    for name in (".x", "x.tmp", ".lock"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".lock", ".x", "x.tmp"]


def test_all_that_is_written_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, their folder, then the name; at last the folder that has the name."""
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        done.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.split(".")[-1]))
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    write_folder(tmp_path / "x", _fill("new"))
    assert sorted(done[:2]) == [("fsync", "a"), ("fsync", "b")]
    assert done[2:] == [("fsync", "tmp"), ("rename", "x"), ("fsync", tmp_path.name)]


NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=2
    component name=affine type=AffineComponent input-dim=2 output-dim=3
    component-node name=affine component=affine input=input
    output-node name=output input=affine
    """
)


def _save_model(folder: Path) -> None:
    NNET.save(folder / "model.raw")


def _save(checkpoints: Checkpoints, step: int) -> Path:
    return checkpoints.save(step, {"position": [step]}, {"trainer": take_apart({"x": torch.tensor(step)})}, _save_model)


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


@pytest.mark.parametrize(
    "facts",
    [
        "[]",
        "1e999",
        '{"format": 1, "step": 10, "files": []}',
        '{"format": 1, "step": 10, "files": {"model.raw": 3}}',
        '{"format": 1, "step": 10, "files": {"model.raw": [3]}}',
        '{"format": 1, "step": 10, "files": {"\\u0000": [3, 4]}}',
        '{"format": 1, "step": 1e999, "files": {}}',
        '{"format": 1, "step": null, "files": {}}',
        '{"format": 1, "step": 11, "files": {}}',
        '{"format": 1}',
        '{"format": ' + "9" * 5000 + "}",
        "[" * 100_000,
        "\udcff",
    ],
    ids=lambda facts: facts[:60].encode("ascii", "replace").decode(),
)
def test_facts_of_another_form_are_damage(
    checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture, facts: str
) -> None:
    _save(checkpoints, 5)
    (_save(checkpoints, 10) / "run.json").write_bytes(facts.encode("utf-8", "surrogateescape"))
    with caplog.at_level(logging.WARNING, "nnet3"):
        latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 5
    assert "passed over" in caplog.text


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


class _Replayed(ProcessGroup):
    """Processes one after the other: what the first one tells and the others send is remembered."""

    def __init__(self, rank: int, size: int, told: list[Any]):
        super().__init__(rank, size)
        self._told, self._next = told, 0
        self.sent: list[Any] = []

    def tell(self, value: Any) -> Any:
        if self.is_first:
            self._told.append(value)
            return value
        self._next += 1
        return self._told[self._next - 1]

    def gather(self, value: Any) -> list[Any]:
        self.sent.append(value)
        return [value] if self.is_first else []


def _state(rank: int) -> dict[str, Any]:
    return {"same": torch.arange(1000.0), "own": torch.tensor([float(rank)]), "position": rank, "more": [1] * rank}


def _joined(size: int) -> States:
    told: list[Any] = []
    groups = [_Replayed(rank, size, told) for rank in range(size)]
    for rank, group in enumerate(groups):
        join_states(group, _state(rank))
    return {f"rank-{rank}": group.sent[0] for rank, group in enumerate(groups)}


def _saved(tmp_path: Path, states: States) -> Checkpoint:
    checkpoints = Checkpoints(tmp_path / "checkpoints", 1)
    checkpoints.prepare()
    checkpoints.save(1, {}, states, _save_model)
    latest = checkpoints.latest()
    assert latest is not None
    return latest


def test_each_gets_its_own(tmp_path: Path) -> None:
    states = _joined(3)
    assert [len(tensors) for _, tensors in states.values()] == [2, 1, 1]
    checkpoint = _saved(tmp_path, states)
    told: list[Any] = []
    for rank in range(3):
        assert same(own_state(_Replayed(rank, 3, told), checkpoint), _state(rank))


def test_a_process_that_was_not_there_takes_the_first_ones(tmp_path: Path) -> None:
    checkpoint = _saved(tmp_path, join_states(ProcessGroup(), _state(0)))
    told: list[Any] = []
    for rank in range(2):
        assert same(own_state(_Replayed(rank, 2, told), checkpoint), _state(0))
