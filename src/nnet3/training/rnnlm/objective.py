"""The objective of RNNLMs: a lower bound of the log-probability that needs no sum over all words in its logarithm.

With scores l(i, v) = y_i e(v) of row i and word v, weights w_i, right words o_i and W = sum w_i (facts: rescoring 7):

    F = sum_i w_i l(i, o_i) + sum_i w_i (1 - sum_v q(l(i, v)) r(v))       q(l) = exp(l) if l < 0, else l + 1

over all words but 0 with r = 1, or over a sample with one over the probability of each word to be in it. The first sum
is the numerator's part, the second the denominator's. 1 - sum exp(l) <= -log sum exp(l), so F / W is at most the
log-probability per word, and equals it where probabilities sum to one. q grows slower than exp, for bad beginnings.

    dF/dl(i, v) = w_i ([v = o_i] - kappa q'(l) r(v))                      q'(l) = min(q(l), 1)

kappa is 1 unless the denominator's part per word is below the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import IndexTable
from nnet3.base.options.rnnlm import RnnlmObjectiveOptions
from nnet3.engine.ir.matrices import is_finite
from nnet3.errors import TrainingError
from nnet3.model.components.random_source import RandomSource
from nnet3.training.rnnlm.example import RnnlmExample
from nnet3.training.train.minibatch import Target
from nnet3.training.train.objectives import ObjectiveStats, OutputResult

_MOST_SCORE = 80.0  # in exact sums


@dataclass(eq=False)
class RnnlmTarget:
    """The words of a minibatch, and the embedding (words, dim), with a row for each word number of the example.

    `input_words`, `sampled_words`: words of the example as rows of the embedding. The derivative by the embedding is
    added to `embedding_deriv`, if given; the exact denominator's part is added to `exact`.
    """

    example: RnnlmExample
    embedding: Tensor
    input_words: Tensor  # (rows,)
    sampled_words: Tensor  # (groups, num_samples), empty without sampling
    embedding_deriv: Tensor | None = None
    exact: float = 0.0
    name: str = "output"
    indexes: IndexTable = field(init=False)

    def __post_init__(self) -> None:
        self.indexes = self.example.indexes

    @property
    def is_finite(self) -> bool:
        """True if neither embedding nor weights have a NaN or an infinity."""
        return is_finite(self.embedding) and bool(np.isfinite(self.example.output_weights).all())

    def take_input_deriv(self, deriv: Tensor) -> None:
        """Adds the derivative by the network's input (rows, dim) to the rows of the words that were read."""
        assert self.embedding_deriv is not None
        self.embedding_deriv.index_add_(0, self.input_words, deriv)


@dataclass(frozen=True)
class RnnlmObjective:
    """Objective of `RnnlmTarget`s: `objective` is the numerator's part, `auxiliary` the denominator's."""

    options: RnnlmObjectiveOptions = field(default_factory=RnnlmObjectiveOptions)

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        if not isinstance(target, RnnlmTarget):
            raise TrainingError(f"this objective is for words of RNNLMs, got a {type(target).__name__}")
        (y,) = outputs
        example = target.example
        weights = torch.from_numpy(example.output_weights).to(y)
        right = torch.from_numpy(example.output_words.astype(np.int64)).to(y.device)
        total = float(weights.double().sum())
        stats, deriv = ObjectiveStats(weight=total), torch.zeros_like(y) if with_derivs else None
        denominator = 0.0  # of the blocks so far, with sampling without W
        for block in self._blocks(target, len(y)):
            of_block = _Block(target, block, y, weights, right)
            numerator, parts = of_block.sums()
            running = denominator + np.cumsum(parts)
            denominator = float(running[-1])
            stats.objective += numerator
            if not example.is_sampled:
                target.exact += of_block.exact(clips=len(y) * len(target.embedding) < self.options.max_logprob_elements)
            if deriv is not None:
                deriv[block.rows] = of_block.derivs(self._factors(running, total))
        stats.auxiliary = denominator + (total if example.is_sampled else 0.0)
        return [OutputResult(target.name, stats, deriv)]

    def _factors(self, running: np.ndarray, total: float) -> np.ndarray:
        """Returns kappa for each part of the rows, by `running` sums of denominators and the `total` weight."""
        limit = self.options.den_term_limit
        if limit == 0 or total == 0 or not (np.isfinite(running).all() and math.isfinite(total)):
            return np.ones(len(running))
        average = running / total
        return np.where(average < limit, limit / np.minimum(average, limit), 1.0)

    def _blocks(self, target: RnnlmTarget, rows: int) -> Iterator[_Rows]:
        """Yields blocks of rows to compute at once: some groups with samples, or some rows with all words."""
        example, most = target.example, self.options.max_logprob_elements
        if example.is_sampled:
            rows_of_group = rows // example.num_groups
            at_once = max(most // (rows_of_group * example.num_samples), 1)
            for first in range(0, example.num_groups, at_once):
                end = min(first + at_once, example.num_groups)
                yield _Rows(slice(first * rows_of_group, end * rows_of_group), slice(first, end))
            return
        at_once = rows if rows * len(target.embedding) < most else max(most // len(target.embedding), 1)
        for first in range(0, rows, at_once):
            yield _Rows(slice(first, min(first + at_once, rows)), slice(0, 1))


@dataclass(frozen=True)
class _Rows:
    rows: slice
    groups: slice


class _Block:
    """Scores of some rows, (groups, rows of a group, words)."""

    def __init__(self, target: RnnlmTarget, block: _Rows, y: Tensor, weights: Tensor, right: Tensor) -> None:
        self._target = target
        self._sampled = target.example.is_sampled
        groups = block.groups.stop - block.groups.start
        self._y = y[block.rows].unflatten(0, (groups, -1))
        self._weights = weights[block.rows].unflatten(0, (groups, -1))
        self._right = right[block.rows].unflatten(0, (groups, -1))
        if self._sampled:
            self._words = target.sampled_words[block.groups]
            self._embedding = target.embedding[self._words]
            inverse = torch.from_numpy(target.example.sample_inv_probs).to(y).view(-1, target.example.num_samples)
            self._inverse = inverse[block.groups].unsqueeze(1)
        else:
            self._embedding = target.embedding.unsqueeze(0)
            self._inverse = y.new_ones(1, 1, len(target.embedding))
            self._inverse[..., 0] = 0  # word 0 is never said
        self._scores = self._y @ self._embedding.transpose(1, 2)

    def sums(self) -> tuple[float, np.ndarray]:
        """Returns the numerator's part, and the denominator's by group (groups,), with sampling without weights."""
        right = self._scores.gather(2, self._right.unsqueeze(2)).squeeze(2)
        numerator = float((self._weights * right).double().sum())
        q = torch.where(self._scores < 0, self._scores.exp(), self._scores + 1) * self._inverse
        sums = -q.sum(2) if self._sampled else 1 - q.sum(2)
        return numerator, (self._weights * sums).double().sum(1).cpu().numpy()

    def exact(self, *, clips: bool) -> float:
        """Returns -sum w log sum exp of the scores of all words but 0."""
        scores = self._scores[..., 1:]
        scores = scores.clamp(-_MOST_SCORE, _MOST_SCORE) if clips else scores
        return -float((self._weights * torch.logsumexp(scores, 2)).double().sum())

    def derivs(self, factors: np.ndarray) -> Tensor:
        """Returns the derivative by the block's output rows; adds the derivative by the embedding to the target."""
        slopes = torch.where(self._scores < 0, self._scores.exp(), 1.0) * self._inverse
        slopes *= -torch.from_numpy(factors).to(slopes)[:, None, None]
        slopes.scatter_add_(2, self._right.unsqueeze(2), torch.ones_like(slopes[..., :1]))
        slopes *= self._weights.unsqueeze(2)
        into = self._target.embedding_deriv
        if into is not None:
            by_word = slopes.transpose(1, 2) @ self._y
            if self._sampled:
                into.index_add_(0, self._words.flatten(), by_word.flatten(0, 1))
            else:
                into += by_word[0]
        return (slopes @ self._embedding).flatten(0, 1)
