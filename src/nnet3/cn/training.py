"""Training: minibatch gradient descent (1.1, 1.2) by the trainer that all networks have, or by torch optimizers.

`train` puts a run together: `NetworkInTraining` makes the steps, `NetworkTrainingRun` reports and keeps the results.
Everything else is shared with networks of components: steps in `nnet3.train`; epochs, checkpoints, logs and processes
in `nnet3.training.runs`.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.base.options.run import DistributedSection, OutputSection
from nnet3.cn.network import Network
from nnet3.cn.network_in_training import CRITERION, Batch, NetworkInTraining, found_metrics
from nnet3.cn.network_trainer import NetworkTrainer
from nnet3.cn.network_training_run import Batches, BatchSource, History, NetworkTrainingRun
from nnet3.cn.node import Node
from nnet3.cn.not_finite import NotFiniteError
from nnet3.cn.options_by_name import OptionsByName
from nnet3.errors import TrainingError, check_kind
from nnet3.training.runs.beginning import check_same_everywhere, check_same_run, environment, locked, prepare_folder
from nnet3.training.runs.checkpoints import Checkpoint, Checkpoints
from nnet3.training.runs.display import Display
from nnet3.training.runs.packing import check_can_save
from nnet3.training.runs.parallel import SharedSteps
from nnet3.training.runs.process_group import joined_processes
from nnet3.training.runs.reports import Reports, Words
from nnet3.training.runs.snapshots import Snapshots
from nnet3.training.runs.start_and_end import begin_run, checkpoint_to_go_on_from, recording_errors
from nnet3.training.runs.stop import StopRequest
from nnet3.training.runs.training_run import LoopSettings, Progress
from nnet3.training.train.schedules import exponential_rate

Rate: TypeAlias = float | tuple[float, float] | Callable[[float], float]
_PLAIN = NetworkTrainingOptions()
_PLAIN_BY_NAME = OptionsByName(_PLAIN.of_all, {})


def sgd_step(network: Network, batch: Batch, learning_rate: float) -> float:
    """Subtracts learning_rate times the gradient of the criterion's mean over the minibatch's samples (1.1, 1.2).

    Terms without samples, such as regularization, are not divided. Returns the mean criterion from before the step.
    Raises TrainingError for a criterion or gradient that is not finite, and then changes nothing.
    """
    check_kind(network, Network, "what is trained", "a network")
    model = NetworkInTraining(network, _PLAIN, _PLAIN_BY_NAME)
    result = NetworkTrainer(model, _PLAIN).train_minibatch(batch, _checked_rate(learning_rate))
    return result.stats[CRITERION].average


def train(
    network: Network,
    minibatches: Batches,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    learning_rate: Rate = 0.1,
    epochs: int = 1,
    report: Callable[[int, float], None] | None = None,
    metrics: Iterable[Node | str] | Mapping[str, Node | str] = (),
    validation: Batches | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **options: Any,
) -> History:
    """Trains for `epochs` passes over the minibatches; returns the criterion (1.2) of each epoch, a mean over samples.

    Without an `optimizer` training is gradient descent. An optimizer of `network.tensors().values()` gets gradients per
    sample (see `Network.backward`); LBFGS may ask for gradients several times.

    `minibatches`: a list, a function that begins anew for each epoch, or a reader such as `cn.Minibatches`.
    `learning_rate`: a number; two numbers, the rate then falls from the first to the second in equal ratios; or a
    function of the finished share of training, 0 to 1 (if `minibatches` is a function, minibatches are counted
    first). An optimizer has rates of its own, unchanged unless `learning_rate` changes. `report(epoch, criterion)` is
    called after each epoch.

    `metrics`: nodes of the network (1 x 1), or names of nodes; the means of metrics over samples are taken beside the
    criterion. `validation`: held-out minibatches for criterion and metrics after each epoch, in test mode. `options`:
    see `NetworkTrainingOptions`. `parameters`: options of single parameters, by name or pattern such as "lstm.*":
    {"E": {"learning_rate_factor": 0.1}}.

    `folder`: the place of checkpoints, the log, curves and the trained network (`final.cn`); with `resume` training
    goes on from the last checkpoint in the folder, to the same bits. Processes started by torchrun share out the
    sequences of every minibatch; together the processes do the work of one.

    Raises TrainingError for an optimizer of other tensors, for a criterion or gradient that is not finite, and for no
    minibatches; Nnet3Error for a folder that cannot be written, or whose run cannot be gone on with.
    """
    _check_arguments(network, epochs, report, folder, resume)
    rate_at, settings = _schedule(learning_rate), NetworkTrainingOptions.named(**options)
    by_name = OptionsByName(settings.of_all, parameters or {})
    by_name.check(list(network.tensors()))
    source = BatchSource(minibatches, validation, by_number=folder is not None)
    is_scheduled = not isinstance(learning_rate, numbers.Real)
    if is_scheduled:
        source.count()
    if settings.patience and validation is None:
        raise TrainingError("patience needs held-out minibatches: give validation=")
    watched, steering = found_metrics(network, metrics), _steering(settings, epochs, learning_rate, optimizer, by_name)
    distributed = DistributedSection()
    with joined_processes(str(network.device), distributed.meeting_timeout, distributed.timeout) as group:
        model = NetworkInTraining(network, settings, by_name, watched, group if group.size > 1 else None)
        trainer = NetworkTrainer(model, settings, optimizer)
        run = NetworkTrainingRun(
            loop=_loop_settings(epochs, settings, source),
            group=group,
            source=source,
            parallel=SharedSteps(trainer),
            checkpoints=None,
            snapshots=Snapshots(Path(), 0, 1.0),
            reports=Reports(OutputSection(), 0, Display(is_first=False), False),
            stop=StopRequest(),
            facts={"settings": steering, "data": source.identity(), "environment": environment(group.size)},
            progress=Progress(),
            trainer=trainer,
            rate_at=rate_at,
            is_scheduled=is_scheduled,
            report=report,
        )
        run.facts["settings"] |= {"network": network.structure_digest(), "learns": list(network.tensors())}
        if group.size > 1:
            check_same_everywhere(group, {**run.facts["settings"], **run.facts["data"], "parameters": model.digest()})
        if folder is None:
            _train(run)
        else:
            _train_in_folder(run, Path(folder), settings, resume)
    return run.history


def _check_arguments(
    network: Network,
    epochs: int,
    report: Callable[[int, float], None] | None,
    folder: str | os.PathLike[str] | None,
    resume: bool,
) -> None:
    check_kind(network, Network, "what is trained", "a network")
    check_kind(epochs, int, "epochs", "an integer")
    if epochs < 0:
        raise TrainingError(f"epochs must be at least 0, got {epochs}")
    if report is not None and not callable(report):
        raise TrainingError(f"report must be a function of an epoch's number and its criterion, got {report!r}")
    check_kind(resume, bool, "resume", "True or False")
    if folder is not None:
        check_is_path(folder, "a run's folder")
    elif resume:
        raise TrainingError("resume goes on with the run in a folder: give folder= too")


def _loop_settings(epochs: int, settings: NetworkTrainingOptions, source: BatchSource) -> LoopSettings:
    return LoopSettings(
        epochs=epochs,
        max_skipped=settings.max_skipped,
        print_every=settings.print_every,
        validate_every=settings.validate_every,
        checkpoint_every=settings.checkpoint_every,
        patience=settings.patience,
        only_whole_epochs=not source.goes_on,
    )


def _train(run: NetworkTrainingRun) -> bool:
    """Returns False if a signal has asked to stop."""
    try:
        return run.train()
    except NotFiniteError as error:
        progress = run.progress
        where = f"epoch {progress.epoch + 1}, after {progress.whole_epoch.weight:g} samples"
        raise TrainingError(f"{where}: {error}") from None


def _train_in_folder(run: NetworkTrainingRun, folder: Path, settings: NetworkTrainingOptions, resume: bool) -> None:
    check_can_save()
    group = run.group
    output = OutputSection(
        folder=str(folder), print_every=settings.print_every, curves=settings.curves, tensorboard=settings.tensorboard
    )
    with contextlib.ExitStack() as opened:
        opened.enter_context(run.stop.listening())
        if group.is_first:
            prepare_folder(folder)
            opened.enter_context(locked(folder))
            run.warn_of_what_is_not_saved()
        run.checkpoints = Checkpoints(folder / "checkpoints", settings.keep)
        checkpoint = checkpoint_to_go_on_from(run.checkpoints, group, resume or group.was_restarted, "resume=True")
        if checkpoint is not None:
            check_same_run(str(checkpoint.path), checkpoint.facts, run.facts, allow_changes=None)
        run.reports = opened.enter_context(_reports(run, output, checkpoint))
        names = {"processes": group.size}
        begin_run(run, checkpoint, names, sum(tensor.numel() for tensor in run.model.network.tensors().values()))
        with recording_errors(run):
            if _train(run):
                run.save_final(folder)
        run.reports.draw(at_once=True)
    if run.stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if run.stopped_by:
        raise SystemExit(128 + run.stopped_by)


@contextlib.contextmanager
def _reports(run: NetworkTrainingRun, output: OutputSection, checkpoint: Checkpoint | None) -> Iterator[Reports]:
    named = {name: name for name in (CRITERION, *run.model.metrics)}
    words = Words(CRITERION, "samples", "{}", least_others=1, curves=named)
    is_first, first_step = run.group.is_first, 0 if checkpoint is None else checkpoint.step
    with contextlib.closing(Reports(output, first_step, Display(is_first=is_first), is_first, words)) as reports:
        yield reports


def _steering(
    settings: NetworkTrainingOptions,
    epochs: int,
    learning_rate: Rate,
    optimizer: torch.optim.Optimizer | None,
    by_name: OptionsByName,
) -> dict[str, Any]:
    """Returns all that the parameters depend on, as JSON values by name."""
    found = {name: value for name, value in settings.values().items() if settings.steers(name)}
    found |= {f"{pattern}.{name}": value for pattern, own in by_name.by_pattern.items() for name, value in own.items()}
    if not isinstance(learning_rate, numbers.Real):  # else more epochs go on with those that there were
        found["epochs"] = epochs
    found["optimizer"] = None if optimizer is None else type(optimizer).__name__
    if isinstance(learning_rate, tuple):
        found["learning_rate"] = [float(rate) for rate in learning_rate]
    else:
        found["learning_rate"] = "a function" if callable(learning_rate) else float(learning_rate)
    return found


def _schedule(rate: Rate) -> Callable[[float], float]:
    """Returns the learning rate as a function of the share of training that is over."""
    if callable(rate):
        return lambda done: _checked_rate(rate(done))
    if isinstance(rate, tuple):
        if len(rate) != 2:
            raise TrainingError(f"a learning rate that falls is two numbers, the first and the last one, got {rate}")
        first, last = (_checked_rate(each) for each in rate)
        return lambda done: exponential_rate(first, last, done)
    fixed = _checked_rate(rate)
    return lambda done: fixed


def _checked_rate(rate: float) -> float:
    check_kind(rate, numbers.Real, "a learning rate", "a number")
    if not 0 <= rate < math.inf:
        raise TrainingError(f"a learning rate must be a finite number >= 0, got {rate}")
    return float(rate)
