"""Forward-backward and path sums with dictionaries, in the words of docs/chain.md: an oracle for small graphs."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.chain import DenominatorGraph


def denominator(graph: DenominatorGraph, y: np.ndarray, leak: float) -> tuple[float, np.ndarray]:
    """log p of one sequence, y (frames, pdfs), and its derivative: sums over all, without any scaling."""
    x = np.exp(np.clip(y.astype(np.float64), -30, 30))
    init = graph.initial.astype(np.float64)
    arcs = list(zip(graph.sources, graph.destinations, graph.pdfs, graph.probabilities.astype(float), strict=True))

    def leaked(alpha: np.ndarray) -> np.ndarray:
        return alpha + leak * alpha.sum() * init

    alphas = [leaked(init)]
    for t in range(len(y)):
        following = np.zeros(graph.num_states)
        for i, j, n, p in arcs:
            following[j] += alphas[t][i] * p * x[t, n]
        alphas.append(leaked(following))
    total = alphas[-1].sum()
    gamma = np.zeros(x.shape)
    beta = np.ones(graph.num_states) / total
    for t in reversed(range(len(y))):
        after = beta + leak * (init * beta).sum()
        beta = np.zeros(graph.num_states)
        for i, j, n, p in arcs:
            beta[i] += p * x[t, n] * after[j]
            gamma[t, n] += alphas[t][i] * p * x[t, n] * after[j]
    return math.log(total), gamma


def numerator(fst: Fst, y: np.ndarray) -> tuple[float, np.ndarray]:
    """log of the sum over the paths with as many arcs as y (frames, labels) has rows, and its derivative."""
    paths: dict[int, list[tuple[float, tuple[int, ...]]]] = {fst.start: [(0.0, ())]}
    for row in y.astype(np.float64):
        following: dict[int, list[tuple[float, tuple[int, ...]]]] = defaultdict(list)
        for src, dst, label, cost in zip(
            fst.src.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.cost, strict=True
        ):
            for score, labels in paths.get(src, []):
                following[dst].append((score - float(cost) + row[label - 1], (*labels, label)))
        paths = following
    complete = [
        (score - float(fst.final[state]), labels)
        for state, found in paths.items()
        if fst.final[state] < np.inf
        for score, labels in found
    ]
    largest = max(score for score, _ in complete)
    total = largest + math.log(sum(math.exp(score - largest) for score, _ in complete))
    gamma = np.zeros(y.shape)
    for score, labels in complete:
        for t, label in enumerate(labels):
            gamma[t, label - 1] += math.exp(score - total)
    return total, gamma
