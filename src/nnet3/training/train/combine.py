"""Averages the last models of a run, over as many of them as are best on held-out data (docs/training.md)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.training.train.evaluation import Evaluator
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import Objective

_LOG = logging.getLogger("nnet3.train")


def combine(
    models: Sequence[Callable[[], Nnet]],
    minibatches: Sequence[Minibatch],
    objective: Callable[[Nnet], Objective] | None = None,
    *,
    statistics_objective: Callable[[Nnet], Objective] | None = None,
    batchnorm_test_mode: bool = False,
    dropout_test_mode: bool = True,
    max_objective_evaluations: int = 30,
    say: Callable[[str], None] = _LOG.info,
) -> Nnet:
    """Returns the best of the averages of the first n models, for n = 1, 2, ... (give the last model first).

    `models` are functions that load them: only two are held at a time, besides the best average. `objective` makes the
    objective of a network; auxiliary terms count. An average that is not finite is never the best. The test modes are
    for the evaluations alone: the result has the modes of the first model. Statistics of batch-norm are computed anew
    on the minibatches, for the outputs that `statistics_objective` looks at (by default those of `objective`). Raises
    TrainingError without models or minibatches, or if no average has a finite objective.
    """
    if not models or not minibatches:
        raise TrainingError(f"{len(models)} models and {len(minibatches)} examples: combining needs some of both")
    if max_objective_evaluations < 1:
        raise TrainingError(f"max_objective_evaluations must be > 0, got {max_objective_evaluations}")
    interval = math.ceil(len(models) / max_objective_evaluations)
    mean, best, best_count, best_value = models[0]().copy(), None, 0, -math.inf
    for count, load in enumerate(models, start=1):
        if count > 1:
            mean.scale_((count - 1) / count)
            try:
                mean.add_(1 / count, load())
            except Nnet3Error as error:
                raise TrainingError(f"model {count} of {len(models)}: {error}") from error
        if (count - 1) % interval != 0 and count != len(models):
            continue
        tested = with_modes(mean, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)
        value = _objective(tested, minibatches, objective)
        if count == 1:
            say(f"objective function using the last model is {value:g}")
        else:
            say(f"Combining last {count} models, objective function is {value:g}")
        if value > best_value:
            best, best_count, best_value = mean.copy(), count, value
    if best is None:
        raise TrainingError("no average of the models has a finite objective: is one of them damaged?")
    if any(component.has_running_statistics for component in best.components.values()):
        recompute_statistics(best, minibatches, statistics_objective or objective)
    say(f"Using the model averaged over last {best_count} models, objective function is {best_value:g}")
    return best


def recompute_statistics(
    nnet: Nnet, minibatches: Sequence[Minibatch], objective: Callable[[Nnet], Objective] | None = None
) -> None:
    """Replaces the stored statistics by the statistics of the given minibatches, in the network's own modes.

    Dropout draws equal masks in every call. Batch-norm in test mode keeps its statistics.
    """
    nnet.zero_stats()
    nnet.seed_random(0)
    evaluator = Evaluator(nnet, objective(nnet) if objective else None, accuracy=False, store_stats=True)
    evaluator.add_all(minibatches)


def _objective(nnet: Nnet, minibatches: Sequence[Minibatch], objective: Callable[[Nnet], Objective] | None) -> float:
    evaluator = Evaluator(nnet, objective(nnet) if objective else None, accuracy=False)
    evaluator.add_all(minibatches)
    return evaluator.average if math.isfinite(evaluator.average) else -math.inf
