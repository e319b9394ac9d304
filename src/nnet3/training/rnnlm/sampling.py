"""Draws words that stand for all words in the objective of a minibatch (facts: rescoring 6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from nnet3.base.options.rnnlm import RnnlmEgsOptions
from nnet3.errors import TrainingError
from nnet3.training.rnnlm.sampling_lm import SamplingLm

_MORE_THAN_SURE = 1.1  # share that outputs get beyond what makes their probability one


class WordSampler:
    """Samples of `num_samples` words from a sampling LM that is changed to fit: bos and brk are nearly never drawn."""

    def __init__(self, lm: SamplingLm, options: RnnlmEgsOptions) -> None:
        self.lm, self.num_samples = lm, options.num_samples
        bos, brk = options.bos_symbol, options.brk_symbol
        probs = lm.unigrams.astype(np.float64)
        most = len(probs) - 1
        if max(bos, brk) > most:
            raise TrainingError(f"the sampling LM has words 1 to {most}, and --bos-symbol or --brk-symbol is above")
        probs[1:] += options.uniform_prob_mass / most
        probs[[bos, brk]] = options.special_symbol_prob
        probs[0] = 0
        self.unigrams = probs / probs.sum()
        self._ends = np.array([bos, brk])

    @property
    def has_enough_words(self) -> bool:
        """False if there are fewer words than would be drawn."""
        return int((self.unigrams > 0).sum()) >= self.num_samples

    def histories(self, inputs: np.ndarray, weights: np.ndarray, group: slice) -> dict[tuple[int, ...], float]:
        """Returns the weight of each history of a group of times; `inputs`, `weights`: (times, rows) of the minibatch.

        A history is the last input words, up to the position where an output is predicted, not beyond <s> or <brk>.
        """
        times, rows = np.nonzero(weights[group] > 0)
        times += group.start
        last = np.zeros((len(times), self.lm.order - 1), np.int64)  # 0: nothing, before a history's first word
        goes_on = np.ones(len(times), bool)
        for back in range(last.shape[1]):
            goes_on &= times >= back
            words = np.where(goes_on, inputs[times - back, rows], 0)
            last[:, last.shape[1] - 1 - back] = words
            goes_on &= ~np.isin(words, self._ends)
        distinct, position = np.unique(last, axis=0, return_inverse=True)
        sums = np.bincount(position.reshape(-1), weights[times, rows], len(distinct))
        found = {tuple(row[np.count_nonzero(row == 0) :]): float(w) for row, w in zip(distinct, sums, strict=True)}
        return found or {(): 1.0}

    def expectations(self, histories: Mapping[tuple[int, ...], float], outputs: Iterable[int]) -> np.ndarray:
        """Returns the probability of each word to be drawn, (words,), with sum `num_samples`; outputs have 1.

        Raises TrainingError for more different outputs than words to draw.
        """
        sure = np.unique(np.fromiter(outputs, np.int64))
        if len(sure) >= self.num_samples:
            raise TrainingError(
                f"{len(sure)} words must be in a sample of {self.num_samples}: take more samples or smaller groups"
            )
        alone, own = self._mixture(histories)
        total = alone + own.sum()
        own[sure] += _MORE_THAN_SURE * total / (self.num_samples - len(sure))
        return at_most_one(alone * self.unigrams + own, self.num_samples)

    def _mixture(self, histories: Mapping[tuple[int, ...], float]) -> tuple[float, np.ndarray]:
        """Returns the weight that arrives at the empty history, and the sums of stored probabilities of words."""
        own, alone = np.zeros(len(self.unigrams)), 0.0
        waiting = [dict[int, float]() for _ in self.lm.states]  # weights of histories by their length
        for history, weight in histories.items():
            alone += self._pass_on(history, weight, waiting)
        for length in range(len(waiting), 0, -1):
            states = self.lm.states[length - 1]
            for number, weight in waiting[length - 1].items():
                part = slice(int(states.offsets[number]), int(states.offsets[number + 1]))
                own[states.words[part]] += weight * states.values[part]
                left = weight * float(states.backoff[number])
                alone += self._pass_on(tuple(states.histories[number, 1:].tolist()), left, waiting)
        return alone, own

    def _pass_on(self, history: tuple[int, ...], weight: float, waiting: list[dict[int, float]]) -> float:
        """Gives a weight to the longest known history, and returns what the empty history gets."""
        found = self.lm.find(history)
        if found is None:
            return weight
        length, number = found
        waiting[length - 1][number] = waiting[length - 1].get(number, 0.0) + weight
        return 0.0

    def draw(self, probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns `num_samples` different words, ascending, word w with probability probs[w] (systematic sampling)."""
        ends = np.cumsum(probs)
        ends *= self.num_samples / ends[-1]
        crossings = np.arange(self.num_samples) + 1 - rng.uniform()
        words = np.searchsorted(ends, crossings, side="left")
        return _different(np.minimum(words, len(probs) - 1), probs)


def at_most_one(weights: np.ndarray, total: float) -> np.ndarray:
    """Returns weights (words,) times a factor, cut at 1, with sum `total`.

    The largest weights are fixed at 1, one after another, while the factor makes them larger than 1:
    factor = (total - number fixed) / (sum of weights not fixed).
    """
    order = np.argsort(-weights, kind="stable")
    ordered = weights[order]
    rest = np.cumsum(ordered[::-1])[::-1]  # of a weight and all smaller ones
    factors = np.divide(total - np.arange(len(ordered)), rest, out=np.zeros_like(rest), where=ordered > 0)
    reaches = factors * ordered >= 1.0
    number_fixed = int(np.argmin(reaches)) if not reaches.all() else len(ordered)
    factor = factors[number_fixed] if number_fixed < len(factors) else 0.0
    probs = weights * factor
    probs[order[:number_fixed]] = 1.0
    return probs


def _different(words: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Returns words without repeats, which rounding can cause: the most probable unused words replace them."""
    distinct = np.unique(words)
    missing = len(words) - len(distinct)
    if missing:
        others = np.setdiff1d(np.argsort(-probs)[: len(words) + missing], distinct, assume_unique=True)
        distinct = np.sort(np.append(distinct, others[np.argsort(-probs[others], kind="stable")][:missing]))
    return distinct
