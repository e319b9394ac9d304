"""Checks that a run may go on from a checkpoint: its settings must lead to the same parameters."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import torch

from nnet3.errors import Nnet3Error, TrainingError
from nnet3.runs.world import World

_LOG = logging.getLogger("nnet3")
_MOST_SHOWN = 10


def environment(world_size: int) -> dict[str, Any]:
    """Returns the facts that the last bits of results depend on."""
    return {"processes": world_size, "threads": torch.get_num_threads(), "torch": torch.__version__}


def check_same_run(path: str, before: Mapping[str, Any], now: Mapping[str, Any], allow_changes: bool) -> None:
    """Raise Nnet3Error if settings have changed that the parameters depend on, unless that is allowed.

    Both hold `settings`, `data` and `environment` as JSON values. Changes in the environment only give a warning,
    except in the number of processes.
    """
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
    raise Nnet3Error(
        f"{path}: this run cannot go on as it began, since something has changed:\n  {shown}\n"
        "change it back, or say --allow-changes to go on with it"
    )


def check_same_everywhere(world: World, own: Mapping[str, Any]) -> None:
    """Raise TrainingError in all processes unless they begin with the same facts: they would fall out of step."""
    complaint = None
    for rank, theirs in enumerate(world.gather(own)):
        for name, of_first, is_theirs in _differences(own, theirs):
            complaint = complaint or f"{name} is {of_first} in process 0, {is_theirs} in process {rank}"
    complaint = world.tell(complaint)
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
