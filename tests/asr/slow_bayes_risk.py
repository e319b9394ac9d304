"""Minimum Bayes risk, state by state, arc by arc and place by place, as an oracle: sums and comparisons are Kaldi's."""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

Sums = list[dict[int, list[float]]]  # by place and word: probability, and this times begin and end


class Arc(NamedTuple):
    """States are numbered in topological order; the last one is the only end."""

    src: int
    dst: int
    word: int
    cost: float
    begin: float
    end: float


def _log_add(one: float, other: float) -> float:
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))


def least_risk(arcs: list[Arc], states: int, words: list[int]) -> list[tuple[int, float, float, float]]:
    """Words with times and confidences, beginning with those of the best path."""
    into = [[number for number, arc in enumerate(arcs) if arc.dst == state] for state in range(states)]
    alpha, share = [0.0] + [-math.inf] * (states - 1), [0.0] * len(arcs)
    for state in range(1, states):
        parts = [alpha[arcs[a].src] - arcs[a].cost for a in into[state]]
        alpha[state] = reduce(_log_add, parts)
        for a, part in zip(into[state], parts, strict=True):
            share[a] = math.exp(part - alpha[state])
    for _ in range(101):
        r = [0, 0]  # places count from 1
        for word in words:
            r += [word, 0]
        last = len(r) - 1
        gamma: Sums = [{} for _ in r]

        def add(q: int, word: int, value: float, begin: float, end: float, gamma: Sums = gamma) -> None:
            sums = gamma[q].setdefault(word, [0.0, 0.0, 0.0])
            for index, each in enumerate((value, begin * value, end * value)):
                sums[index] += each

        distance = [[0.0] * (last + 1) for _ in range(states)]
        for q in range(1, last + 1):
            distance[0][q] = distance[0][q - 1] + (r[q] != 0)
        choice = [[0] * (last + 1) for _ in arcs]
        for state in range(1, states):
            for a in into[state]:
                before, word = distance[arcs[a].src], arcs[a].word
                deletion = 0.0 if word == 0 else 1 + float(np.float32(1e-5))
                own = [before[0] + deletion]
                for q in range(1, last + 1):
                    ways = before[q - 1] + (word != r[q]), before[q] + deletion, own[q - 1] + (r[q] != 0)
                    best = min(range(3), key=lambda way: (ways[way], way))
                    choice[a][q] = best + 1
                    own.append(ways[best])
                for q in range(last + 1):
                    distance[state][q] += share[a] * own[q]
        mass = [[0.0] * (last + 1) for _ in range(states)]
        mass[-1][last] = 1.0
        for state in range(states - 1, 0, -1):
            for a in into[state]:
                arc, b = arcs[a], [0.0] * (last + 1)
                for q in range(last, 0, -1):
                    b[q] += share[a] * mass[state][q]
                    if choice[a][q] == 1:
                        mass[arc.src][q - 1] += b[q]
                        add(q, arc.word, b[q], arc.begin, arc.end)
                    elif choice[a][q] == 2:
                        mass[arc.src][q] += b[q]
                    else:
                        b[q - 1] += b[q]
                        add(q, 0, b[q], arc.end, arc.end)
                mass[arc.src][0] += b[0] + share[a] * mass[state][0]
        rest = 0.0
        for q in range(last, 0, -1):
            rest += mass[0][q]
            add(q, 0, rest, 0.0, 0.0)
        chosen = [max(sums, key=lambda word: (np.float32(sums[word][0]), word)) for sums in gamma[1:]]
        pairs = zip(gamma[1:], chosen, r[1:], strict=True)
        gain = sum(np.float32(sums[new][0]) - np.float32(sums.get(old, [0.0])[0]) for sums, new, old in pairs)
        words = [word for word in chosen if word]
        if gain == 0:
            break
    found = [(word, gamma[q][word]) for q, word in enumerate(chosen, 1) if word]
    return [(word, begin / sure, end / sure, sure) for word, (sure, begin, end) in found]
