"""Writes the final model of a run: an average of those kept, or the last one."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import Nnet3Error
from nnet3.nnet import AcousticModel, Nnet, device_of, load_nnet
from nnet3.runs.nnet_run import NnetRun
from nnet3.train.combine import combine
from nnet3.train.priors import mean_posterior


def finish_run(run: NnetRun) -> None:
    """Write `final.raw` or `final.mdl`. It depends on the last checkpoint and on files only, so that it can be repeated
    after a sudden end."""
    if not run.world.is_first:
        return
    final = _final_network(run)
    is_acoustic = isinstance(run.model, AcousticModel)
    path = Path(run.settings.output.folder) / ("final.mdl" if is_acoustic else "final.raw")
    model: Nnet | AcousticModel = final
    if isinstance(run.model, AcousticModel):
        priors = _adjusted_priors(run, final) if run.objectives.gives_posteriors else run.model.priors
        model = AcousticModel(run.model.transition_model, final, priors)
    try:
        model.save(path)
    except Nnet3Error as error:
        raise Nnet3Error(f"{error}; training is done and kept: when this is put right, say --resume") from None
    run.reports.event("final", step=run.progress.step, path=str(path))


def _adjusted_priors(run: NnetRun, final: Nnet) -> np.ndarray | Tensor:
    """Returns the mean posterior of examples of the first epoch, (pdfs,), or the old priors if they are to stay."""
    section = run.settings.priors
    if not section.adjust:
        return run.model.priors  # type: ignore[union-attr]
    placed = run.source.training(0, None)
    with contextlib.closing(placed):
        try:
            priors = mean_posterior(final, (each.minibatch for each in placed), section.examples)
        except Nnet3Error as error:
            raise Nnet3Error(
                f"priors: {error}; training is done and kept: when this is put right, say --resume; with adjust = "
                "false in [priors] the final model keeps those that it began with"
            ) from None
    run.reports.event("priors", step=run.progress.step, smallest=float(priors.min()), largest=float(priors.max()))
    return priors


def _final_network(run: NnetRun) -> Nnet:
    """Returns the best average of the last models on held-out examples; without these the network as it is."""
    minibatches = list(run.source.combination()) if run.progress.snapshots else []
    if not minibatches:
        return run.nnet
    models = [partial(_load, path, device_of(run.nnet)) for path in run.snapshots.newest_first(run.progress.snapshots)]
    return combine(
        models,
        minibatches,
        lambda _: run.objectives.compare,
        statistics_objective=lambda _: run.objectives.statistics,
        max_objective_evaluations=run.settings.combination.max_objective_evaluations,
        say=lambda line: run.reports.event("combine", step=run.progress.step, message=line),
    )


def _load(path: Path, device: torch.device) -> Nnet:
    return load_nnet(path).to(device=device)
