"""Estimates transition probabilities, and priors of pdfs, of counted transition-ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.errors import NetworkError
from nnet3.hmm.transition_model import TransitionModel
from nnet3.options import TransitionOptions

_ROUNDS = 3  # of normalising and flooring


@dataclass(frozen=True, eq=False)
class EstimatedTransitions:
    """A transition model with new probabilities, and what the change was worth.

    `gain`: log-likelihood per frame; `frames`: their number; `skipped`: transition-states, or pdfs, of too few frames;
    `floored`: probabilities that would have been smaller.
    """

    model: TransitionModel
    gain: float
    frames: float
    skipped: int
    floored: int


def estimate_transitions(
    model: TransitionModel, counts: npt.NDArray[np.float64], options: TransitionOptions
) -> EstimatedTransitions:
    """Returns maximum-likelihood probabilities of transitions that were seen `counts` times, (transition-ids + 1,).

    Transition-states share their counts with others of the same pdf if the options say so. Raises NetworkError if such
    states have different numbers of transitions.
    """
    ids = model.transition_ids
    first = np.searchsorted(model.transition_state(ids), np.arange(1, model.num_transition_states + 1)) + 1
    sizes = np.diff(np.append(first, model.num_transition_ids + 1))
    log_probs = model.log_probs.copy()
    gain = frames = 0.0
    skipped = floored = 0
    for states in _pools(model, options.share_for_pdfs):
        if len(set(sizes[states].tolist())) > 1:
            raise NetworkError("transition-states of one pdf have different numbers of transitions: share nothing")
        pooled = first[states][:, None] + np.arange(sizes[states[0]])  # (states, transitions)
        seen = counts[pooled].sum(0)
        total = float(seen.sum())
        frames += total
        if len(seen) == 1:
            continue
        if total < options.transition_min_count:
            skipped += 1
            continue
        probabilities = seen / total
        for _ in range(_ROUNDS):
            probabilities = probabilities / probabilities.sum()
            floored += int((probabilities < options.transition_floor).sum())
            probabilities = np.maximum(probabilities, options.transition_floor)
        new = np.log(probabilities)
        gain += float((counts[pooled] * (new - log_probs[pooled])).sum())
        log_probs[pooled] = new
    estimated = TransitionModel(model.topology, model.tuples, log_probs)
    return EstimatedTransitions(estimated, gain / frames if frames else 0.0, frames, skipped, floored)


def _pools(model: TransitionModel, share: bool) -> list[npt.NDArray[np.integer]]:
    """Returns the transition-states, from 0, whose counts are added: each alone, or those of each pdf."""
    if not share:
        return [np.array([state]) for state in range(model.num_transition_states)]
    pdfs = np.unique(model.tuples[:, 2:]).tolist()
    return [np.flatnonzero((model.tuples[:, 2:] == pdf).any(1)) for pdf in pdfs]


def pdf_priors(model: TransitionModel, counts: npt.NDArray[np.float64], floor: float) -> npt.NDArray[np.float32]:
    """Returns the share of each pdf in counts (transition-ids + 1,), none below the floor, (pdfs,)."""
    of_pdf = np.bincount(model.pdf(model.transition_ids), counts[1:], model.num_pdfs)
    if of_pdf.sum() <= 0:
        raise NetworkError("there are no alignments to count pdfs in")
    shares = np.maximum(of_pdf / of_pdf.sum(), floor)
    return (shares / shares.sum()).astype(np.float32)
