"""Training: minibatches, objectives, max-change, a small trainer."""

from nnet3.train.minibatch import Minibatch, NamedMatrix
from nnet3.train.objectives import ObjectiveStats, objective
from nnet3.train.trainer import Progress, Trainer, TrainerOptions

__all__ = ["Minibatch", "NamedMatrix", "ObjectiveStats", "Progress", "Trainer", "TrainerOptions", "objective"]
