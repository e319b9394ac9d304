"""Unions, reversals and words of lattices: against all paths."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import with_states
from nnet3.speech.lattices import lattice_joining
from tests.asr.random_lattices import random_lattice
from tests.seeds import RANDOM

Path = tuple[tuple[int, ...], tuple[int, ...], float, float]  # words, transition-ids, graph cost, acoustic cost


def _paths(lattice: Lattice) -> Counter[Path]:
    """All paths, each with words, transition-ids and rounded costs."""
    fst, found = lattice.fst, Counter[Path]()
    todo: list[tuple[int, Path]] = [(fst.start, ((), (), 0.0, 0.0))] if fst.num_states else []
    while todo:
        state, (words, ids, graph, acoustic) = todo.pop()
        if fst.final[state] < np.inf:
            last = tuple(lattice.final_transition_ids[np.array([state])].values.tolist())
            costs = graph + float(fst.final[state]), acoustic + float(lattice.final_acoustic_cost[state])
            found[words, ids + last, round(costs[0], 4) + 0.0, round(costs[1], 4) + 0.0] += 1
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            label = (int(fst.ilabel[arc]),) if fst.ilabel[arc] else ()
            more = tuple(lattice.transition_ids[np.array([arc])].values.tolist())
            costs = graph + float(fst.cost[arc]), acoustic + float(lattice.acoustic_cost[arc])
            todo.append((int(fst.dst[arc]), (words + label, ids + more, *costs)))
    return found


@pytest.mark.parametrize("case", range(6))
def test_a_union_has_the_paths_of_all(case: int) -> None:
    rng = RANDOM
    parts = [random_lattice(rng) for _ in range(3)]
    for lattices in (parts, [part.plain() for part in parts]):
        united = lattice_joining.united(lattices)
        assert _paths(united) == sum((_paths(part) for part in lattices), Counter())
        assert united.is_plain == lattices[0].is_plain
        assert united.fst.num_states == sum(part.fst.num_states for part in lattices)
    empty = _without_states(parts[0])
    assert lattice_joining.united([empty, parts[1]]) is parts[1]
    assert lattice_joining.united([empty]) is empty


def _without_states(lattice: Lattice) -> Lattice:
    """A lattice without states, of the same kind."""
    return with_states(lattice, np.zeros(0, np.int64))


@pytest.mark.parametrize("case", range(6))
def test_composed_with_a_lattice_pairs_of_paths_of_equal_words_meet(case: int) -> None:
    lattice = random_lattice(RANDOM)
    other = lattice_joining.from_words_to_words(lattice.with_costs((0.5, 0.0), (0.0, 2.0)))
    expected = sorted(
        (words, ids, graph + more_graph, acoustic + more_acoustic)
        for (words, ids, graph, acoustic), count in _paths(lattice).items()
        for (_, by_ids, more_graph, more_acoustic), times in _paths(other).items()
        for _ in range(count * times)
        if by_ids == words
    )
    found = sorted(_paths(lattice_joining.composed_with_lattice(lattice, other)).elements())
    assert [path[:2] for path in found] == [path[:2] for path in expected]
    np.testing.assert_allclose([path[2:] for path in found], [path[2:] for path in expected], atol=1e-3)
    assert not lattice_joining.composed_with_lattice(lattice, _without_states(other)).fst.num_states


@pytest.mark.parametrize("case", range(6))
def test_turned_round_all_paths_are_backward(case: int) -> None:
    lattice = random_lattice(RANDOM)
    turned = lattice_joining.turned_round(lattice)
    backward = Counter({(w[::-1], ids[::-1], *costs): count for (w, ids, *costs), count in _paths(lattice).items()})
    assert _paths(turned) == backward
    assert turned.is_plain
    assert turned.fst.start == 0


@pytest.mark.parametrize("case", range(6))
def test_words_alone_and_transition_ids_alone(case: int) -> None:
    lattice = random_lattice(RANDOM)
    words = Counter[Path]()
    ids = Counter[Path]()
    for (labels, numbers, *costs), count in _paths(lattice).items():
        words[labels, (), costs[0], costs[1]] += count
        ids[numbers, numbers, costs[0], costs[1]] += count
    bare = lattice_joining.without_transition_ids(lattice)
    assert _paths(bare) == words
    both = lattice_joining.from_words_to_words(lattice)
    assert _paths(both) == Counter({(w, w, *costs): count for (w, _, *costs), count in words.items()})
    assert both.is_plain
    assert _paths(lattice_joining.from_ids_to_ids(lattice)) == ids
    fst = lattice_joining.word_acceptor_of(lattice)
    summed = replace(bare, fst=fst, acoustic_cost=0 * bare.acoustic_cost, final_acoustic_cost=np.where(
        fst.final < np.inf, np.float32(0), np.float32(np.inf)
    ))  # fmt: skip
    totals = Counter({(w, round(g + a, 3)): count for (w, _, g, a), count in words.items()})
    found = {(w, round(g, 3)) for w, _, g, _ in _paths(summed)}
    assert {w for w, _ in found} == {w for w, _ in totals}
    assert sorted(g for _, g in found) == pytest.approx(sorted(g for _, g in totals), abs=2e-3)


def test_one_path_of_its_parts() -> None:
    for ids, words in (([4, 4, 5], [7]), ([4], [7, 8]), ([], [])):
        lattice = lattice_joining.of_one_path(np.array(ids, np.int32), np.array(words, np.int32), 1.5, 2.5)
        assert _paths(lattice) == Counter({(tuple(words), tuple(ids), 1.5, 2.5): 1})
