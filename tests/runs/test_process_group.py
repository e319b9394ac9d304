"""Processes of a run: what they send each other, over a network that this process plays; the names of torchrun."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from nnet3.errors import LostError, Nnet3Error, TrainingError
from nnet3.training.runs import process_group as module
from nnet3.training.runs.process_group import ProcessGroup, joined_processes
from tests.runs.thread_group import in_threads


class _Network:
    """Plays two other processes, which give 10 and 100 times the same; notes the groups that are used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.reduced: list[tuple[str, tuple[int, ...], Any]] = []
        self.groups: list[Any] = []  # of what is gathered and told
        monkeypatch.setattr(dist, "all_reduce", self.all_reduce)
        monkeypatch.setattr(dist, "gather_object", self.gather_object)
        monkeypatch.setattr(dist, "broadcast_object_list", self.broadcast_object_list)

    def all_reduce(self, tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None) -> None:
        self.reduced.append((str(tensor.dtype), tuple(tensor.shape), group))
        tensor.mul_(100 if op == dist.ReduceOp.MAX else 111)

    def gather_object(self, value: Any, values: list[Any] | None, group: Any = None) -> None:
        self.groups.append(group)
        if values is not None:
            values[:] = [value, 10 * value, 100 * value]

    def broadcast_object_list(self, values: list[Any], group: Any = None) -> None:
        self.groups.append(group)
        values[0] = values[0] or "of the first"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> _Network:
    return _Network(monkeypatch)


def test_alone_nothing_is_sent(network: _Network) -> None:
    group, tensor = ProcessGroup(), torch.ones(2)
    group.sum_([tensor])
    assert tensor.tolist() == [1, 1]
    assert (group.largest(3, -1), group.gather("a"), group.tell("a"), group.is_first) == ([3, -1], ["a"], "a", True)
    assert network.reduced == []


@pytest.mark.parametrize("size", [2, 3])
def test_sums_stay_where_they_are(network: _Network, size: int) -> None:
    """Tensors of one dtype travel together; those that are not contiguous are summed in place too."""
    whole = torch.arange(6.0).reshape(2, 3)
    tensors = [whole.T, torch.tensor(2.0), torch.ones(2, 2, dtype=torch.float64), torch.zeros(0)]
    expected = [111 * tensor for tensor in tensors]
    ProcessGroup(1, size).sum_(tensors)
    assert all(torch.equal(*pair) for pair in zip(tensors, expected, strict=True))
    assert torch.equal(whole, expected[0].T)
    assert network.reduced == [("torch.float32", (7,), None), ("torch.float64", (4,), None)]


def test_what_is_gathered_and_told(network: _Network) -> None:
    first, second = ProcessGroup(0, 3), ProcessGroup(1, 3)
    assert first.largest(3, 1, 0) == second.largest(3, 1, 0) == [300, 100, 0]
    assert first.gather(2) == [2, 20, 200]
    assert second.gather(2) == []
    assert (first.tell("own"), second.tell(None)) == ("own", "of the first")
    assert (first.is_first, second.is_first) == (True, False)


def test_numbers_of_gpus_go_over_the_gpus_and_all_others_beside_them(
    network: _Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GROUPS", ["beside"])
    ProcessGroup(0, 2).sum_([torch.ones(1), torch.ones(3, device="meta")])
    assert [(shape, group) for _, shape, group in network.reduced] == [((1,), "beside"), ((3,), None)]
    ProcessGroup(0, 2).largest(1)
    assert network.reduced[-1][2] == "beside"
    ProcessGroup(0, 2).gather(1)
    ProcessGroup(0, 2).tell(1)
    assert network.groups == ["beside", "beside"]


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    with joined_processes("cpu", 0.5, 1.0) as group:
        assert (group.rank, group.size, group.local_rank, group.was_restarted) == (0, 1, 0, False)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert not ProcessGroup().was_restarted
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert ProcessGroup().was_restarted


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_half_of_what_torchrun_sets(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv(missing)
    with (
        pytest.raises(Nnet3Error, match=f"WORLD_SIZE is 2, but {missing} is not set: start"),
        joined_processes("cpu", 0.5, 1.0),
    ):
        pass


class _Store:
    """Where processes meet; notes who waits for what."""

    def __init__(self, name: str, calls: list[Any]):
        self.name, self.calls = name, calls

    def __eq__(self, other: object) -> bool:
        return other == self.name

    def set(self, key: str, value: str) -> None:
        self.calls.append(("set", key))

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self.calls.append(("wait", keys, timeout))

    def set_timeout(self, timeout: timedelta) -> None:
        self.calls.append(("from now on", timeout))


class _Torchrun:
    """What `joined_processes` asks of torch, in order; it is process 5 of 6, and number 1 on its machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.calls: list[Any] = []
        for name, value in {"RANK": 5, "WORLD_SIZE": 6, "LOCAL_RANK": 1, "MASTER_ADDR": "a", "MASTER_PORT": 1}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: self.calls.append(("device", device)))
        monkeypatch.setattr(dist, "rendezvous", lambda url, timeout: iter([(f"store {url} {timeout}", 5, 6)]))
        monkeypatch.setattr(dist, "PrefixStore", lambda prefix, store: _Store(f"{prefix} of {store}", self.calls))
        monkeypatch.setattr(
            dist, "init_process_group", lambda backend, **options: self.calls.append((backend, options))
        )
        monkeypatch.setattr(dist, "new_group", lambda backend, timeout: f"group of {backend}, {timeout}")
        monkeypatch.setattr(dist, "get_rank", lambda: 5)
        monkeypatch.setattr(dist, "get_world_size", lambda: 6)
        monkeypatch.setattr(dist, "destroy_process_group", lambda: self.calls.append("destroyed"))


@pytest.mark.parametrize("restarts", [None, 2])
@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda", "nccl"), ("cuda:0", "nccl")])
def test_processes_of_torchrun_are_joined_and_parted(
    monkeypatch: pytest.MonkeyPatch, device: str, backend: str, restarts: int | None
) -> None:
    """GPUs sum over NCCL, all else goes over gloo; those that start or meet again find no old addresses."""
    torchrun = _Torchrun(monkeypatch)
    monkeypatch.setattr(module, "_MEETINGS", itertools.count(7))
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    if restarts is not None:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))
    meeting, wait, is_cuda = timedelta(seconds=2.5), timedelta(seconds=7.5), device != "cpu"
    with contextlib.suppress(KeyError), joined_processes(device, 2.5, 7.5) as group:
        assert (group.rank, group.size, group.local_rank, group.is_first) == (5, 6, 1, False)
        assert module._control_group() == (f"group of gloo, {wait}" if is_cuda else None)
        store = f"start-{restarts or 0}-7 of store env:// {meeting}"
        met = [("set", "begun-5"), ("wait", [f"begun-{rank}" for rank in range(6)], meeting), ("from now on", wait)]
        joined = (backend, {"store": store, "rank": 5, "world_size": 6, "timeout": wait})
        assert torchrun.calls == [("device", 1)] * is_cuda + [*met, joined]
        raise KeyError
    assert torchrun.calls[-1] == "destroyed"
    assert module._control_group() is None


def test_the_number_on_a_machine_is_0_if_torchrun_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    _Torchrun(monkeypatch)
    monkeypatch.delenv("LOCAL_RANK")
    with joined_processes("cpu", 0.5, 1.0) as group:
        assert group.local_rank == 0


def _ends(work: Callable[[ProcessGroup], Any]) -> list[Any]:
    return in_threads(2, work)


def test_calls_that_are_out_of_step_are_said_in_all_processes() -> None:
    def sums(group: ProcessGroup) -> None:
        group.sum_([torch.ones(2) if group.rank == 0 else torch.ones(2, 3)])

    def other(group: ProcessGroup) -> None:
        group.largest(1) if group.rank == 0 else group.tell(2)

    for work, first, second in (
        (sums, r"sum of torch.float32 \(2,\)", r"sum of torch.float32 \(2, 3\)"),
        (other, "largest of 1 numbers", "telling of an object"),
    ):
        ends = _ends(work)
        assert len({str(end) for end in ends}) == 1
        name = f"test_process_group.{work.__name__}:"
        wanted = f"the processes are out of step: process 0: {first} in {name}.*; process 1: {second} in {name}"
        assert re.match(wanted, str(ends[0])), ends[0]


def test_a_process_that_loses_the_others_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any, **__: Any) -> None:
        raise RuntimeError("[pair.cc:537] Connection closed by peer")

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    for name in ("all_reduce", "gather_object", "broadcast_object_list"):
        monkeypatch.setattr(dist, name, closed)
    group = ProcessGroup(1, 3)
    for call in (lambda: group.sum_([torch.ones(1)]), lambda: group.largest(1), lambda: group.gather(1)):
        with pytest.raises(
            LostError, match=r"^process 1 of 3 has lost the others: .* --resume .*resume=True.* goes on .* itself$"
        ):
            call()
    monkeypatch.setattr(dist, "all_reduce", full)
    with pytest.raises(RuntimeError, match="out of memory"):
        group.largest(1)


def test_processes_that_do_not_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    _Torchrun(monkeypatch)

    def late(*_: Any, **__: Any) -> None:
        raise dist.DistStoreError("wait timeout after 7500ms")

    wanted = r"^process 5 of 6 has not found the others: .* within 7\.5 s \(\[distributed\] meeting-timeout\)"
    monkeypatch.setattr(dist, "init_process_group", late)
    with pytest.raises(TrainingError, match=wanted), joined_processes("cpu", 7.5, 1800.0):
        pass
    monkeypatch.setattr(_Store, "wait", late)
    with pytest.raises(TrainingError, match=wanted), joined_processes("cpu", 7.5, 1800.0):
        pass


def test_torchrun_is_told_why_a_process_ends_but_not_of_what_follows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _Torchrun(monkeypatch)
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    for error in (LostError("lost"), KeyError("no mistake of a user")):
        with pytest.raises(type(error)), joined_processes("cpu", 0.5, 1.0):
            raise error
        assert not path.exists()
    with pytest.raises(TrainingError), joined_processes("cpu", 0.5, 1.0):
        raise TrainingError("the disk is full")
    failure = ProcessFailure(1, 2, 1, str(path))
    assert failure.message == "the disk is full"
    assert failure.timestamp > 1e9
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "none" / "error.json"))
    with pytest.raises(TrainingError, match="full"), joined_processes("cpu", 0.5, 1.0):
        raise TrainingError("the disk is full")
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE")
    with pytest.raises(TrainingError, match="full"), joined_processes("cpu", 0.5, 1.0):
        raise TrainingError("the disk is full")


@pytest.mark.parametrize("checks", [False, True])
def test_processes_are_checked_if_that_is_said(monkeypatch: pytest.MonkeyPatch, checks: bool) -> None:
    _Torchrun(monkeypatch)
    with joined_processes("cpu", 0.5, 1.0, checks=checks) as group:
        assert group.checks == checks
