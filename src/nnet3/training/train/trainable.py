"""Trainable: a model in training as the trainer sees it.

Networks of two kinds learn by one trainer: networks of components (`nnet_in_training`), and computational networks
(`nnet3.cn.network_in_training`). The trainer knows which step is taken when: momentum, backstitch, skipped minibatches,
the log. A model knows its parameters, how a minibatch gives a gradient, and how its delta, the next step, is added:

    begin          looks at the minibatch; counts its sequences
    add_gradient   delta += rate * gradient;  returns the objective's statistics
    add_penalties  delta -= rate * gradient of l2 and l1 terms
    update         model += scale * delta, within max-change
    scale_delta    delta *= momentum, or 0
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from torch import Tensor

from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.update import Update

M_contra = TypeVar("M_contra", contravariant=True)


class UnusableError(Exception):
    """Says that something in the minibatch is not finite, and what. Never leaves the trainer."""


class Restorable(Protocol):
    """A copy of the state before a minibatch, for a minibatch that turns out to be unusable."""

    def keep_parameters(self) -> None:
        """Copies the parameters too; called before each update."""

    def restore(self) -> None:
        """Puts the copied state back, to the bit."""


class Trainable(Protocol[M_contra]):
    """A model and its delta. Rates are those of something to be maximised, or the model turns signs itself."""

    def key(self, minibatch: M_contra) -> str:
        """Returns the name of a minibatch for messages, or an empty text."""

    def set_learning_rate(self, rate: float) -> None:
        """Sets the underlying rate of this and all later steps."""

    def before(self) -> Restorable:
        """Returns a copy of the state that a minibatch may change before the first update."""

    def begin(self, minibatch: M_contra) -> int:
        """Returns the number of sequences in all processes' parts of the minibatch.

        Raises UnusableError for data that are not finite, TrainingError for a minibatch that does not fit.
        """

    def add_gradient(self, minibatch: M_contra, seed: int) -> dict[str, ObjectiveStats]:
        """Adds the rate times the gradient to the delta; returns statistics by name. Raises UnusableError.

        All that is drawn at random is a function of `seed`.
        """

    def add_penalties(self, scale: float) -> None:
        """Adds the step that makes regularization terms, times `scale`, smaller."""

    def update(self, max_param_change: float, *, limit: float, scale: float) -> Update:
        """Adds `scale` times the delta to the model, within `limit` times what parts and the whole may change."""

    def scale_delta(self, scale: float) -> None:
        """Multiplies the delta by a number."""

    def freeze_natural_gradient(self, frozen: bool) -> None:
        """While frozen, estimates of natural gradient are used and do not change."""

    def scale_statistics(self, scale: float) -> None:
        """Multiplies the running statistics of batch-norm."""

    def constrain(self, seed: int) -> None:
        """Moves matrices that are to be orthonormal closer to orthonormality."""

    def state(self) -> dict[str, Tensor]:
        """Returns copies of all that the next step depends on, besides `contents`."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Goes on from a state with the names of this model's state; for other sizes raises TrainingError."""

    def contents(self) -> dict[str, Any]:
        """Returns copies of parameters and statistics, as a checkpoint keeps them."""

    def load_contents(self, contents: dict[str, Any]) -> None:
        """Goes back to earlier contents; parameters stay the same tensors. TrainingError for another network's."""
