"""Words and phones for models without a decoding graph: the best label of each row, and loops of phones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import ArgumentError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Integers


class LabelRun(NamedTuple):
    """Labels of a CTC network, with rows begin .. end - 1 and mean probability in these rows, (labels,) each."""

    label: Integers
    begin: Integers
    end: Integers
    confidence: npt.NDArray[np.floating]


def greedy_labels(scores: npt.NDArray[np.floating], blank: int | None = 0) -> LabelRun:
    """Returns the best label of each row of scores (rows, labels), where equal neighbours count once.

    Scores are logarithms of likelihoods, of any constant per row. Rows of `blank` are left out (None: there is none).
    """
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ArgumentError(f"scores must be a matrix of (rows, labels), got the shape {scores.shape}")
    best = scores.argmax(axis=1)
    highest = scores.max(axis=1, keepdims=True)
    probability = 1 / np.exp(scores - highest).sum(axis=1)
    begin = np.flatnonzero(np.append(True, best[1:] != best[:-1])[: len(best)])
    end = np.append(begin[1:], len(best))[: len(begin)]
    label = best[begin]
    confidence = np.add.reduceat(probability, begin) / (end - begin) if len(begin) else probability
    spoken = label != blank if blank is not None else np.ones(len(label), bool)
    return LabelRun(label[spoken], begin[spoken], end[spoken], confidence[spoken])


def phone_loop(model: TransitionModel, phone_cost: float = 0.0) -> Fst:
    """Returns the graph of all sequences of phones: transition-ids in, phones out; every phone costs `phone_cost` more.

    A phone with a context may take the pdfs of any context. Each transition costs the negative logarithm of its
    probability; self-loops come behind the transition out of their state. State 0, the only end, is between phones;
    there is a state in front of every HMM state of a phone except the first, and one behind every transition.
    """
    ids = model.transition_ids
    loops, ids = ids[model.is_self_loop(ids)], ids[~model.is_self_loop(ids)]
    flat, phone, state = model.topology.flat, model.phone(ids), model.hmm_state(ids)
    entry = model.topology.entry_of_phone[phone]
    target = flat.destination[flat.first_arc[flat.first_state[entry] + state] + model.transition_index(ids)]
    width = int(flat.num_states.max())
    source, target = phone * width + state, phone * width + target
    source[state == 0] = target[target - phone * width == flat.num_states[entry] - 1] = 0
    _, position = np.unique(np.concatenate([[0], source, target]), return_inverse=True)
    source, target = np.split(position.reshape(-1)[1:], 2)
    behind = int(position.max()) + 1 + np.arange(len(ids))
    loop_of_state = np.zeros(model.num_transition_states + 1, np.int64)
    loop_of_state[model.transition_state(loops)] = loops
    loop = loop_of_state[model.transition_state(ids)]
    some, none = np.flatnonzero(loop), np.zeros(len(ids), np.int64)
    cost = np.append(0, -model.log_probs[1:].astype(np.float64))
    final = np.full(behind[-1] + 1, np.inf)
    final[0] = 0
    return Fst.from_arcs(
        0,
        final,
        src=np.concatenate([source, behind[some], behind]),
        dst=np.concatenate([behind, behind[some], target]),
        ilabel=np.concatenate([ids, loop[some], none]),
        olabel=np.concatenate([np.where(state == 0, phone, 0), none[some], none]),
        cost=np.concatenate([cost[ids] + phone_cost * (state == 0), cost[loop[some]], none]),
    )
