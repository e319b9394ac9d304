"""Compares two networks of a run: how far each component has moved, and the move's effect on the objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnet3.errors import TrainingError
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.training.train.compute_prob import column_lines, report_lines
from nnet3.training.train.evaluation import Evaluator
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import Objective, total_stats


def parameter_differences(old: Nnet, new: Nnet) -> tuple[dict[str, float], dict[str, float]]:
    """Returns, by component, the Euclidean norm of the change, and that divided by the norm of the old parameters."""
    difference = old.copy()
    difference.add_(-1.0, new)
    norms, sizes = parameter_norms(difference), parameter_norms(old)
    return norms, {name: _ratio(norm, sizes[name]) for name, norm in norms.items()}


def parameter_norms(nnet: Nnet) -> dict[str, float]:
    """Returns, by component, the Euclidean norm of the parameters."""
    return {name: math.sqrt(square) for name, square in nnet.squared_norms().items()}


def objective_changes(
    old: Nnet,
    new: Nnet,
    minibatches: Sequence[Minibatch],
    objective: Callable[[Nnet], Objective] | None = None,
    *,
    num_segments: int = 1,
    batchnorm_test_mode: bool = True,
    dropout_test_mode: bool = True,
    accuracy: bool = False,
    accuracy_by_column: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, float]:
    """Returns, by component, how much its change has changed the objective per unit of weight, to first order.

    The gradient is taken in the middle of each of `num_segments` parts of the straight line from old to new; `say` is
    told of the objective there and, with `accuracy`, of how often the outputs are right, `accuracy_by_column` also by
    the column that would be. Raises TrainingError without minibatches.
    """
    if not minibatches:
        raise TrainingError("there are no examples to show the progress on")
    changes = dict.fromkeys(old.squared_norms(), 0.0)
    difference = new.copy()
    difference.add_(-1.0, old)
    for segment in range(num_segments):
        middle = (segment + 0.5) / num_segments
        between = new.copy()
        between.scale_(middle)
        between.add_(1.0 - middle, old)
        tested = with_modes(between, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)
        gradient = tested.gradient_copy()
        evaluator = Evaluator(tested, objective(tested) if objective else None, accuracy=accuracy, gradient=gradient)
        evaluator.add_all(minibatches)
        for line in [*report_lines(old, evaluator.stats), *(column_lines(evaluator) if accuracy_by_column else ())]:
            say(line)
        total = total_stats(evaluator.stats.values())
        say(f"At position {middle:g}, objf per frame is {evaluator.stats.get('output', total).average:g}")
        for name in changes:
            updatable = gradient.components[name].updatable
            assert updatable is not None
            changes[name] += updatable.dot(difference.components[name]) / (total.weight * num_segments)
    return changes


def by_component(values: dict[str, float]) -> str:
    """Returns a number for each updatable component, printed as Kaldi does."""
    return f"[ {''.join(f'{name}:{value:g} ' for name, value in values.items())}]"


def _ratio(norm: float, size: float) -> float:
    return norm / size if size else (math.nan if norm == 0 else math.inf)
