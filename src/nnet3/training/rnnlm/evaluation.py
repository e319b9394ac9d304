"""The objective of an RNNLM on minibatches, without training."""

from __future__ import annotations

import logging
from collections.abc import Callable

from torch import Tensor

from nnet3.base.options.rnnlm import RnnlmStepOptions
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.rnnlm.embedding_in_training import EmbeddingInTraining
from nnet3.training.rnnlm.example import RnnlmExample
from nnet3.training.rnnlm.log import EXACT, OUTPUT, RnnlmLog
from nnet3.training.rnnlm.objective import RnnlmObjective
from nnet3.training.rnnlm.trainer import check_dims, minibatch_of
from nnet3.training.train.evaluation import Evaluator
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult

_LOG = logging.getLogger("nnet3.train")


class RnnlmEvaluator:
    """Runs a network, modes unchanged, over minibatches with a word embedding (words, dim); sums the objective."""

    def __init__(self, nnet: Nnet, embedding: Tensor, *, say: Callable[[str], None] = _LOG.info) -> None:
        check_dims(nnet, embedding)
        self._evaluator = Evaluator(nnet, RnnlmObjective(), accuracy=False)
        self._embedding = EmbeddingInTraining(embedding, None)
        self.log = RnnlmLog(RnnlmStepOptions().print_interval, say)
        self._number = 0

    def add(self, example: RnnlmExample) -> None:
        """Adds a minibatch to the sums. Raises TrainingError for another number of words."""
        target, before = self._embedding.target(example), self._stats.numbers()
        self._evaluator.add(minibatch_of(target))
        added = [now - then for now, then in zip(self._stats.numbers(), before, strict=True)]
        result = StepResult({OUTPUT: ObjectiveStats(*added), EXACT: ObjectiveStats(target.exact)})
        self.log.add(self._number, result)
        self._number += 1

    @property
    def _stats(self) -> ObjectiveStats:
        return self._evaluator.stats.get(OUTPUT, ObjectiveStats())

    @property
    def average(self) -> float:
        """The objective per word. Raises TrainingError without any word."""
        if not self._stats.weight:
            raise TrainingError("there are no words to compute an objective on")
        return self._stats.average + self._stats.average_auxiliary
