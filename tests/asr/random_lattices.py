"""Random lattices of words, a small word acceptor, and random grammars."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.word_acceptor import NO_ARC, WordAcceptor, WordArcs


class Sums(WordAcceptor):
    """The state is the sum of the words modulo 3; word 4 is unknown in state 2, which ends no sentence."""

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        known = (words != 4) | (states != 2)
        cost = (0.5 * states - 0.25 * words).astype(np.float32)
        return WordArcs(np.where(known, (states + words) % 3, NO_ARC), np.where(known, cost, np.float32(np.inf)))

    def final_costs(self, states: Integers) -> Singles:
        return np.where(states == 2, np.inf, 0.125 * states).astype(np.float32)

    def cost(self, words: tuple[int, ...]) -> float:
        state, total = 0, 0.0
        for word in words:
            arc = self.arc(state, word)
            if arc is None:
                return np.inf
            state, total = arc[0], total + arc[1]
        return total + self.final_cost(state)


def random_lattice(
    rng: np.random.Generator, states: int = 6, arcs: int = 12, words: int = 4, reach: int = 2**31
) -> Lattice:
    """Returns a lattice without cycles, its states in any order; some arcs have no word, some states lead nowhere.

    Arcs pass over fewer than `reach` states.
    """
    src = rng.integers(0, states - 1, arcs)
    dst = src + rng.integers(1, np.minimum(states - src, reach + 1))
    name = np.append(rng.permutation(states - 1), states - 1) if rng.random() < 0.5 else np.arange(states)
    final = np.where(rng.random(states) < 0.3, rng.normal(size=states), np.inf)
    final[-1] = 0.5
    fst = Fst.from_arcs(
        int(name[0]),
        final[np.argsort(name)],
        *(name[src], name[dst], rng.integers(0, words + 1, arcs), rng.normal(size=arcs)),
    )
    lengths, ends = rng.integers(0, 4, arcs), rng.integers(0, 3, states) * (fst.final < np.inf)
    return Lattice(
        fst,
        rng.normal(size=arcs).astype(np.float32),
        np.where(fst.final < np.inf, rng.normal(size=states), np.inf).astype(np.float32),
        Strings.of(lengths, rng.integers(1, 9, lengths.sum())),
        Strings.of(ends, rng.integers(1, 9, ends.sum())),
    )


def random_grammar(rng: np.random.Generator) -> Fst:
    """Three states in a row with arcs of words anywhere, and without words upwards."""
    src, dst = rng.integers(0, 3, (2, 14))
    label = np.where(src < dst, rng.integers(0, 5, 14), rng.integers(1, 5, 14))
    return Fst.from_arcs(0, [np.inf, 0.5, rng.normal()], src, dst, label, rng.normal(size=14))
