"""Begins and ends every run: finds the place to go on, writes the first lines of the log, reports errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from nnet3.errors import Nnet3Error
from nnet3.training.runs.checkpoints import Checkpoint, Checkpoints
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.training_run import TrainingRun

_LOG = logging.getLogger("nnet3")


def checkpoint_to_go_on_from(
    checkpoints: Checkpoints, group: ProcessGroup, resume: bool, option: str = "--resume"
) -> Checkpoint | None:
    """Returns the latest checkpoint to all processes if the run is to `resume`; None without a checkpoint.

    Raises Nnet3Error if a checkpoint exists and the run is not to `resume`; the message names the `option` to say so.
    """
    found = None
    if group.is_first:
        found = checkpoints.latest()
        if found is not None and not resume:
            raise Nnet3Error(
                f"{checkpoints.folder.parent}: there is a run in this folder, which has come to minibatch "
                f"{found.step}: say {option} to go on with it, or choose another folder"
            )
        if resume and found is None:
            _LOG.warning("%s: there is no checkpoint to go on from: the run begins", checkpoints.folder)
    result: Checkpoint | None = group.tell(found)
    return result


def begin_run(run: TrainingRun, checkpoint: Checkpoint | None, names: Mapping[str, Any], parameters: int) -> None:
    """Begins a run, or goes on from a checkpoint; logs the beginning with `names`, then all settings."""
    if run.group.is_first:
        if run.checkpoints is not None:
            run.checkpoints.prepare()
        run.snapshots.prepare()
    if checkpoint is None:
        run.reports.event("start", step=0, **names, parameters=parameters)
    else:
        run.restore(checkpoint)
        run.reports.event("resume", step=run.progress.step, checkpoint=str(checkpoint.path), **names)
    run.reports.record("settings", **{name: value for part in run.facts.values() for name, value in part.items()})
    if run.group.is_first:
        run.snapshots.remove_others(run.progress.snapshots)


@contextlib.contextmanager
def recording_errors(run: TrainingRun) -> Iterator[None]:
    """Lets the log of the run have the message of an error within it."""
    try:
        yield
    except Nnet3Error as error:
        with contextlib.suppress(Nnet3Error):
            run.reports.record("error", step=run.progress.step, message=str(error))
        raise
