"""Joins and reverses lattices, and reduces lattices to words; states and arcs have OpenFst's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, NOT_FINAL, Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices.lattice_composition import WordFst, composed_with_fst


def united(lattices: Sequence[Lattice]) -> Lattice:
    """Returns a lattice with the paths of all lattices, which must be of one kind, plain or not, and without cycles.

    The first lattice's start leads to the starts of all others, by arcs without label and cost behind its own arcs.
    """
    parts = [lattice for lattice in lattices if lattice.fst.num_states]
    if len(parts) < 2:
        return (parts or list(lattices))[0]
    first = np.cumsum([0, *(part.fst.num_states for part in parts)])
    starts = np.array([part.fst.start for part in parts]) + first[:-1]
    more, nothing = len(parts) - 1, np.zeros(len(parts) - 1, np.float32)
    src = np.concatenate(
        [*(part.fst.src + k for part, k in zip(parts, first, strict=False)), np.repeat(starts[0], more)]
    )
    dst = np.concatenate([*(part.fst.dst + k for part, k in zip(parts, first, strict=False)), starts[1:]])
    label = np.concatenate([*(part.fst.ilabel for part in parts), np.zeros(more, np.int32)])
    cost = np.concatenate([*(part.fst.cost for part in parts), nothing])
    acoustic = np.concatenate([*(part.acoustic_cost for part in parts), nothing])
    strings = Strings.joined([*(part.transition_ids for part in parts), no_strings(more)])
    order = np.argsort(src, kind="stable")
    final, final_acoustic = (
        np.concatenate(each)
        for each in ([part.fst.final for part in parts], [part.final_acoustic_cost for part in parts])
    )
    fst = Fst.from_arcs(int(starts[0]), final, src, dst, label, cost)
    ends = Strings.joined([part.final_transition_ids for part in parts])
    return Lattice(fst, acoustic[order], final_acoustic, strings[order], ends, parts[0].is_plain)


def turned_round(lattice: Lattice) -> Lattice:
    """Returns the plain lattice of all paths reversed, from ends to start.

    State 0 is new, and leads to the former ends by arcs with the final costs; each former state's number grows by one.
    """
    plain = lattice.plain()
    fst, ends = plain.fst, np.flatnonzero(plain.fst.final < np.inf)
    if not fst.num_states:
        return plain
    src = np.append(fst.dst + 1, np.zeros(len(ends), np.int64))
    dst = np.append(fst.src + 1, ends + 1)
    cost, label = np.append(fst.cost, fst.final[ends]), np.append(fst.ilabel, np.zeros(len(ends), np.int32))
    strings = Strings.joined([plain.transition_ids, no_strings(len(ends))])
    final = np.full(fst.num_states + 1, NOT_FINAL, np.float32)
    final[fst.start + 1] = 0
    order = np.argsort(src, kind="stable")
    acoustic = np.append(plain.acoustic_cost, plain.final_acoustic_cost[ends])[order]
    made = Fst.from_arcs(0, final, src, dst, label, cost)
    return Lattice(made, acoustic, final.copy(), strings[order], no_strings(len(final)), is_plain=True)


def without_transition_ids(lattice: Lattice) -> Lattice:
    """Returns a lattice that is not plain, with words and costs alone."""
    none, no_ends = no_strings(lattice.fst.num_arcs), no_strings(lattice.fst.num_states)
    return replace(lattice, transition_ids=none, final_transition_ids=no_ends)


def from_words_to_words(lattice: Lattice) -> Lattice:
    """Returns a plain lattice of a compact one, with words in place of transition-ids."""
    word = lattice.fst.ilabel
    ids, none = Strings.of(word > 0, word[word > 0]), no_strings(lattice.fst.num_states)
    return replace(lattice, transition_ids=ids, final_transition_ids=none, is_plain=True)


def from_ids_to_ids(lattice: Lattice) -> Lattice:
    """Returns a plain lattice from transition-ids to transition-ids: these in the place of words."""
    plain = lattice.plain()
    label = np.zeros(plain.fst.num_arcs, np.int32)
    label[plain.transition_ids.lengths > 0] = plain.transition_ids.values
    return replace(plain, fst=replace(plain.fst, ilabel=label, olabel=label))


def composed_with_lattice(lattice: Lattice, other: Lattice) -> Lattice:
    """Returns the lattice composed with another one, whose transition-ids are taken for words; both costs are added.

    Which arcs meet depends on no cost, so graph and acoustic costs are composed one after the other.
    """
    label = from_ids_to_ids(other).fst.ilabel

    def composed(own: Lattice, added: Lattice) -> Lattice:
        return composed_with_fst(own, WordFst(replace(added.fst, ilabel=label, properties=None)))

    graph = composed(lattice, other.plain())
    swapped = composed(*(each.with_costs((0.0, 1.0), (1.0, 0.0)) for each in (lattice, other.plain()))).fst
    return replace(graph, acoustic_cost=swapped.cost, final_acoustic_cost=swapped.final)


def of_one_path(transition_ids: Integers, words: Integers, graph_cost: float, acoustic_cost: float) -> Lattice:
    """Returns the plain lattice of one path: arc k has word k and transition-id k.

    The final state has the costs.
    """
    count = max(len(transition_ids), len(words))
    final, acoustic = np.full((2, count + 1), NOT_FINAL, np.float32)
    final[count], acoustic[count] = graph_cost, acoustic_cost
    label = np.zeros(count, np.int32)
    label[: len(words)] = words
    places = np.arange(count)
    fst = Fst.from_arcs(0, final, places, places + 1, label)
    ids = Strings.of(places < len(transition_ids), np.asarray(transition_ids, np.int32))
    return Lattice(fst, np.zeros(count, np.float32), acoustic, ids, no_strings(count + 1), is_plain=True)


def word_acceptor_of(lattice: Lattice) -> Fst:
    """Returns an FST of a lattice's words, whose costs are the sums of graph and acoustic costs."""
    fst = lattice.fst
    if fst.start == NO_STATE:
        return fst
    final = np.where(fst.final < np.inf, fst.final + lattice.final_acoustic_cost, NOT_FINAL)
    return replace(fst, cost=fst.cost + lattice.acoustic_cost, final=final.astype(np.float32), properties=None)
