"""Search graphs from a look-ahead graph and a language model, which together would be too large to be one graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.asr.language_model import BackoffModel
from nnet3.asr.search_graph import arcs_leaving, epsilons_first
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_const import LabelReach

Integers = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]
_MOST_STATES = 20_000_000


@dataclass(frozen=True, eq=False)
class LookaheadGraph:
    """HCLr: transition-ids in, words out, with the words that each state can come to next; `disambiguation` symbols are
    input labels that take no row."""

    fst: Fst
    reach: LabelReach
    disambiguation: Integers

    def input_labels(self) -> Integers:
        """The input labels with 0 in the place of disambiguation symbols, (arcs,)."""
        labels = self.fst.ilabel
        return np.where(np.isin(labels, self.disambiguation), 0, labels).astype(np.int32)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """A graph whose words cost what they do without a history, as early as it can be known which one comes.

    The costs that rescoring takes back: cost_of_word, (labels,), 0 for label 0; end_cost; and start_cost, which is
    missing in the cost of every path.
    """

    fst: Fst
    cost_of_word: Floats
    end_cost: float
    start_cost: float


def first_pass(graph: LookaheadGraph, model: BackoffModel) -> FirstPass:
    """Adds costs of words to a look-ahead graph.

    A state's potential is the cost of any of the words that may come next, -log sum exp(-cost): a phone that begins
    only some words costs what these are rarer than all, so that a pause does not seem to be the beginning of a frequent
    word. Arcs get the cost of their word, and the potential of the state that they lead to less that of the one that
    they leave.
    """
    fst, reach = graph.fst, graph.reach
    cost_of_word = model.word_costs(max(reach.final_label, fst.largest_label) + 1)
    end_cost = float(model.end(np.array([model.most_general]))[0])
    next_cost = cost_of_word.copy()
    next_cost[reach.final_label] = end_cost
    potential = _cost_of_any(next_cost, reach)
    cost_of_word[0] = 0
    if not np.isfinite(potential[fst.start]):
        raise ModelFormatError("the look-ahead graph has no word of the language model: do they belong together?")
    with np.errstate(invalid="ignore"):
        cost = fst.cost + cost_of_word[fst.olabel] + potential[fst.dst] - potential[fst.src]
        final = fst.final + np.float32(end_cost) - potential
    possible = np.flatnonzero(np.isfinite(cost))
    final = np.where(np.isfinite(final), final, np.float32(np.inf))
    ilabel = graph.input_labels()[possible]
    src, dst, olabel = (values[possible] for values in (fst.src, fst.dst, fst.olabel))
    result = Fst.from_arcs(fst.start, final, src, dst, ilabel, cost[possible], olabel)
    return FirstPass(epsilons_first(result), cost_of_word, end_cost, float(potential[fst.start]))


def _cost_of_any(costs: Floats, reach: LabelReach) -> Floats:
    """Returns -log sum exp(-cost) over the labels in the intervals of each state; infinite without intervals."""
    least = _least_of_states(costs, reach)
    sums = np.append(0, np.cumsum(np.exp(-costs.astype(np.float64))))
    some = np.flatnonzero(np.diff(reach.offsets))
    mass = np.zeros(len(least))
    if len(some):
        mass[some] = np.add.reduceat(sums[reach.end] - sums[reach.begin], reach.offsets[some])
    with np.errstate(divide="ignore"):  # what is too rare for the sums has the least cost alone
        return np.minimum(least, -np.log(mass)).astype(np.float32)


def _least_of_states(values: Floats, reach: LabelReach) -> Floats:
    """Returns the least of `values`, (labels,), in the intervals of each state; infinite without intervals."""
    least = np.full(len(reach.begin), np.inf, np.float32)
    lengths = reach.end - reach.begin
    if reach.end.max(initial=0) > len(values):
        raise ModelFormatError("the look-ahead data of the graph names labels that the graph does not have")
    level, width = values, 1  # level[i]: the least of values[i : i + width]
    while True:
        some = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        least[some] = np.minimum(level[reach.begin[some]], level[reach.end[some] - width])
        if 2 * width > lengths.max(initial=0):
            break
        level, width = np.minimum(level[:-width], level[width:]), 2 * width
    counts = np.diff(reach.offsets)
    result = np.full(len(counts), np.inf, np.float32)
    some = np.flatnonzero(counts)
    if len(some):
        result[some] = np.minimum.reduceat(least, reach.offsets[some])
    return result


def composed(graph: LookaheadGraph, model: BackoffModel) -> Fst:
    """Returns the graph of all that a small language model allows, without states that lead to no end of it.

    States are pairs of one of the graph and one of the model, found breadth-first, where a next word, or the end, is
    possible for both. Back-offs are taken together with the word behind them.
    """
    fst, width = graph.fst, model.num_states
    ilabel = graph.input_labels()
    known = np.array([fst.start * width + model.start], np.int64)  # sorted pairs
    number_of_known = np.zeros(1, np.int64)
    front, count = known, 1
    pairs, arcs = [known], []
    while len(front):
        state, history = np.divmod(front, width)
        first = count - len(front)
        from_fst, place = arcs_leaving(fst.offsets, state)
        word = fst.olabel[from_fst]
        silent = np.flatnonzero(word == 0)
        spoken = np.flatnonzero(word)
        steps = model.read(history[place[spoken]], word[spoken].astype(np.int64))
        arc = np.concatenate([from_fst[silent], from_fst[spoken][steps.place]])
        src = np.concatenate([place[silent], place[spoken][steps.place]])
        target = fst.dst[arc] * np.int64(width) + np.concatenate([history[place[silent]], steps.state])
        cost = fst.cost[arc] + np.concatenate([np.zeros(len(silent)), steps.cost])
        useful = _can_go_on(graph, model, target)
        arc, src, target, cost = arc[useful], src[useful], target[useful], cost[useful]
        new = np.setdiff1d(target, known)
        if count + len(new) > _MOST_STATES:
            raise ModelFormatError(f"the grammar makes a graph of more than {_MOST_STATES} states")
        merged = np.concatenate([known, new])
        order = np.argsort(merged, kind="stable")
        number_of_known = np.concatenate([number_of_known, np.arange(count, count + len(new))])[order]
        known = merged[order]
        arcs.append((src + first, number_of_known[np.searchsorted(known, target)], arc, cost))
        pairs.append(new)
        front, count = new, count + len(new)
    state, history = np.divmod(np.concatenate(pairs), width)
    final = (fst.final[state] + model.end(history)).astype(np.float32)
    src, dst, arc, cost = (np.concatenate(column) for column in zip(*arcs, strict=True))
    return Fst.from_arcs(0, final, src, dst, ilabel[arc], cost, fst.olabel[arc])


def _can_go_on(graph: LookaheadGraph, model: BackoffModel, pairs: Integers) -> Integers:
    """Returns which pairs have a next word in common, or can both end."""
    reach = graph.reach
    state, history = np.divmod(pairs, model.num_states)
    interval, place = arcs_leaving(reach.offsets, state)
    begin, end = (edges[interval].astype(np.int64) for edges in (reach.begin, reach.end))
    can = model.reads_any(history[place], begin, np.minimum(end, reach.final_label))
    ending = np.flatnonzero(end > reach.final_label)
    can[ending] |= model.end(history[place[ending]]) < np.inf
    return np.unique(place[can])
