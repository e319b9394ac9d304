"""Trains a model by a settings file: puts the parts of a run together, and goes on where an earlier one ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.declaring import declared
from nnet3.base.options.training import StepOptions, TrainerOptions
from nnet3.errors import Nnet3Error
from nnet3.model.nnet import AcousticModel, Nnet, device_of, load_nnet, network_of
from nnet3.training.runs import lda
from nnet3.training.runs.averaged_models import AveragedModels, JobCounts
from nnet3.training.runs.beginning import (
    check_same_everywhere,
    check_same_run,
    choose_device,
    contents_digest,
    dropout_schedule,
    environment,
    load_start,
    run_folder,
    take_threads,
)
from nnet3.training.runs.checkpoints import Checkpoint, Checkpoints
from nnet3.training.runs.display import Display
from nnet3.training.runs.interfaces import Kinds, SettingError, Share
from nnet3.training.runs.nnet_training_run import NnetTrainingRun, loop_settings
from nnet3.training.runs.packing import check_can_save
from nnet3.training.runs.parallel import LimitedSteps, Parallel, TrainingRounds
from nnet3.training.runs.process_group import ProcessGroup, joined_processes
from nnet3.training.runs.reports import Reports
from nnet3.training.runs.settings import RunSettings
from nnet3.training.runs.snapshots import Snapshots
from nnet3.training.runs.start_and_end import begin_run, checkpoint_to_go_on_from, recording_errors
from nnet3.training.runs.stop import StopRequest
from nnet3.training.runs.training_run import Progress
from nnet3.training.train.combine import combine
from nnet3.training.train.objectives import Objective
from nnet3.training.train.priors import mean_posterior
from nnet3.training.train.trainer import Trainer

_NO_LIMIT = 2**31 - 1


def train_model(
    settings: RunSettings,
    kinds: Kinds,
    *,
    resume: bool = False,
    allow_changes: bool = False,
    display: Display | None = None,
    stop: StopRequest | None = None,
) -> int:
    """Runs to the end, or until a signal asks to stop: returns 0, or 128 plus the signal's number after saving all.

    `resume`: go on from the latest checkpoint, if any; the default after torchrun has restarted the processes.
    `allow_changes`: also with settings that lead to different parameters. `stop`: a listener to signals already at
    work. Raises Nnet3Error for a run that cannot go on; checkpoints stay unchanged.
    """
    check_can_save()
    stop, distributed = stop or StopRequest(), settings.distributed
    with (
        contextlib.ExitStack() as opened,
        stop.listening(),
        joined_processes(
            settings.training.device, distributed.meeting_timeout, distributed.timeout, checks=distributed.check
        ) as group,
    ):
        take_threads(settings.training.threads, group)
        device = choose_device(settings, group)
        folder = Path(settings.output.folder)
        if group.is_first:
            opened.enter_context(run_folder(folder))
        checkpoints = Checkpoints(folder / "checkpoints", settings.checkpoints.keep)
        checkpoint = checkpoint_to_go_on_from(checkpoints, group, resume or group.was_restarted)
        data_kind = kinds.data[settings.data_kind].kind()
        matrices = lda.estimated_matrices(settings, data_kind, group, goes_on=checkpoint is not None)
        model, nnet = _model(settings, device, matrices)
        with _naming_the_place(settings, "data"):
            source = data_kind.open(settings.data, nnet, _share(settings, group), settings.training.seed)
        with contextlib.closing(source):
            kind = kinds.objective[settings.objective_kind].kind()
            with _naming_the_place(settings, "objective"):
                objectives = kind.make(settings.objective, nnet)
            facts = {
                "settings": {
                    **settings.arithmetic(),
                    "model.contents": contents_digest(settings.model.file),
                    **lda.identity(matrices),
                    **kind.identity(settings.objective),
                },
                "data": source.identity(),
                "environment": environment(group.size),
            }
            check_same_everywhere(group, {**settings.all(), **facts["settings"], **facts["data"]})
            if checkpoint is not None:
                check_same_run(str(checkpoint.path), checkpoint.facts, facts, allow_changes)
            first_step = 0 if checkpoint is None else checkpoint.step
            shown = display or Display(is_first=group.is_first)
            parallel = _parallel(settings, nnet, objectives.train, group)
            dropout = dropout_schedule(settings, nnet)
            with contextlib.closing(Reports(settings.output, first_step, shown, group.is_first)) as reports:
                run = NnetTrainingRun(
                    loop=loop_settings(settings),
                    settings=settings,
                    group=group,
                    model=model,
                    source=source,
                    objectives=objectives,
                    parallel=parallel,
                    dropout=dropout,
                    checkpoints=checkpoints,
                    snapshots=Snapshots(folder / "models", settings.combination.models, settings.combination.part),
                    reports=reports,
                    stop=stop,
                    facts=facts,
                    progress=Progress(),
                )
                return _run(run, checkpoint, list(matrices))


def _run(run: NnetTrainingRun, checkpoint: Checkpoint | None, estimated: list[str]) -> int:
    names = {"model": run.settings.model.file, "processes": run.group.size}
    begin_run(run, checkpoint, names, run.nnet.num_parameters)
    for name in estimated if checkpoint is None else ():
        run.reports.event("lda", step=0, estimated=name)
    with recording_errors(run):
        if run.train():
            run.stop.at_once = True
            finish_run(run)
    run.reports.draw(at_once=True)
    return 128 + run.stopped_by if run.stopped_by else 0


def _model(
    settings: RunSettings, device: torch.device, matrices: Mapping[str, np.ndarray]
) -> tuple[Nnet | AcousticModel, Nnet]:
    model = load_start(settings, matrices)
    nnet = network_of(model)
    nnet.to(device=device)
    return model, nnet


def _parallel(settings: RunSettings, nnet: Nnet, objective: Objective, group: ProcessGroup) -> Parallel:
    training = settings.training
    steps = {item.name: getattr(training, item.name) for item in declared(StepOptions)}
    truncates = training.deriv_truncate_margin >= 0  # contexts are those of 'output', which not all networks have
    steps |= training.deriv_times_for(*(nnet.left_context, nnet.right_context) if truncates else (0, 0))
    steps["max_skipped"] = _NO_LIMIT  # the run counts them, also over resumptions
    options = TrainerOptions(**steps, seed=training.seed)
    rounds, jobs = _rounds(settings), _jobs(settings)
    if settings.distributed.mode == "averaging" and (group.size > 1 or jobs):
        return AveragedModels(nnet, options, objective, group, rounds, jobs)
    return LimitedSteps(Trainer(nnet, options, objective, reduction=group if group.size > 1 else None), rounds)


def _rounds(settings: RunSettings) -> TrainingRounds:
    return TrainingRounds(settings.distributed.round, settings.distributed.halve_first_round)


def _jobs(settings: RunSettings) -> JobCounts | None:
    distributed = settings.distributed
    return JobCounts(distributed.num_jobs_initial, distributed.num_jobs_final) if distributed.num_jobs_final else None


def _share(settings: RunSettings, group: ProcessGroup) -> Share:
    rounds, jobs = _rounds(settings), _jobs(settings)
    halved = rounds.first * (jobs.of_process(0.0, group.size) if jobs else 1) if rounds.halved else 0
    return Share(group.rank, group.size, halved)


@contextlib.contextmanager
def _naming_the_place(settings: RunSettings, section: str) -> Iterator[None]:
    """Makes errors of settings within it name the line of the file."""
    try:
        yield
    except SettingError as error:
        raise settings.text.error(section, error.key, error.message) from None


def finish_run(run: NnetTrainingRun) -> None:
    """Writes `final.raw` or `final.mdl`.

    The file depends on the last checkpoint and on files only, so that writing can be repeated after a sudden end.
    """
    if not run.group.is_first:
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


def _adjusted_priors(run: NnetTrainingRun, final: Nnet) -> np.ndarray | Tensor:
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


def _final_network(run: NnetTrainingRun) -> Nnet:
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
