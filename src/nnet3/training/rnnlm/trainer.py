"""RnnlmTrainer: the package's trainer, for networks over words and their embedding (docs/rnnlm.md)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.options.rnnlm import EmbeddingOptions, RnnlmObjectiveOptions, RnnlmStepOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.examples.c_random import CRandom
from nnet3.training.rnnlm.compiler_draws import CompilerDraws
from nnet3.training.rnnlm.embedding_in_training import EmbeddingInTraining
from nnet3.training.rnnlm.example import RnnlmExample
from nnet3.training.rnnlm.log import EXACT, RnnlmLog, steps_per_minibatch
from nnet3.training.rnnlm.objective import RnnlmObjective, RnnlmTarget
from nnet3.training.train.minibatch import Minibatch, NetworkInput
from nnet3.training.train.nnet_in_training import NnetInTraining
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.running_state import Before, KeptTensor, estimate_tensors, load_estimate
from nnet3.training.train.trainable import Restorable, Trainable, UnusableError
from nnet3.training.train.trainer import MinibatchTrainer, StepResult
from nnet3.training.train.update import Update

_LOG = logging.getLogger("nnet3.train")

_ESTIMATE = "embedding.estimate"


def minibatch_of(target: RnnlmTarget) -> Minibatch:
    """Returns a network's minibatch: the embeddings of the words that are read, and the words to be said."""
    take_deriv = None if target.embedding_deriv is None else target.take_input_deriv
    given = NetworkInput("input", target.indexes, target.embedding[target.input_words], take_deriv)
    return Minibatch([given], [target])


def check_dims(nnet: Nnet, embedding: Tensor) -> None:
    """Raises TrainingError unless the network goes from `input` to `output` in the dimension of the embedding."""
    dim = embedding.shape[1]
    if nnet.input_dims != {"input": dim} or nnet.output_dims != {"output": dim}:
        raise TrainingError(
            f"the network goes from {nnet.input_dims} to {nnet.output_dims}, and the embedding has dimension {dim}: "
            "'input' and 'output' must have the same"
        )


class _BeforeBoth:
    """The state of network, embedding and random numbers before a minibatch."""

    def __init__(self, network: Before, embedding: EmbeddingInTraining, draws: CompilerDraws) -> None:
        self._network, self._embedding, self._draws = network, embedding, draws
        self._random, self._seen = draws.random.state(), set(draws.seen)
        self._estimate, self._kept = embedding.estimate.state(), list[KeptTensor]()
        self._counts = embedding.num_updates, embedding.num_shortened

    def keep_parameters(self) -> None:
        self._network.keep_parameters()
        embedding = self._embedding
        if embedding.options is not None and not self._kept:
            self._kept.append(KeptTensor(embedding.matrix, embedding.changing_rows))
            if embedding.momentum is not None:
                self._kept.append(KeptTensor(embedding.momentum))

    def restore(self) -> None:
        self._network.restore()
        self._embedding.estimate.load_state(self._estimate)
        self._embedding.num_updates, self._embedding.num_shortened = self._counts
        for kept in self._kept:
            kept.restore()
        self._draws.random.set_state(self._random)
        self._draws.seen = self._seen


class RnnlmInTraining(Trainable[RnnlmExample]):
    """Network and embedding in training. The step of the embedding follows the step of the network.

    All components draw single numbers from one generator, `draws.random`, in the order of Kaldi's program. With a
    `step_seed` each gradient begins with a seed.
    """

    def __init__(
        self, nnet: Nnet, embedding: EmbeddingInTraining, options: TrainerOptions, objective: RnnlmObjective
    ) -> None:
        self.embedding = embedding
        random = CRandom(options.seed)
        random.draw()  # the phase of backstitch
        self.draws = CompilerDraws(nnet, random)
        self.step_seed: int | None = None
        self._network = NnetInTraining(nnet, options, objective, None, None, None, stats_in_delta=True, scalars=random)
        self._target: RnnlmTarget | None = None

    def key(self, minibatch: RnnlmExample) -> str:
        return ""

    def set_learning_rate(self, rate: float) -> None:
        self._network.set_learning_rate(rate)

    def before(self) -> Restorable:
        return _BeforeBoth(self._network.before(), self.embedding, self.draws)

    def begin(self, minibatch: RnnlmExample) -> int:
        self._target = self.embedding.target(minibatch)
        return self._network.begin(minibatch_of(self._target))

    def add_gradient(self, minibatch: RnnlmExample, seed: int) -> dict[str, ObjectiveStats]:
        target = self._target
        assert target is not None, "begin comes first"
        if self.step_seed is not None:
            self.draws.random.seed(self.step_seed)
        self.draws.compile(minibatch.num_chunks, minibatch.chunk_length)
        before = target.exact
        stats = self._network.add_gradient(minibatch_of(target), seed)
        return stats | {EXACT: ObjectiveStats(target.exact - before)}

    def add_penalties(self, scale: float) -> None:
        self._network.add_penalties(scale)

    def update(self, max_param_change: float, *, limit: float, scale: float) -> Update:
        update = self._network.update(max_param_change, limit=limit, scale=scale)
        if update.not_finite is None and self.embedding.options is not None:
            assert self._target is not None
            taken = self.embedding.step(self._target, back=scale < 0, forward=limit > 1)  # of backstitch
            if not math.isfinite(taken.length):
                raise UnusableError("the derivative by the embedding is not finite")
            update = replace(update, line_behind=taken.line)
        return update

    def scale_delta(self, scale: float) -> None:
        self._network.scale_delta(scale)

    def freeze_natural_gradient(self, frozen: bool) -> None:
        self._network.freeze_natural_gradient(frozen)

    def scale_statistics(self, scale: float) -> None:
        """Statistics stay as they are, as in Kaldi's training of RNNLMs."""

    def constrain(self, seed: int) -> None:
        """No matrix is kept orthonormal, as in Kaldi's training of RNNLMs."""

    # ---- continuing ----

    def state(self) -> dict[str, Tensor]:
        more = estimate_tensors(_ESTIMATE, self.embedding.estimate)
        if self.embedding.momentum is not None:
            more["embedding.momentum"] = self.embedding.momentum.clone()
        more["draws.random"] = torch.tensor(self.draws.random.state(), dtype=torch.int64)
        more["draws.seen"] = torch.tensor(sorted(self.draws.seen), dtype=torch.int64).view(-1, 2)
        return self._network.state() | more

    def load_state(self, state: dict[str, Tensor]) -> None:
        own = ("embedding.", "draws.")
        self._network.load_state({name: value for name, value in state.items() if not name.startswith(own)})
        self.draws.random.set_state(state["draws.random"].tolist())
        self.draws.seen = {(num_sequences, num_times) for num_sequences, num_times in state["draws.seen"].tolist()}
        load_estimate(_ESTIMATE, self.embedding.estimate, state)
        if self.embedding.momentum is not None:
            self.embedding.momentum.copy_(state["embedding.momentum"])

    def contents(self) -> dict[str, Any]:
        return self._network.contents() | {"embedding": self.embedding.matrix.clone()}

    def load_contents(self, contents: dict[str, Any]) -> None:
        self._network.load_contents({name: value for name, value in contents.items() if name != "embedding"})
        self.embedding.matrix.copy_(contents["embedding"])


class RnnlmTrainer(MinibatchTrainer[RnnlmExample]):
    """Trains a network and its embedding in place, as Kaldi's rnnlm-train does.

        trainer = RnnlmTrainer(nnet, embedding, features)
        for example in examples:
            trainer.train_minibatch(example)

    `embedding` is a tensor of words, or with `features` (words, features) of features; it changes in place.
    `embedding_options` None: it stays.
    """

    model: RnnlmInTraining

    def __init__(
        self,
        nnet: Nnet,
        embedding: Tensor,
        features: SparseMatrix | None = None,
        options: RnnlmStepOptions | None = None,
        embedding_options: EmbeddingOptions | None = None,
        objective_options: RnnlmObjectiveOptions | None = None,
        *,
        say: Callable[[str], None] = _LOG.info,
    ) -> None:
        trainer_options = (options or RnnlmStepOptions()).trainer_options()
        check_dims(nnet, embedding)
        both = EmbeddingInTraining(embedding, embedding_options, features)
        objective = RnnlmObjective(objective_options or RnnlmObjectiveOptions())
        super().__init__(RnnlmInTraining(nnet, both, trainer_options, objective), trainer_options, say=say)
        self.backstitch_phase -= 1  # minibatches count from 1 here
        log = RnnlmLog(trainer_options.print_interval, say)
        log.steps_per_minibatch = steps_per_minibatch(trainer_options)
        self.log = log

    def _backstitch_steps(
        self, minibatch: RnnlmExample, number: int, num_sequences: int, before: Restorable
    ) -> StepResult:
        """Takes both steps with equal random numbers."""
        self.model.step_seed = self.backstitch_phase + number + 2
        try:
            return super()._backstitch_steps(minibatch, number, num_sequences, before)
        finally:
            self.model.step_seed = None
