"""Checkpoints: folders with a model and everything else for going on with equal bits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nnet3.base.kaldi_io.files import reason_of
from nnet3.base.text import read_json
from nnet3.errors import ModelFormatError, Nnet3Error, shown
from nnet3.training.runs.packing import Tensors, load_parts, put_together, save_parts, take_apart
from nnet3.training.runs.process_group import ProcessGroup

_TEMPORARY = ".tmp"
_LOG = logging.getLogger("nnet3")
_FACTS = "run.json"
_DIGITS = 9
_FORMAT = 1
_FIRST = "rank-0"
#: File names without their endings -> trees and tensors, as `take_apart` gives them.
States = dict[str, tuple[str, Tensors]]


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Lets `fill` write files into a new folder beside `target`, then renames the folder to `target` in one step.

    Every file is on the disk before the folder has its name. An older folder `target` is replaced. An interruption
    leaves the old or the new state, and at most a folder with a name known to `remove_leftovers`.
    """
    temporary = _beside(target)
    temporary.mkdir()
    try:
        fill(temporary)
        for path in temporary.iterdir():
            _synchronize(path)
        _synchronize(temporary)
        if target.exists():
            os.rename(target, _beside(target))
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _synchronize(target.parent)


def remove_folder(path: Path) -> None:
    """Removes a folder: the name goes first, so that nobody takes a half-removed folder for a whole one."""
    doomed = _beside(path)
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(parent: Path) -> None:
    """Removes what interrupted writes and removals have left in a folder."""
    for path in parent.iterdir():
        if path.name.startswith(".") and path.name.endswith(_TEMPORARY):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint. `facts` are JSON values; states are read when asked for."""

    path: Path
    step: int
    facts: dict[str, Any]

    def has(self, name: str) -> bool:
        """Returns true if the checkpoint has a state of this name."""
        return f"{name}.safetensors" in self.facts["files"]

    def parts(self, name: str) -> tuple[str, Tensors]:
        """Returns a state, as `take_apart` gave it."""
        return load_parts(self.path / f"{name}.safetensors")


class Checkpoints:
    """The checkpoints of a run, in a folder with a folder per checkpoint, named by the number of minibatches done."""

    def __init__(self, folder: Path, keep: int):
        self.folder, self.keep = folder, keep

    def prepare(self) -> None:
        """Makes the folder and removes leftovers of interrupted writes."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)
        except OSError as error:
            raise Nnet3Error(f"{self.folder}: checkpoints cannot be written here: {error.strerror}") from None

    def latest(self) -> Checkpoint | None:
        """Returns the newest whole checkpoint, or None. Damaged checkpoints are passed over with a warning."""
        paths = self._paths()
        for path in reversed(paths):
            try:
                return _read(path)
            except ModelFormatError as error:
                _LOG.warning("%s: the checkpoint is passed over", error)
        if paths:
            raise Nnet3Error(f"{self.folder}: all {len(paths)} checkpoints are damaged: remove them to begin again")
        return None

    def save(
        self, step: int, facts: Mapping[str, Any], states: Mapping[str, Any], save_model: Callable[[Path], None]
    ) -> Path:
        """Writes one checkpoint, then removes old checkpoints. `save_model` writes the model's own file into a folder.

        Raises Nnet3Error, with older checkpoints left unchanged, if writing fails.
        """
        target = self.folder / f"{step:0{_DIGITS}d}"

        def fill(folder: Path) -> None:
            save_model(folder)
            for name, (tree, tensors) in states.items():
                save_parts(tree, tensors, folder / f"{name}.safetensors")
            checks = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(folder.iterdir())}
            content = {"format": _FORMAT, "step": step, **facts, "files": checks}
            (folder / _FACTS).write_text(json.dumps(content, indent=1) + "\n")

        before = self._paths()
        try:
            write_folder(target, fill)
        except (OSError, Nnet3Error) as error:
            kept = f"the last good checkpoint is {before[-1]}" if before else "there is no earlier checkpoint"
            raise Nnet3Error(
                f"{target}: this checkpoint cannot be written: {reason_of(error)}; {kept}: when this is put right, "
                "go on with --resume"
            ) from None
        for path in self._paths()[: -self.keep]:
            remove_folder(path)
        return target

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if p.name.isdecimal() and len(p.name) == _DIGITS)


def _read(path: Path) -> Checkpoint:
    """Checks that all files are as written. Raises ModelFormatError."""
    try:
        facts = read_json((path / _FACTS).read_bytes())
        if facts["format"] != _FORMAT:
            raise ModelFormatError(f"expected format {_FORMAT}, got {shown(facts['format'])}", str(path))
        if facts["step"] != int(path.name):
            raise ValueError(f"it says that it is of step {shown(facts['step'])}")
        for name, (size, checksum) in facts["files"].items():
            file = path / name
            if file.stat().st_size != size or _checksum(file) != checksum:
                raise ModelFormatError("this file is not as it was written", str(file))
        return Checkpoint(path, int(path.name), facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFormatError(f"this checkpoint is damaged: {error}", str(path)) from None


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 22):
            value = zlib.crc32(chunk, value)
    return value


def join_states(group: ProcessGroup, own: Any) -> States:
    """Returns the states of all processes, in the first process; nothing in other processes. Called by all processes.

    The first process's state is whole; a later process's state has only the differences from the first.
    """
    tree, tensors = take_apart(own)
    if group.size == 1:
        return {_FIRST: (tree, tensors)}
    of_first = group.tell({name: _digest(tensor) for name, tensor in tensors.items()} if group.is_first else None)
    different = {name: tensor for name, tensor in tensors.items() if of_first.get(name) != _digest(tensor)}
    gathered = group.gather((tree, tensors if group.is_first else different))
    return {f"rank-{rank}": state for rank, state in enumerate(gathered)}


def own_state(group: ProcessGroup, checkpoint: Checkpoint) -> Any:
    """Returns the state given by this process, or the first process's state if this process gave none.

    Raises ModelFormatError for a damaged state.

    The first process reads for all, since the checkpoint's files may be out of sight of other processes.
    """
    tree, tensors = group.tell(checkpoint.parts(_FIRST) if group.is_first else None)
    for rank in range(1, group.size):
        name = f"rank-{rank}"
        other = group.tell(checkpoint.parts(name) if group.is_first and checkpoint.has(name) else None)
        if rank == group.rank and other is not None:
            tree, tensors = other[0], {**tensors, **other[1]}
    with naming_damage(checkpoint):
        return put_together(tree, tensors)


@contextlib.contextmanager
def naming_damage(checkpoint: Checkpoint) -> Iterator[None]:
    """Lets what a state of other values than were written raises become a ModelFormatError about the checkpoint."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        where = str(checkpoint.path)
        raise ModelFormatError(f"this checkpoint is damaged: {error}: remove its folder", where) from None


def _digest(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    contents = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(tensor.dtype), tuple(tensor.shape), hashlib.sha256(contents).digest()
