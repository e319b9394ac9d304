"""Composition best first: with a wide beam it is whole composition; with any beam, some of its paths."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, no_strings
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.errors import ArgumentError
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.word_acceptor import WordAcceptor, WordArcs
from nnet3.speech.lattices.lattice_composition import composed
from nnet3.speech.lattices.lattice_path import best_paths
from nnet3.speech.lattices.lattice_states import sorted_upwards
from nnet3.speech.lattices.pruned_composition import _END, _ahead_of, composed_pruned
from tests.asr.golden_rescoring import Words, paths
from tests.asr.random_lattices import Sums, random_lattice

_Whole = Counter[tuple[Words, tuple[int, ...], float]]


def _all(found: dict[Words, list[tuple[tuple[int, ...], float, float]]]) -> _Whole:
    """Returns paths with rounded costs."""
    return Counter(
        (words, ids, round(graph + acoustic, 3)) for words, each in found.items() for ids, graph, acoustic in each
    )


@given(st.integers(0, 2**32), st.floats(0.1, 4), st.floats(1.1, 4))
def test_paths_are_those_of_whole_composition(seed: int, beam: float, growth: float) -> None:
    lattice = random_lattice(np.random.default_rng(seed), states=8, arcs=22)
    whole = paths(composed(lattice, Sums()))
    wide = composed_pruned(lattice, Sums(), ComposeOptions(1000.0, growth_ratio=growth))
    assert _all(paths(wide)) == _all(whole)
    narrow = paths(composed_pruned(lattice, Sums(), ComposeOptions(beam, growth_ratio=growth)))
    assert not _all(narrow) - _all(whole)
    assert bool(narrow) == bool(whole)


class _Dear(Sums):
    """Each word costs 2 more."""

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        arcs = super().arcs(states, words)
        return arcs._replace(cost=arcs.cost + 2)


def test_ways_on_have_their_excess_and_the_best_comes_first() -> None:
    lattice = sorted_upwards(random_lattice(np.random.default_rng(5), states=12, arcs=90))
    fst, final = lattice.fst, np.full(lattice.fst.num_states, np.inf)
    ends = fst.final < np.inf
    final[ends] = fst.final[ends] + lattice.final_acoustic_cost[ends]
    cost = fst.cost.astype(np.float64) + lattice.acoustic_cost
    ahead = _ahead_of(lattice)
    for state, best in enumerate(ahead.best):
        ways = slice(ahead.offsets[state], ahead.offsets[state + 1])
        through = [final[state] if arc == _END else cost[arc] + ahead.best[fst.dst[arc]] for arc in ahead.arc[ways]]
        if best < np.inf:
            assert ahead.excess[ways] == pytest.approx(np.array(through) - best, abs=1e-4)
            assert ahead.excess[ways][0] == 0


def test_the_number_of_arcs_is_bounded_once_a_path_is_there() -> None:
    lattice = random_lattice(np.random.default_rng(5), states=12, arcs=90)
    sizes = [composed_pruned(lattice, Sums(), ComposeOptions(50.0, most)).fst.num_arcs for most in (1, 30, 300)]
    assert 0 < sizes[0] <= sizes[1] <= 100 < sizes[2]


class _Free(WordAcceptor):
    """All words, without costs."""

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        return WordArcs(states, np.zeros(len(words), np.float32))

    def final_costs(self, states: Integers) -> Singles:
        return np.zeros(len(states), np.float32)


@given(st.integers(0, 2**32), st.floats(0.1, 4))
def test_what_has_no_costs_is_composed_within_the_beam_alone(seed: int, beam: float) -> None:
    """The lattice's own costs are then those of the composition: each arc is on a path within the beam of the best."""
    lattice = random_lattice(np.random.default_rng(seed), states=8, arcs=40)
    made = composed_pruned(lattice, _Free(), ComposeOptions(beam))
    fst, cost = made.fst, made.fst.cost + made.acoustic_cost
    before, ahead = np.full(fst.num_states, np.inf), made.fst.final + made.final_acoustic_cost
    before[0] = 0
    for arc in range(fst.num_arcs):  # states are sorted
        before[fst.dst[arc]] = min(before[fst.dst[arc]], before[fst.src[arc]] + cost[arc])
    for arc in reversed(range(fst.num_arcs)):
        ahead[fst.src[arc]] = min(ahead[fst.src[arc]], cost[arc] + ahead[fst.dst[arc]])
    [best] = best_paths(lattice, 1)
    assert ahead[0] == pytest.approx(best.cost, abs=1e-4)
    assert (before[fst.src] + cost + ahead[fst.dst] < best.cost + beam + 1e-4).all()


def test_the_search_dives_to_a_first_path() -> None:
    """Words cost more in the acceptor than in the lattice: paths that are short so far look better than long ones."""
    levels, words = 60, 3
    src = np.repeat(np.arange(levels), words)
    arcs, none = len(src), no_strings(levels * words)
    ends = np.append(np.full(levels, np.inf), 0)
    fst = Fst.from_arcs(0, ends, src, src + 1, 1 + np.arange(arcs) % words, np.ones(arcs))
    lattice = Lattice(fst, np.zeros(arcs, np.float32), ends.astype(np.float32), none, no_strings(levels + 1))
    made = composed_pruned(lattice, _Dear(), ComposeOptions(1000.0, 1))
    assert levels <= made.fst.num_arcs <= 100


@pytest.mark.parametrize(
    ("values", "message"),
    [((0.0,), "lattice_compose_beam must be"), ((1.0, 0), "max_arcs must be"), ((1.0, 1, 1.0), "growth_ratio must be")],
)
def test_options_without_sense(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ComposeOptions(*values)
