"""Evaluates networks on held-out examples, and words the results as Kaldi's compute-prob does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from nnet3.errors import TrainingError
from nnet3.model.edits.collapse import collapse_model
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.training.examples.queues import in_order_of_hash
from nnet3.training.train.evaluation import Evaluator
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import Objective, ObjectiveStats, objective_name

T = TypeVar("T")


def evaluated(
    nnet: Nnet,
    minibatches: Iterable[Minibatch],
    objective: Objective | None = None,
    *,
    batchnorm_test_mode: bool = True,
    dropout_test_mode: bool = True,
    collapse: bool = True,
    accuracy: bool = True,
    gradient: bool = False,
) -> Evaluator:
    """Returns an evaluator that has seen all minibatches. The network stays as it is.

    `collapse`: first merge layers that are constant in test mode, which is faster. `gradient`: collect the objective's
    gradient, with the layers not merged. Raises TrainingError without data.
    """
    tested = with_modes(nnet, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)
    if collapse and not gradient:
        collapse_model(tested)
    collected = tested.gradient_copy() if gradient else None
    evaluator = Evaluator(tested, objective, accuracy=accuracy, gradient=collected).add_all(minibatches)
    if not evaluator.stats:
        raise TrainingError("there are no examples to compute an objective on")
    return evaluator


def as_logged(values: Mapping[str, T]) -> list[tuple[str, T]]:
    """Returns what output nodes have, in the order in which Kaldi's programs log it: that of a hash table."""
    return [(name, values[name]) for name in in_order_of_hash(values)]


def report_line(what: str, stats: ObjectiveStats) -> str:
    """Returns an objective in the words of Kaldi's log, with the auxiliary term of an objective that has one."""
    return f"Overall {what} is {stats.terms} per frame, over {stats.weight:g} frames."


def report_lines(nnet: Nnet, stats: dict[str, ObjectiveStats]) -> list[str]:
    """Returns the lines that Kaldi's program logs."""
    lines = []
    for name, own in as_logged(stats):
        what = "log-likelihood" if objective_name(nnet, name) == "linear" else "objective"
        lines.append(report_line(f"{what} for '{name}'", own))
    return lines + accuracy_lines(stats)


def accuracy_lines(stats: dict[str, ObjectiveStats]) -> list[str]:
    """Returns the lines about how often the largest outputs are right, for nodes where that was counted."""
    return [
        f"Overall accuracy for '{name}' is {own.accuracy:g} per frame, over {own.counted:g} frames."
        for name, own in as_logged(stats)
        if own.counted
    ]


def column_lines(evaluator: Evaluator) -> list[str]:
    """Returns the lines that Kaldi's program logs with --compute-per-dim-accuracy.

    A column that is the largest of no target has -1.
    """
    lines = []
    for name, (correct, counted) in as_logged(evaluator.correct_by_column):
        values = (correct / counted).masked_fill(counted == 0, -1.0)
        shown = " ".join(f"{value:g}" for value in values.tolist())
        lines.append(
            f"Overall per-dim accuracy vector for '{name}' is [ {shown} ] per frame, over {counted.sum():g} frames."
        )
    return lines


def gradient_lines(gradient: Nnet) -> list[str]:
    """Returns lines with the Euclidean norms of the components' gradients, and of the whole gradient."""
    squares = gradient.squared_norms()
    lines = [f"Norm of the gradient of '{name}' is {square**0.5:g}" for name, square in squares.items()]
    return [*lines, f"Norm of the gradient is {sum(squares.values()) ** 0.5:g}"]
