"""Training: minibatches, objectives, the trainer."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnet3.options import TrainerOptions
    from nnet3.train.evaluation import Evaluator, evaluate
    from nnet3.train.learning_rate import exponential_rate
    from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput, Target
    from nnet3.train.objectives import Objective, ObjectiveStats, OutputResult, TorchLoss
    from nnet3.train.trainer import StepResult, Trainer

# Imported when first asked for: what is done with files of examples need not wait for PyTorch.
_FILE_OF = {
    "Evaluator": "nnet3.train.evaluation",
    "evaluate": "nnet3.train.evaluation",
    "exponential_rate": "nnet3.train.learning_rate",
    "MatrixTarget": "nnet3.train.minibatch",
    "Minibatch": "nnet3.train.minibatch",
    "NetworkInput": "nnet3.train.minibatch",
    "Target": "nnet3.train.minibatch",
    "Objective": "nnet3.train.objectives",
    "ObjectiveStats": "nnet3.train.objectives",
    "OutputResult": "nnet3.train.objectives",
    "TorchLoss": "nnet3.train.objectives",
    "TrainerOptions": "nnet3.options",
    "StepResult": "nnet3.train.trainer",
    "Trainer": "nnet3.train.trainer",
}

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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The public name, from the file where it lives."""
        if name not in _FILE_OF:
            raise AttributeError(f"module 'nnet3.train' has no attribute '{name}'")
        globals()[name] = value = getattr(importlib.import_module(_FILE_OF[name]), name)
        return value
