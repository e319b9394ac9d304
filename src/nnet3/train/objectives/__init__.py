"""Objectives: what is to be maximised, one a file; `docs/training.md` tells how to write another."""

from nnet3.train.objectives.accuracy import count_correct
from nnet3.train.objectives.by_node import ObjectiveByNode
from nnet3.train.objectives.linear import LinearObjective
from nnet3.train.objectives.protocol import Objective, ObjectiveStats, OutputResult
from nnet3.train.objectives.quadratic import QuadraticObjective
from nnet3.train.objectives.torch_loss import TorchLoss

__all__ = [
    "LinearObjective",
    "Objective",
    "ObjectiveByNode",
    "ObjectiveStats",
    "OutputResult",
    "QuadraticObjective",
    "TorchLoss",
    "count_correct",
]
