"""EmbeddingInTraining: the embedding of an RNNLM, and its step for a minibatch (facts: rescoring 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.options.rnnlm import EmbeddingOptions
from nnet3.errors import TrainingError
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.training.rnnlm.example import RnnlmExample
from nnet3.training.rnnlm.log import steps_per_minibatch
from nnet3.training.rnnlm.objective import RnnlmTarget
from nnet3.training.rnnlm.word_features import as_tensor


@dataclass(frozen=True)
class EmbeddingUpdate:
    """The outcome of a step: `factor` is below 1 where max-change shortened the step."""

    factor: float
    length: float  # of the whole step
    limit: float  # max-change

    @property
    def line(self) -> str:
        """Kaldi's line about a shortened step, or nothing."""
        if self.factor >= 1.0:
            return ""
        return (
            f"Applying max-change with scale {self.factor:g} since param-change={self.length:g} > "
            f" --embedding.max-param-change={self.limit:g}"
        )


class EmbeddingInTraining:
    """A word embedding (words, dim), or with `features` (words, features) a feature embedding (features, dim).

    `options` None: the embedding is not trained. With sampling, a minibatch concerns active words alone, read or
    sampled; a target names words by position among the active words.
    """

    def __init__(self, matrix: Tensor, options: EmbeddingOptions | None, features: SparseMatrix | None = None) -> None:
        if features is not None and features.cols != len(matrix):
            raise TrainingError(f"the word features have {features.cols} columns, the embedding {len(matrix)} rows")
        self.matrix, self.options = matrix, options
        self.features = None if features is None else as_tensor(features, matrix)
        self.num_words = len(matrix) if features is None else features.rows
        self.initial = matrix.clone() if options is not None else matrix
        self.momentum = torch.zeros_like(matrix) if options is not None and options.momentum > 0 else None
        self.num_updates = self.num_shortened = 0
        given = options or EmbeddingOptions()
        self.estimate = OnlineNaturalGradient(
            rank=given.natural_gradient_rank,
            update_period=given.natural_gradient_update_period,
            num_minibatches_history=given.natural_gradient_num_minibatches_history,
            alpha=given.natural_gradient_alpha,
        )

    # ---- words of a minibatch ----

    def target(self, example: RnnlmExample) -> RnnlmTarget:
        """Returns the words of a minibatch with their embedding. Raises TrainingError for another number of words."""
        if example.vocab_size != self.num_words:
            raise TrainingError(
                f"the minibatch is of {example.vocab_size} words, the embedding of {self.num_words}: is it made with "
                "another --vocab-size?"
            )
        device = self.matrix.device
        input_words = torch.from_numpy(example.input_words.astype(np.int64)).to(device)
        samples = torch.from_numpy(example.sampled_words.astype(np.int64)).to(device)
        rows = None
        if example.is_sampled:
            rows, positions = torch.cat([input_words, samples]).unique(return_inverse=True)
            input_words, samples = positions.split([len(input_words), len(samples)])
            samples = samples.view(example.num_groups, example.num_samples)
        target = RnnlmTarget(example, self._of_words(rows), input_words, samples)
        if self.options is not None:
            target.embedding_deriv = torch.zeros_like(target.embedding)
        self.active = rows
        return target

    def _of_words(self, rows: Tensor | None) -> Tensor:
        """Returns the embedding of all words, or of some; without features and choice the matrix itself."""
        if self.features is None:
            return self.matrix if rows is None else self.matrix[rows]
        features = self.features if rows is None else self.features.index_select(0, rows)
        return torch.sparse.mm(features, self.matrix)

    @property
    def changing_rows(self) -> Tensor | None:
        """The rows of the matrix that the next step can change, (rows,); None: any row."""
        return self.active if self.features is None and self.momentum is None else None

    # ---- the step ----

    def step(self, target: RnnlmTarget, *, back: bool = False, forward: bool = False) -> EmbeddingUpdate:
        """Adds the step of a minibatch to the matrix; of backstitch the first step goes `back`, the second `forward`.

        Without features the target's derivative becomes the preconditioned one, and is what the second step of
        backstitch adds to, as in Kaldi. A step that is not finite is not taken, and its length says so. The estimate is
        in float64: of a narrow embedding it has nearly all directions, and the rounding of float32 would decide
        about the weakest of them, which made 3 % of the change after four minibatches.
        """
        options = self.options
        assert options is not None
        assert target.embedding_deriv is not None
        alpha = options.backstitch_training_scale
        deriv = self._of_matrix(target.embedding_deriv)
        rows = self.active if self.features is None else None
        if options.l2_regularize > 0:
            own = self.matrix if rows is None else self.matrix[rows]
            deriv -= 2 * options.l2_regularize / (1 + alpha if forward else 1) * own
        scale = options.learning_rate
        if options.use_natural_gradient:
            self.estimate.frozen = back
            preconditioned, factor = self.estimate.precondition(deriv.double())
            deriv.copy_(preconditioned)
            scale *= factor
        length = scale * math.sqrt(float(deriv.double().square().sum()))
        limit = options.max_param_change
        shorter = limit / length if limit > 0 and length > limit else 1.0
        if not math.isfinite(length):
            return EmbeddingUpdate(1.0, length, limit)
        self.num_updates += (rows is None) + forward if back or forward else 1  # Kaldi's count of minibatches
        self.num_shortened += shorter < 1.0
        self._add(deriv, rows, scale * shorter * (-alpha if back else 1 + alpha if forward else 1.0))
        return EmbeddingUpdate(shorter, length, limit)

    def _of_matrix(self, by_words: Tensor) -> Tensor:
        """Turns the derivative by word embeddings into the derivative by the matrix, or by its active rows."""
        if self.features is None:
            return by_words
        features = self.features if self.active is None else self.features.index_select(0, self.active)
        return torch.sparse.mm(features.t(), by_words)

    def _add(self, deriv: Tensor, rows: Tensor | None, scale: float) -> None:
        assert self.options is not None
        into, momentum = self.matrix, self.options.momentum
        if self.momentum is not None:
            into, scale = self.momentum, scale * (1 - momentum)
        if rows is None:
            into.add_(deriv, alpha=scale)
        else:
            into.index_add_(0, rows, deriv, alpha=scale)
        if self.momentum is not None:
            self.matrix += self.momentum
            self.momentum *= momentum

    def lines(self) -> list[str]:
        """Returns the lines of Kaldi's log about all steps."""
        steps = self.num_updates * steps_per_minibatch(self.options or EmbeddingOptions())
        share = 100 * self.num_shortened / max(steps, 1)
        norms = [float(matrix.double().norm()) for matrix in (self.matrix - self.initial, self.initial, self.matrix)]
        return [
            f"Processed a total of {self.num_updates} minibatches.max-change was enforced {share:g} % of the time.",
            f"Norm of embedding-matrix differences is {norms[0]:g} (initial norm of matrix was {norms[1]:g}; now it is "
            f"{norms[2]:g})",
            f"Relative change in embedding matrix is {norms[0] / norms[1] if norms[1] else 0:g}",
        ]
