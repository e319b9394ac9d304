"""Slow and obvious searches, as oracles: every path of a small graph through a few rows of scores."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, Strings
from nnet3.kaldi_io import Fst
from nnet3.speech.lattices.levels import longest_paths
from nnet3.speech.lattices.raw_lattice import RawLattice

Words = tuple[int, ...]
Path = tuple[float, tuple[int, ...]]  # cost and input labels
Found = dict[tuple[int, Words], Path]  # by state and words


def random_graph(random: np.random.Generator, states: int = 6, labels: int = 4, words: int = 3) -> Fst:
    """Every state has an arc that takes a row; epsilons lead upwards only, so that there are no cycles of them."""
    src = np.append(np.arange(states), random.integers(0, states, 3 * states))
    dst = random.integers(0, states, len(src))
    ilabel = random.integers(1, labels + 1, len(src))
    low, high = np.sort(random.integers(0, states, (2, states)), axis=0)
    low, high = low[low < high], high[low < high]
    src, dst = np.append(src, low), np.append(dst, high)
    ilabel = np.append(ilabel, np.zeros(len(low), np.int64))
    olabel = random.integers(1, words + 1, len(src)) * (random.random(len(src)) < 0.4)
    final = np.where(random.random(states) < 0.5, random.random(states), np.inf)
    final[-1] = 0.25
    return Fst.from_arcs(0, final, src, dst, ilabel, random.random(len(src)).round(3) * 3, olabel)


def best_of_words(fst: Fst, scores: np.ndarray, use_final: bool = True) -> dict[Words, Path]:
    """The cost and the input labels of the best path of each sequence of words, of all paths that take all rows.

    With `use_final`: of those that end, with the cost of that, if any does.
    """
    best: Found = {(fst.start, ()): (0.0, ())}
    columns = (each.tolist() for each in (fst.src, fst.dst, fst.ilabel, fst.olabel, fst.cost))
    arcs = list(zip(*columns, strict=True))
    for row in [None, *scores]:
        found: Found = {} if row is not None else dict(best)
        if row is not None:
            _follow(best, found, [arc for arc in arcs if arc[2]], row)
        while _follow(dict(found), found, [arc for arc in arcs if not arc[2]], None):
            pass
        best = found
    ends = {key: fst.final[key[0]] if use_final else 0.0 for key in best}
    result: dict[Words, Path] = {}
    for (state, words), (cost, labels) in best.items():
        total = (cost + float(ends[state, words]), labels)
        if total[0] < result.get(words, (np.inf, ()))[0]:
            result[words] = total
    return result or best_of_words(fst, scores, use_final=False)


def _follow(best: Found, found: Found, arcs: list[Any], row: np.ndarray | None) -> bool:
    changed = False
    for (state, words), (cost, labels) in best.items():
        for src, dst, ilabel, olabel, arc_cost in arcs:
            if src == state:
                key = (dst, (*words, olabel) if olabel else words)
                total = cost + arc_cost - (float(row[ilabel - 1]) if row is not None else 0.0)
                if total < found.get(key, (np.inf, ()))[0] - 1e-9:
                    found[key] = (total, (*labels, ilabel) if row is not None else labels)
                    changed = True
    return changed


def paths_of(lattice: Lattice | RawLattice, acoustic_scale: float = 1.0) -> dict[Words, list[Path]]:
    """All paths of a lattice by their words: costs and transition-ids."""
    if isinstance(lattice, RawLattice):
        finals, start = lattice.final_cost, 0
        ends, costs = (lattice.src, lattice.dst, lattice.word), lattice.cost
        ids: list[tuple[int, ...]] = [(each,) if each else () for each in lattice.transition_id.tolist()]
        final_ids: list[tuple[int, ...]] = [()] * len(finals)
    else:
        fst, start = lattice.fst, lattice.fst.start
        ends, costs = (fst.src, fst.dst, fst.ilabel), fst.cost + acoustic_scale * lattice.acoustic_cost
        final_acoustic = np.where(fst.final < np.inf, lattice.final_acoustic_cost, 0)
        finals = fst.final + acoustic_scale * final_acoustic
        ids, final_ids = _lists(lattice.transition_ids), _lists(lattice.final_transition_ids)
    arcs = zip(*ends, costs, ids, strict=True)
    leaving = defaultdict(list)
    for src, dst, word, cost, of_arc in arcs:
        leaving[int(src)].append((int(dst), int(word), float(cost), of_arc))
    found: dict[Words, list[Path]] = defaultdict(list)
    waiting: list[tuple[int, float, Words, tuple[int, ...]]] = [(start, 0.0, (), ())]
    while waiting:
        state, cost, words, so_far = waiting.pop()
        if finals[state] < np.inf:
            found[words].append((cost + float(finals[state]), (*so_far, *final_ids[state])))
        for dst, word, more, further in leaving[state]:
            waiting.append((dst, cost + more, (*words, word) if word else words, (*so_far, *further)))
    return dict(found)


def best_paths(lattice: Lattice, acoustic_scale: float, beam: float) -> dict[Words, tuple[float, float, float]]:
    """The best path of each sequence of words within the beam: total, graph and acoustic cost (not scaled)."""
    fst = lattice.fst
    depth = longest_paths(fst.num_states, fst.src, fst.dst)
    acoustic = np.where(fst.final < np.inf, lattice.final_acoustic_cost, 0)
    leaving, final = defaultdict(list), (fst.final + acoustic_scale * acoustic).astype(float)
    columns = (fst.src, fst.dst, fst.ilabel, fst.cost, lattice.acoustic_cost)
    for src, *arc in zip(*(column.tolist() for column in columns), strict=True):
        leaving[src].append(arc)
    order = np.argsort(depth, kind="stable").tolist()
    behind = final.copy()
    for state in order[::-1]:
        ways = [graph + acoustic_scale * sound + behind[dst] for dst, _, graph, sound in leaving[state]]
        behind[state] = min([behind[state], *ways])
    most = behind[fst.start] + beam
    reached: dict[int, dict[Words, tuple[float, float, float]]] = defaultdict(dict)
    reached[fst.start][()] = (0.0, 0.0, 0.0)
    found: dict[Words, tuple[float, float, float]] = {}
    for state in order:
        for words, (cost, *parts) in reached.pop(state, {}).items():
            ways = [(found, words, fst.final[state], acoustic[state], 0.0)] if final[state] < np.inf else []
            for dst, word, graph, sound in leaving[state]:
                ways.append((reached[dst], (*words, word) if word else words, graph, sound, behind[dst]))
            for table, further, graph, sound, ahead in ways:
                total = cost + graph + acoustic_scale * sound
                if total + ahead <= most and total < table.get(further, (np.inf,))[0]:
                    table[further] = (float(total), float(parts[0] + graph), float(parts[1] + sound))
    return found


def _lists(strings: Strings) -> list[tuple[int, ...]]:
    values, edges = strings.values.tolist(), strings.offsets.tolist()
    return [tuple(values[first:end]) for first, end in pairwise(edges)]
