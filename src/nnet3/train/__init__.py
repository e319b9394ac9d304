"""Training: minibatches, objectives, the trainer."""

from nnet3.train.evaluate import Evaluator, evaluate
from nnet3.train.learning_rate import exponential_rate
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput, Target
from nnet3.train.objectives import Objective, ObjectiveStats, OutputResult, TorchLoss
from nnet3.train.options import TrainerOptions
from nnet3.train.trainer import StepResult, Trainer

__all__ = [
    "Evaluator",
    "MatrixTarget",
    "Minibatch",
    "NetworkInput",
    "Objective",
    "ObjectiveStats",
    "OutputResult",
    "StepResult",
    "Target",
    "TorchLoss",
    "Trainer",
    "TrainerOptions",
    "evaluate",
    "exponential_rate",
]
