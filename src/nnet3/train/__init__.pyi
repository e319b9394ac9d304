# The public names of nnet3.train, and where each lives.
from .evaluation import Evaluator as Evaluator, evaluate as evaluate
from .minibatch import (
    MatrixTarget as MatrixTarget,
    Minibatch as Minibatch,
    NetworkInput as NetworkInput,
    Target as Target,
)
from .objectives import (
    Objective as Objective,
    ObjectiveStats as ObjectiveStats,
    OutputResult as OutputResult,
    TorchLoss as TorchLoss,
)
from .schedules import exponential_rate as exponential_rate
from .trainer import StepResult as StepResult, Trainer as Trainer, TrainerOptions as TrainerOptions
