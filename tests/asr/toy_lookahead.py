"""Small look-ahead graphs and language models, and what words cost in them by definition."""

from __future__ import annotations

import itertools

import numpy as np

from nnet3.base.kaldi_io.fst_const import LabelReach
from nnet3.kaldi_io import Fst
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search.composition import LookaheadGraph
from nnet3.speech.search.mapped_fst import in_memory
from tests.asr.slow_search import Words, best_of_words, paths_of
from tests.seeds import RANDOM

LABELS, WORDS, DISAMBIGUATION = 4, 5, 5  # input labels 1 .. 4 take a row, 5 does not


def lookahead_graph(states: int = 8) -> LookaheadGraph:
    """A loop over all words: each is a few labels, with its word somewhere and a symbol that takes no row."""
    arcs = []
    count = 1
    for word in range(1, WORDS + 1):
        labels = [*RANDOM.integers(1, LABELS + 1, int(RANDOM.integers(1, 4))).tolist(), DISAMBIGUATION]
        at = int(RANDOM.integers(len(labels)))
        path = [0, *range(count, count + len(labels) - 1), 0]
        count += len(labels) - 1
        for number, label in enumerate(labels):
            arcs.append((path[number], path[number + 1], label, word * (number == at), float(RANDOM.random())))
    arcs.append((0, 0, 1, 0, 0.5))  # silence
    src, dst, label, words, cost = zip(*arcs, strict=True)
    final = np.full(count, np.inf)
    final[0] = 0.125
    fst = Fst.from_arcs(0, final, src, dst, label, cost, words)
    return LookaheadGraph(fst, _reach(fst), np.array([DISAMBIGUATION]))


def _reach(fst: Fst) -> LabelReach:
    """By definition: the labels that come next on some path from each state."""
    final_label = WORDS + 1
    reached: list[set[int]] = [set() for _ in range(fst.num_states)]
    changed = True
    while changed:
        changed = False
        for state in range(fst.num_states):
            found = {final_label} if fst.final[state] < np.inf else set()
            for arc in range(fst.offsets[state], fst.offsets[state + 1]):
                found |= {int(fst.olabel[arc])} if fst.olabel[arc] else reached[fst.dst[arc]]
            changed |= found != reached[state]
            reached[state] = found
    intervals = [sorted((label, label + 1) for label in labels) for labels in reached]
    for each in intervals:  # neighbours are one interval
        for number in range(len(each) - 1, 0, -1):
            if each[number - 1][1] == each[number][0]:
                each[number - 1 : number + 1] = [(each[number - 1][0], each[number][1])]
    flat = np.array([interval for each in intervals for interval in each]).reshape(-1, 2)
    offsets = np.append(0, np.cumsum([len(each) for each in intervals]))
    return LabelReach(final_label, offsets, flat[:, 0], flat[:, 1])


def bigram() -> BackoffModel:
    """State 0 is no history, state w the word before; some pairs have costs of their own, all words have one alone."""
    words = range(1, WORDS + 1)
    arcs = [(0, w, w, 3 * RANDOM.random()) for w in words] + [(w, 0, 0, RANDOM.random()) for w in words]
    arcs += [(v, w, w, 3 * RANDOM.random()) for v, w in itertools.product(words, words) if RANDOM.random() < 0.5]
    src, dst, label, cost = zip(*arcs, strict=True)
    final = np.where(RANDOM.random(WORDS + 1) < 0.5, RANDOM.random(WORDS + 1), np.inf)
    final[0] = 1.5
    return BackoffModel(Fst.from_arcs(int(RANDOM.integers(0, 3)), final, src, dst, label, cost))


def cost_of_words(model: BackoffModel, words: Words) -> float:
    """The least cost of any way through the model: its back-offs are arcs that read nothing."""
    best = {model.start: 0.0}
    for word in [*words, None]:
        for _ in range(3):
            for state in np.flatnonzero(model.shorter >= 0).tolist():
                if state in best:
                    shorter, cost = int(model.shorter[state]), best[state] + float(model.back_off_cost[state])
                    best[shorter] = min(best.get(shorter, np.inf), cost)
        if word is None:
            return min(cost + float(model.final[state]) for state, cost in best.items())
        found: dict[int, float] = {}
        for arc in np.flatnonzero(model.words == word).tolist():
            src, dst = int(model.key[arc] >> 32), int(model.dst(np.array(arc)))
            if src in best:
                found[dst] = min(found.get(dst, np.inf), best[src] + float(model.cost[arc]))
        best = found
    return np.inf


def plain_graph(graph: LookaheadGraph) -> Fst:
    """The graph with epsilons for symbols that take no row."""
    fst = in_memory(graph.fst)
    return Fst(fst.start, fst.final, fst.offsets, graph.label_of_input[fst.ilabel], fst.olabel, fst.cost, fst.dst)


def expected_costs(graph: LookaheadGraph, model: BackoffModel, scores: np.ndarray) -> dict[Words, float]:
    """The cost of each sequence of words, by all paths of the graph and all ways through the model."""
    of_graph = best_of_words(plain_graph(graph), scores)
    found = {words: cost + cost_of_words(model, words) for words, (cost, _) in of_graph.items()}
    return {words: cost for words, cost in found.items() if cost < np.inf}


def random_scores(rows: int) -> np.ndarray:
    return RANDOM.normal(size=(rows, LABELS)).astype(np.float32)


def least_costs(lattice: RawLattice) -> dict[Words, float]:
    return {words: min(paths)[0] for words, paths in paths_of(lattice).items()}
