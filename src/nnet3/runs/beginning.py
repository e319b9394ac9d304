"""Prepares a run: its folder, its model, its device, its dropout schedule."""

from __future__ import annotations

import hashlib
import logging
import os
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from nnet3.errors import ConfigError, Nnet3Error
from nnet3.nnet import AcousticModel, Nnet, load
from nnet3.runs.sections import parse_dropout
from nnet3.runs.settings import RunSettings
from nnet3.runs.world import World
from nnet3.train.schedules import DropoutSchedule

_LOG = logging.getLogger("nnet3")
_MODEL_BEGINS = (b"\0B", b"<Nnet3>", b"<TransitionModel>")


def load_start(settings: RunSettings) -> Nnet | AcousticModel:
    """Returns the model in a file, or a new network from a config. Raises Nnet3Error naming the settings' key."""
    name, seed = settings.model.file, settings.model.seed
    try:
        with open(name, "rb") as file:
            is_model = file.read(64).lstrip().startswith(_MODEL_BEGINS)
    except OSError as error:
        raise settings.text.error("model", "file", f"expected a file, got '{name}': {error.strerror}") from None
    if is_model:
        return load(name)
    try:
        return Nnet.from_config_file(name, seed=seed)
    except ConfigError as error:
        raise error if error.span is not None else settings.text.error("model", "file", str(error)) from None


def contents_digest(name: str) -> str:
    """Returns a digest of a file's contents."""
    digest = hashlib.blake2b(digest_size=8)
    with open(name, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()


def choose_device(settings: RunSettings, world: World) -> torch.device:
    """Returns the device of this process. Raises Nnet3Error for one that is not there."""
    name = settings.training.device
    try:
        device = torch.device(name)
    except RuntimeError:
        raise settings.text.error("training", "device", f"expected cpu, cuda or cuda:N, got '{name}'") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise settings.text.error("training", "device", f"expected a device that is there, got '{name}'")
        if device.index is None:
            device = torch.device("cuda", world.local_rank)
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise settings.text.error(
                "training", "device", f"expected one of {torch.cuda.device_count()} CUDA devices, got '{device}'"
            )
    return device


def take_threads(wanted: int, world: World) -> None:
    """Use so many threads, or as PyTorch chooses if 0, but no more than there are processors: they would only wait."""
    most = os.cpu_count() or 1
    if wanted > most and world.is_first:
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
    """Make the folder of the run. Raises Nnet3Error if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise Nnet3Error(
            f"{folder}: the run's folder (output.folder) cannot be written: {error.strerror}: choose another one, or "
            "make room or give the right to write there"
        ) from None
