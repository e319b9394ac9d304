# The public names of nnet3.train, and where each lives.
from .evaluation import Evaluator as Evaluator
from .evaluation import evaluate as evaluate
from .minibatch import MatrixTarget as MatrixTarget
from .minibatch import Minibatch as Minibatch
from .minibatch import NetworkInput as NetworkInput
from .minibatch import Target as Target
from .objectives import Objective as Objective
from .objectives import ObjectiveStats as ObjectiveStats
from .objectives import OutputResult as OutputResult
from .objectives import TorchLoss as TorchLoss
from .schedules import exponential_rate as exponential_rate
from .trainer import StepResult as StepResult
from .trainer import Trainer as Trainer
from .trainer import TrainerOptions as TrainerOptions
