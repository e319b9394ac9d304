"""Random FSTs of many shapes, for tests."""

from __future__ import annotations

import numpy as np

from nnet3.kaldi_io import Fst


def random_fst(random: np.random.Generator, most_states: int = 8) -> Fst:
    """Up to `most_states` states; sometimes an acceptor, sorted, acyclic, without costs or without epsilons."""
    states = int(random.integers(1, most_states + 1))
    arcs = int(random.integers(0, 3 * states))
    src, dst = random.integers(0, states, (2, arcs))
    if random.random() < 0.4:  # upwards only
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
        if random.random() < 0.7:
            src, dst = src[src < dst], dst[src < dst]
    if random.random() < 0.15:
        src, dst = np.arange(states - 1), np.arange(1, states)
    labels = random.integers(int(random.random() < 0.5), 4, (2, len(src)))
    if random.random() < 0.3:
        labels = np.sort(labels, axis=1)
    cost = np.where(random.random(len(src)) < random.choice([0, 0.3, 1]), random.normal(size=len(src)), 0)
    final = np.where(random.random(states) < 0.3, random.choice([0.0, 1.5], states), np.inf)
    if random.random() < 0.3:
        final[-1] = 0
    start = 0 if random.random() < 0.7 else int(random.integers(0, states))
    return Fst.from_arcs(start, final, src, dst, labels[0], cost, labels[1] if random.random() < 0.3 else None)


def same(first: Fst, second: Fst) -> bool:
    """Whether all arrays are the same."""
    names = ("final", "offsets", "ilabel", "olabel", "cost", "dst")
    arrays_agree = all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)
    return first.start == second.start and arrays_agree
