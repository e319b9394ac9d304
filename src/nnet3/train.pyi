# The public names of nnet3.train, and where each lives.
from nnet3.base.options.training import TrainerOptions as TrainerOptions
from nnet3.training.train.evaluation import Evaluator as Evaluator, evaluate as evaluate
from nnet3.training.train.minibatch import (
    MatrixTarget as MatrixTarget,
    Minibatch as Minibatch,
    NetworkInput as NetworkInput,
    Target as Target,
)
from nnet3.training.train.objectives import (
    Objective as Objective,
    ObjectiveStats as ObjectiveStats,
    OutputResult as OutputResult,
    TorchLoss as TorchLoss,
)
from nnet3.training.train.schedules import exponential_rate as exponential_rate
from nnet3.training.train.step_result import StepResult as StepResult
from nnet3.training.train.trainer import Trainer as Trainer
