"""Prepares a run: folder, model, device and dropout schedule; checks that a run may go on from a checkpoint."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nnet3.base.options.dropout_schedule import DropoutSchedule
from nnet3.base.options.run import parse_dropout
from nnet3.errors import ConfigError, ModelFormatError, Nnet3Error, TrainingError
from nnet3.model.nnet import AcousticModel, Nnet, load
from nnet3.model.structure.config_reader import read_config_file
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.settings import RunSettings

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger("nnet3")
_MODEL_BEGINS = (b"\0B", b"<Nnet3>", b"<TransitionModel>")
_MOST_SHOWN = 10
_LOCK = ".lock"


def config_text(settings: RunSettings) -> str | None:
    """Returns the config or xconfig to begin with, None for a model. Raises Nnet3Error naming the settings' key."""
    name = settings.model.file
    try:
        with open(name, "rb") as file:
            is_model = file.read(64).lstrip().startswith(_MODEL_BEGINS)
    except OSError as error:
        raise settings.text.error("model", "file", f"expected a file, got '{name}': {error.strerror}") from None
    if is_model:
        return None
    try:
        return read_config_file(name)
    except ConfigError as error:
        raise settings.text.error("model", "file", str(error)) from None


def load_start(settings: RunSettings, matrices: Mapping[str, np.ndarray] | None = None) -> Nnet | AcousticModel:
    """Returns the model in a file, or a new network from a config. Raises Nnet3Error naming the settings' key.

    `matrices`: matrices in place of files, by the names of the files in an xconfig.
    """
    name, seed, text = settings.model.file, settings.model.seed, config_text(settings)
    if text is None:
        return load(name)
    try:
        if matrices:
            return Nnet.from_xconfig(text, source=name, seed=seed, **matrices)
        return Nnet.from_config(text, source=name, seed=seed)
    except ConfigError as error:
        raise error if error.span is not None else settings.text.error("model", "file", str(error)) from None


def contents_digest(name: str) -> str:
    """Returns a digest of a file's contents."""
    digest = hashlib.blake2b(digest_size=8)
    with open(name, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()


def choose_device(settings: RunSettings, group: ProcessGroup) -> torch.device:
    """Returns the device of this process. Raises Nnet3Error for a missing device."""
    name = settings.training.device
    try:
        device = torch.device(name)
    except RuntimeError:
        raise settings.text.error("training", "device", f"expected cpu, cuda or cuda:N, got '{name}'") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise settings.text.error("training", "device", f"expected a device that is there, got '{name}'")
        if device.index is None:
            device = torch.device("cuda", group.local_rank)
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise settings.text.error(
                "training", "device", f"expected one of {torch.cuda.device_count()} CUDA devices, got '{device}'"
            )
    return device


def take_threads(wanted: int, group: ProcessGroup) -> None:
    """Takes `wanted` threads, 0 for PyTorch's choice, but no more than processors: more would only wait."""
    most = os.cpu_count() or 1
    if wanted > most and group.is_first:
        _LOG.warning("[training] threads is %d, but this machine has %d processors: %d are used", wanted, most, most)
    if wanted:
        torch.set_num_threads(min(wanted, most))


def dropout_schedule(settings: RunSettings, nnet: Nnet) -> DropoutSchedule:
    """Returns the schedule. Raises Nnet3Error for a pattern that fits no dropout component of the network."""
    schedule = parse_dropout(settings.training.dropout_schedule)
    names = [name for name, component in nnet.components.items() if component.dropout_proportion is not None]
    for pattern, _ in schedule.points:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise settings.text.error(
                "training",
                "dropout-schedule",
                f"expected patterns of the names of dropout components, got '{pattern}', which fits none of them",
                f"there are {', '.join(names)}" if names else "the network has no dropout component",
            )
    return schedule


def prepare_folder(folder: Path) -> None:
    """Makes the folder of the run. Raises Nnet3Error if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(b"x")
    except OSError as error:
        raise Nnet3Error(
            f"{folder}: the run's folder cannot be written: {error.strerror}: choose another one, or "
            "make room or give the right to write there"
        ) from None


def environment(world_size: int) -> dict[str, Any]:
    """Returns the facts that the last bits of results depend on."""
    return {"processes": world_size, "threads": torch.get_num_threads(), "torch": torch.__version__}


def check_same_run(path: str, before: Mapping[str, Any], now: Mapping[str, Any], allow_changes: bool | None) -> None:
    """Raises Nnet3Error if settings that parameters depend on have changed, unless changes are allowed.

    `before` and `now` hold `settings`, `data` and `environment` as JSON values. Changes in the environment only give a
    warning, except in the number of processes. `allow_changes` is None where the user has no such choice.
    """
    if not all(isinstance(before.get(part), dict) for part in now):
        raise ModelFormatError(f"its run.json is damaged: expected the sections {', '.join(now)}", path)
    changed = [
        f"{name}: was {was}, now {is_now}"
        for part in ("settings", "data")
        for name, was, is_now in _differences(before[part], now[part])
    ]
    for name, was, is_now in _differences(before["environment"], now["environment"]):
        if name == "processes":
            changed.append(f"number of processes: was {was}, now {is_now}")
        else:
            _LOG.warning("%s: was %s, now %s: results will not be the same to the last bit", name, was, is_now)
    if not changed:
        return
    shown = "\n  ".join(changed[:_MOST_SHOWN])
    if allow_changes:
        _LOG.warning("going on with what has changed since the checkpoint:\n  %s", shown)
        return
    other_way = "choose another folder" if allow_changes is None else "say --allow-changes to go on with it"
    raise Nnet3Error(
        f"{path}: this run cannot go on as it began, since something has changed:\n  {shown}\n"
        f"change it back, or {other_way}"
    )


def check_same_everywhere(group: ProcessGroup, own: Mapping[str, Any]) -> None:
    """Raises TrainingError in all processes unless all begin with equal facts: they would fall out of step."""
    complaint = None
    for rank, theirs in enumerate(group.gather(own)):
        for name, of_first, is_theirs in _differences(own, theirs):
            complaint = complaint or f"{name} is {of_first} in process 0, {is_theirs} in process {rank}"
    complaint = group.tell(complaint)
    if complaint is not None:
        raise TrainingError(f"all processes must begin with the same settings, model and data, but {complaint}")


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (name, _shown(before, name), _shown(now, name))
        for name in sorted({*before, *now})
        if before.get(name, None) != now.get(name, None) or (name in before) != (name in now)
    ]


def _shown(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name], ensure_ascii=False) if name in values else "not there"


@contextlib.contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Makes the folder of a run, and keeps other processes out of it; a new folder left empty goes again."""
    is_new = not folder.exists()
    prepare_folder(folder)
    with locked(folder):
        try:
            yield
        finally:
            if is_new and [each.name for each in folder.iterdir()] == [_LOCK]:
                (folder / _LOCK).unlink()
                folder.rmdir()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from locking the folder; the lock goes when this process ends in any way.

    Raises Nnet3Error if another process has the lock. File systems without locks are left alone.
    """
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Nnet3Error(f"{folder / _LOCK}: this is a symbolic link, which is not followed: remove it") from None
        raise
    try:
        _lock(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path, descriptor: int) -> None:
    if fcntl is None:
        _LOG.debug("%s cannot be locked: this system has no such locks", folder)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        raise Nnet3Error(
            f"{folder}: {holder} is training in this folder: wait until it has ended, stop it, or choose another folder"
        ) from None
    except OSError as error:
        _LOG.debug("%s cannot be locked: %s", folder, error.strerror)
        return
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        return  # a name of another file: nothing is written to it
    with contextlib.suppress(OSError):  # a full disk is found out elsewhere; the name of the holder is but a help
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
