"""Expands phones into transition-ids: into phones in context, then into HMMs, then with self-loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.fst_changes import split_states, with_labels
from nnet3.training.chain.graphs.openfst import without_epsilons
from nnet3.training.chain.graphs.phone_hmms import HmmArcs, PhoneHmms, TransitionTables


def windows_of_phones(phones: Fst, width: int, central: int) -> tuple[Fst, npt.NDArray[np.int32]]:
    """Returns paths of windows for paths of phones: label k + 1 is row k of the windows, (windows, width) int32.

    A window has its own phone at position `central`, and 0 where there is no phone. `phones` must have no epsilons.
    With right context a window is known only when the phones behind have come: then paths begin with epsilons and go on
    behind the end.
    """
    fst = _with_end(phones, width - 1 - central)
    history = np.zeros((fst.num_states, 0), np.int32)  # the last phones before each state, the latest last
    for size in range(width - 1):
        split = split_states(fst, history[fst.src, 0] if size else fst.ilabel)
        fst = split.fst
        history = np.column_stack([split.class_of_state.astype(np.int32), history[split.old_state]])
    windows = np.column_stack([history[fst.src], fst.ilabel])  # (arcs, width)
    known = windows[:, central] != 0
    distinct, number = np.unique(windows[known], axis=0, return_inverse=True)
    labels = np.zeros(fst.num_arcs, np.int32)
    labels[known] = number.reshape(-1) + 1
    return with_labels(fst, labels), distinct


def _with_end(phones: Fst, count: int) -> Fst:
    """Adds `count` arcs of label 0 behind every final state, for the positions after the last phone."""
    if count == 0:
        return phones
    states = phones.num_states
    final = np.full(states + count, np.inf, np.float32)
    final[-1] = 0
    ends = np.flatnonzero(phones.final < np.inf)
    behind = np.arange(states, states + count)
    return Fst.from_arcs(
        phones.start,
        final,
        np.concatenate([phones.src, ends, behind[:-1]]),
        np.concatenate([phones.dst, np.full(len(ends), states), behind[1:]]),
        np.concatenate([phones.ilabel, np.zeros(len(ends) + count - 1, np.int32)]),
        np.concatenate([phones.cost, phones.final[ends], np.zeros(count - 1, np.float32)]),
    )


def transition_ids_of_phones(phones: Fst, hmms: PhoneHmms, scale: float) -> Fst:
    """Returns an acceptor of transition-ids, one a frame, for one of phones.

    `scale` multiplies the costs of transitions and self-loops; those of `phones` are kept. TrainingError if the tree or
    the transition model lacks something.
    """
    if phones.num_states == 0:
        return phones
    if not phones.is_acceptor:
        raise TrainingError("the FST of phones must be an acceptor: both labels of each arc the same")
    tree = hmms.tree
    windows, table = windows_of_phones(without_epsilons(phones), tree.context_width, tree.central_position)
    return with_self_loops(with_hmms(windows, table, hmms, scale), hmms.transitions, scale)


def with_hmms(fst: Fst, windows: np.ndarray, hmms: PhoneHmms, scale: float) -> Fst:
    """Replaces each arc of a window by its phone's HMM without self-loops, entered and left where the arc was.

    Output labels of a transducer stand where HMMs are entered. Arcs of labels above those of the windows stay, and have
    the labels above the transition-ids.
    """
    kept = (fst.ilabel == 0) | (fst.ilabel > len(windows))
    label = np.where(kept, 0, fst.ilabel)
    others = np.where(fst.ilabel == 0, 0, fst.ilabel - len(windows) + hmms.transitions.num_ids)
    words = np.zeros_like(fst.ilabel) if fst.is_acceptor else fst.olabel
    pieces: list[tuple[np.ndarray, ...]] = [(fst.src[kept], fst.dst[kept], others[kept], fst.cost[kept], words[kept])]
    states = fst.num_states
    entries = hmms.entries(windows[:, hmms.tree.central_position])
    for entry in np.unique(entries).tolist():
        of_entry = np.flatnonzero(entries == entry)
        row = np.full(len(windows) + 1, -1)
        row[of_entry + 1] = np.arange(len(of_entry))
        arcs = np.flatnonzero(row[label] >= 0)
        found = hmms.arcs(entry, windows[of_entry])
        replaced = (row[label[arcs]], fst.src[arcs], fst.dst[arcs], fst.cost[arcs], words[arcs])
        pieces += _copies(found, *replaced, states, scale)
        states += len(arcs) * _num_inner_states(found)
    src, dst, labels, costs, words = (np.concatenate(column) for column in zip(*pieces, strict=True))
    final = np.full(states, np.inf, np.float32)
    final[: fst.num_states] = fst.final
    return Fst.from_arcs(fst.start, final, src, dst, labels, costs, None if fst.is_acceptor else words)


def _returns(hmm: HmmArcs) -> bool:
    """Returns true if the HMM goes back to its first state: each copy then needs a first state of its own."""
    return bool((hmm.dst == 0).any())


def _num_inner_states(hmm: HmmArcs) -> int:
    return hmm.num_states - 2 + _returns(hmm)


def _copies(
    hmm: HmmArcs,
    row: np.ndarray,
    src: np.ndarray,
    dst: np.ndarray,
    cost: np.ndarray,
    words: np.ndarray,
    first: int,
    scale: float,
) -> list[tuple[np.ndarray, ...]]:
    """Returns the arcs of copies of the HMM, one for each arc src -> dst with window `row`; inner states from `first`
    on."""
    inner = _num_inner_states(hmm)
    state = np.empty((len(src), hmm.num_states), np.int64)  # of each copy
    state[:, hmm.num_states - 1 - inner : -1] = first + np.arange(len(src) * inner).reshape(len(src), inner)
    state[:, -1] = dst
    pieces = []
    if _returns(hmm):
        pieces.append((src, state[:, 0].copy(), np.zeros(len(src), np.int64), cost, words))
        cost, words = np.zeros_like(cost), np.zeros_like(words)
    else:
        state[:, 0] = src
    costs = scale * hmm.cost[row] + np.where(hmm.src == 0, cost[:, None], 0)
    said = np.where(hmm.src == 0, words[:, None], 0)
    arcs = (state[:, hmm.src], state[:, hmm.dst], hmm.transition_id[row], costs, said)
    return [*pieces, tuple(array.reshape(-1) for array in arcs)]


def with_self_loops(fst: Fst, tables: TransitionTables, scale: float) -> Fst:
    """Adds, behind each transition, any number of self-loops of the state it left.

    Arcs and ends behind a transition are multiplied by the probability of leaving the loop, to the power `scale`.
    """
    split = split_states(fst, tables.state_of_id[fst.ilabel])
    new, state = split.fst, split.class_of_state  # transition-states
    leaving = np.where(state > 0, scale * tables.leaving_cost[state], 0) if scale else np.zeros(len(state))
    loop = tables.self_loop[state]
    looping = np.flatnonzero(loop)
    words = None if fst.is_acceptor else np.concatenate([fst.olabel[split.old_arc], np.zeros(len(looping), np.int32)])
    loop_cost = scale * tables.loop_cost[state[looping]] if scale else np.zeros(len(looping))
    return Fst.from_arcs(
        new.start,
        new.final + leaving,
        np.concatenate([new.src, looping]),
        np.concatenate([new.dst, looping]),
        np.concatenate([new.ilabel, loop[looping]]),
        np.concatenate([new.cost + leaving[new.src], loop_cost]),
        words,
    )


def with_self_loops_first(fst: Fst, tables: TransitionTables, scale: float) -> Fst:
    """Adds, before each transition, any number of self-loops of the state it leaves; else as `with_self_loops`."""
    return backwards(with_self_loops(backwards(fst), tables, scale))


def backwards(fst: Fst) -> Fst:
    """Turns all paths around: epsilons lead from a new start, behind the other states, to where paths ended."""
    ends = np.flatnonzero(fst.final < np.inf)
    states, none = fst.num_states, np.zeros(len(ends), np.int32)
    final = np.full(states + 1, np.inf, np.float32)
    final[fst.start] = 0.0
    return Fst.from_arcs(
        states,
        final,
        np.concatenate([fst.dst, np.full(len(ends), states)]),
        np.concatenate([fst.src, ends]),
        np.concatenate([fst.ilabel, none]),
        np.concatenate([fst.cost, fst.final[ends]]),
        None if fst.is_acceptor else np.concatenate([fst.olabel, none]),
    )
