"""Expands phones into pdfs as Kaldi does for denominator graphs, in the same order of states and arcs.

OpenFst's minimization depends on these orders, and rounds costs: only the same graph gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.expansion import windows_of_phones
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first, trimmed, with_labels
from nnet3.training.chain.graphs.local_epsilons import AcceptorArc, arcs_of_states, fst_of, without_local_epsilons
from nnet3.training.chain.graphs.openfst import OpenFst, without_epsilons
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms, TransitionTables

_LOOP = -1  # in the place of an HMM: between phones


@dataclass(frozen=True)
class _Hmm:
    """The arcs and the cost of ending of each state; `begins_with_arc`: the only arc of the first state begins it."""

    arcs: list[list[AcceptorArc]]
    final: list[np.float32]

    @classmethod
    def of(cls, fst: Fst) -> _Hmm:
        """Returns an HMM without the epsilons that states without emissions leave by."""
        fst = without_local_epsilons(fst)
        return cls(arcs_of_states(fst), list(fst.final))

    @property
    def begins_with_arc(self) -> bool:
        return len(self.arcs[0]) == 1 and all(arc.dst != 0 for arcs in self.arcs for arc in arcs)


def pdfs_of_phones(phones: Fst, hmms: PhoneHmms) -> Fst:
    """Returns an acceptor of pdf + 1, one a frame, for an acceptor of phones; without epsilons, trimmed.

    Raises TrainingError if the tree or the transition model lacks something.
    """
    if not phones.is_acceptor:
        raise TrainingError("the FST of phones must be an acceptor: both labels of each arc the same")
    tree, tables = hmms.tree, hmms.transitions
    windows, table = windows_of_phones(without_epsilons(phones), tree.context_width, tree.central_position)
    ids = trimmed(_composed(numbered_breadth_first(windows), _hmms_of_windows(table, hmms)))
    if ids.num_states == 0:
        return ids
    ids = _with_self_loops(ids, tables)
    pdfs = without_local_epsilons(with_labels(ids, tables.pdf_of_id[ids.ilabel] + 1))
    return OpenFst.of(pdfs).without_epsilons().fst()


def _hmms_of_windows(windows: np.ndarray, hmms: PhoneHmms) -> list[tuple[int, _Hmm]]:
    """Returns the HMM of each window, with a number: windows with the same pdfs of the same phone share theirs."""
    entries = hmms.entries(windows[:, hmms.tree.central_position])
    made: list[tuple[int, _Hmm] | None] = [None] * len(windows)
    count = 0
    for entry in np.unique(entries).tolist():
        rows = np.flatnonzero(entries == entry)
        found = hmms.arcs(entry, windows[rows])
        key = np.column_stack([windows[rows, hmms.tree.central_position], found.transition_id])
        _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
        models = []
        for row in first.tolist():
            final = np.append(np.full(found.num_states - 1, np.inf), 0)
            fst = Fst.from_arcs(0, final, found.src, found.dst, found.transition_id[row], found.cost[row])
            models.append((count, _Hmm.of(fst)))
            count += 1
        for row, of_model in zip(rows.tolist(), number.reshape(-1).tolist(), strict=True):
            made[row] = models[of_model]
    return [each for each in made if each is not None]


def _composed(windows: Fst, hmms: list[tuple[int, _Hmm]]) -> Fst:
    """Replaces windows by HMMs without self-loops. Behind a phone comes an epsilon.

    HMMs that have the same number and lead to the same state share their inner states; states are numbered as they
    are found.
    """
    models = dict(hmms)
    number: dict[tuple[int, int, int], int] = {}
    states: list[tuple[int, int, int]] = []  # HMM, its state, state of `windows`

    def state(*key: int) -> int:
        found = number.setdefault(key, len(states))  # type: ignore[arg-type]
        if found == len(states):
            states.append(key)  # type: ignore[arg-type]
        return found

    def leaving(model: int, at: int, place: int) -> Iterator[AcceptorArc]:
        if model != _LOOP:
            yield from (
                AcceptorArc(arc.label, arc.cost, state(model, arc.dst, place)) for arc in models[model].arcs[at]
            )
            if models[model].final[at] < np.inf:
                yield AcceptorArc(0, models[model].final[at], state(_LOOP, 0, place))
            return
        for arc in range(windows.offsets[place], windows.offsets[place + 1]):
            label, cost, dst = int(windows.ilabel[arc]), windows.cost[arc], int(windows.dst[arc])
            if label == 0:
                yield AcceptorArc(0, cost, state(_LOOP, 0, dst))
                continue
            entered, hmm = hmms[label - 1]
            if hmm.begins_with_arc:
                (first,) = hmm.arcs[0]
                yield AcceptorArc(first.label, first.cost + cost, state(entered, first.dst, dst))
            else:
                yield AcceptorArc(0, cost, state(entered, 0, dst))

    state(_LOOP, 0, windows.start)
    arcs = [list(leaving(*key)) for key in states]  # which grows
    final = [windows.final[place] if model == _LOOP else NOT_FINAL for model, _, place in states]
    return fst_of(0, final, arcs)


def _with_self_loops(fst: Fst, tables: TransitionTables) -> Fst:
    """Adds self-loops behind transitions; what leaves a state is multiplied by the probability of leaving the loop.

    A state into which transitions of several transition-states lead gets a state before it for each of them.
    """
    entered = tables.state_of_id[fst.ilabel]
    by_state = np.append(fst.dst, fst.start), np.append(entered, 0)
    lowest, highest = np.full(fst.num_states, tables.num_ids), np.zeros(fst.num_states, np.int64)
    np.minimum.at(lowest, *by_state)
    np.maximum.at(highest, *by_state)
    changed = np.flatnonzero((fst.ilabel != 0) & (lowest < highest)[fst.dst])
    key = fst.dst[changed].astype(np.int64) * (len(tables.self_loop) + 1) + entered[changed]
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = fst.num_states + np.arange(len(order))
    dst, behind = fst.dst.copy(), fst.dst[changed][first[order]]
    dst[changed] = place[number.reshape(-1)]
    state = np.concatenate([np.where(lowest == highest, highest, 0), entered[changed][first[order]]])
    src = np.concatenate([fst.src, fst.num_states + np.arange(len(behind))])
    costs = np.concatenate([fst.cost, np.zeros(len(behind), np.float32)])
    final = np.concatenate([fst.final, np.full(len(behind), NOT_FINAL)])
    leaving = np.where(state > 0, tables.leaving_cost[state], 0).astype(np.float32)
    looping = np.flatnonzero(tables.self_loop[state])
    return Fst.from_arcs(
        fst.start,
        final + leaving,
        np.concatenate([src, looping]),
        np.concatenate([dst, behind, looping]),
        np.concatenate([fst.ilabel, np.zeros(len(behind), np.int64), tables.self_loop[state[looping]]]),
        np.concatenate([costs + leaving[src], tables.loop_cost[state[looping]].astype(np.float32)]),
    )
