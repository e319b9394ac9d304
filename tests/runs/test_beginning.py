"""What a run begins with: kinds of model files, devices of processes, patterns of dropout, folders."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

import nnet3
from nnet3.errors import ConfigError, Nnet3Error, TrainingError
from nnet3.training.runs import beginning, beginning as module
from nnet3.training.runs.beginning import (
    check_same_everywhere,
    check_same_run,
    choose_device,
    contents_digest,
    dropout_schedule,
    environment,
    load_start,
    locked,
    prepare_folder,
    take_threads,
)
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.settings import RunSettings
from nnet3.training.runs.settings_text import parse_toml
from tests.runs.task import Task
from tests.runs.thread_group import in_threads

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


def test_a_device_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device(_settings(), ProcessGroup()) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"run.toml:5:1: .* expected a device that is there, got 'cuda'"):
        choose_device(_settings("device = 'cuda'"), ProcessGroup())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank in range(2):
        assert choose_device(_settings("device = 'cuda'"), ProcessGroup(5, 8, rank)) == torch.device("cuda", rank)
    assert choose_device(_settings("device = 'cuda:1'"), ProcessGroup()) == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="expected one of 2 CUDA devices, got 'cuda:2'"):
        choose_device(_settings("device = 'cuda:2'"), ProcessGroup())
    with pytest.raises(ConfigError, match="expected one of 2 CUDA devices, got 'cuda:2'"):
        choose_device(_settings("device = 'cuda'"), ProcessGroup(2, 3, 2))


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
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as on a disk that is full
    try:
        with pytest.raises(Nnet3Error, match=r"b: the run's folder cannot be written: File too large"):
            prepare_folder(tmp_path / "a" / "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    assert os.listdir(tmp_path / "a" / "b") == []


@pytest.mark.parametrize(("wanted", "taken"), [(0, []), (1, [1]), (3, [3]), (4, [3]), (10_000, [3])])
def test_there_are_no_more_threads_than_processors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: int, taken: list[int]
) -> None:
    found: list[int] = []
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    for rank in range(2):
        take_threads(wanted, ProcessGroup(rank, 2))
    assert found == taken * 2
    assert caplog.messages == [f"[training] threads is {wanted}, but this machine has 3 processors: 3 are used"] * (
        wanted > 3
    )


FACTS: dict[str, dict[str, Any]] = {
    "settings": {"a": 1, "b": [1, 2], "none": None},
    "data": {"size": 10},
    "environment": {"processes": 2, "threads": 1, "torch": "2.0"},
}


def _changed(part: str, **values: Any) -> dict[str, dict[str, Any]]:
    return {**FACTS, part: {**FACTS[part], **values}}


def _check(now: dict[str, dict[str, Any]], allow_changes: bool = False) -> None:
    check_same_run("exp/5", FACTS, now, allow_changes)


def test_nothing_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    _check(FACTS)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (_changed("settings", a=2), "a: was 1, now 2"),
        (_changed("settings", b=[2, 1]), r"b: was \[1, 2\], now \[2, 1\]"),
        (_changed("settings", new="x"), 'new: was not there, now "x"'),
        (_changed("settings", new=None), "new: was not there, now null"),
        ({**FACTS, "settings": {"a": 1, "b": [1, 2]}}, "none: was null, now not there"),
        (_changed("data", size=9), "size: was 10, now 9"),
        (_changed("environment", processes=3), "number of processes: was 2, now 3"),
    ],
)
def test_what_is_refused_unless_it_is_allowed(
    now: dict[str, dict[str, Any]], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Nnet3Error, match=f"^exp/5: this run cannot go on as it began.*:\n  {message}\nchange it back"):
        _check(now)
    assert caplog.text == ""
    _check(now, allow_changes=True)
    assert "going on with what has changed" in caplog.text


def test_what_changes_only_the_last_bits_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _check(_changed("environment", threads=4, torch="2.1"))
    assert "threads: was 1, now 4: results will not be the same to the last bit" in caplog.text
    assert 'torch: was "2.0", now "2.1": results' in caplog.text


def test_many_changes_are_cut() -> None:
    with pytest.raises(Nnet3Error) as error:
        _check(_changed("settings", **{f"key-{number:02}": number for number in range(12)}))
    assert [line.split(":")[0] for line in str(error.value).splitlines()[1:-1]] == [f"  key-{n:02}" for n in range(10)]


def test_the_environment_is_processes_threads_and_torch() -> None:
    assert environment(3) == {"processes": 3, "threads": torch.get_num_threads(), "torch": torch.__version__}


def test_what_processes_begin_with_must_be_the_same() -> None:
    """Each one says so, and which process differs in what."""

    def begin(different: int) -> Any:
        def work(group: ProcessGroup) -> None:
            own = {"threads": 1, "size": 9 if group.rank == different else 10}
            check_same_everywhere(group, own)

        return work

    assert in_threads(3, begin(-1)) == [None, None, None]
    for different, others in ((0, "9 in process 0, 10 in process 1"), (2, "10 in process 0, 9 in process 2")):
        ends = in_threads(3, begin(different))
        assert [type(end) for end in ends] == [TrainingError] * 3
        assert {str(end) for end in ends} == {
            f"all processes must begin with the same settings, model and data, but size is {others}"
        }


def test_only_one_holds_it(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(Nnet3Error, match=rf"process {os.getpid()} on .* is training in this folder"),
        locked(tmp_path),
    ):
        pass
    (tmp_path / ".lock").write_text(300 * "x")  # a holder of old
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"


def test_a_holder_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with locked(tmp_path), pytest.raises(Nnet3Error, match="another process is training in this folder"):  # noqa: SIM117
        with locked(tmp_path):
            pass


def test_a_lock_that_is_a_name_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("all of it")
    (tmp_path / ".lock").symlink_to("thesis")
    with pytest.raises(Nnet3Error, match=r"\.lock: this is a symbolic link"), locked(tmp_path):
        pass
    (tmp_path / ".lock").unlink()
    os.link(tmp_path / "thesis", tmp_path / ".lock")
    with locked(tmp_path):
        pass
    assert (tmp_path / "thesis").read_text() == "all of it"


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(beginning.fcntl, "flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == ""  # nobody is named as the holder of a lock that there is not


def test_a_second_run_does_not_touch_the_first_one(task: Task) -> None:
    task.exp.mkdir()
    with locked(task.exp), pytest.raises(Nnet3Error, match="is training in this folder: wait until it has ended"):
        task.run(resume=True)
    assert os.listdir(task.exp) == [".lock"]
