"""Scales, sums and weights tables of posteriors, and makes them of log-probabilities and weights of frames."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.base.kaldi_io.table_values import (
    Posterior,
    open_matrix_table,
    open_posterior_table,
    posterior_writer,
    random_access_posteriors,
    random_access_reals,
    random_access_vectors,
    vector_writer,
)
from nnet3.base.text.values import read_number
from nnet3.cli.files import load_transitions
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.examples.c_random import CRandom

Weights = np.ndarray  # float32
Changed = Callable[[str, Posterior], Posterior]


def _write(source: str, output: str, change: Changed, done: str) -> int:
    """Writes changed posteriors; faulty ones are left out. Returns 1, an exit status, if none was written."""
    left_out = LeftOut()
    with open_posterior_table(source) as table, posterior_writer(output) as writer:
        for key, posterior in left_out.each(table, change):
            writer.write(key, posterior)
        say(f"{done} {writer.count} posteriors; {left_out.failed} left out.")
        return int(writer.count == 0)


def _frames(posterior: Posterior) -> np.ndarray:
    """Returns the frame of each weight, (weights,)."""
    return np.repeat(np.arange(len(posterior.indptr) - 1), np.diff(posterior.indptr))


def _part(posterior: Posterior, kept: np.ndarray) -> Posterior:
    """Returns the posterior with the marked weights alone, (weights,) bool; frames stay."""
    indptr = np.append(0, np.cumsum(kept))[posterior.indptr]
    return Posterior(indptr, posterior.ids[kept], posterior.weights[kept])


def _times(posterior: Posterior, factors: np.ndarray) -> Posterior:
    """Returns the posterior with the weights of each frame times its factor, (frames,); frames times 0 are empty."""
    frame = _frames(posterior)
    scaled = posterior._replace(weights=posterior.weights * factors.astype(np.float32)[frame])
    return _part(scaled, factors[frame] != 0)


def scaled(posterior: Posterior, scale: float) -> Posterior:
    """Returns the posterior with all weights times a number; 0 leaves no weights."""
    return _times(posterior, np.full(len(posterior.indptr) - 1, scale, np.float32))


def copy(source: str, output: str, scale: float) -> int:
    """Writes posteriors times a number."""
    return _write(source, output, lambda _, posterior: scaled(posterior, scale), "Copied")


def scale_each(source: str, scales: str, output: str) -> int:
    """Writes posteriors times a number, or times the number of each utterance in a table."""
    if not is_table(scales):
        return copy(source, output, _number(scales, "a scale, or a table of scales"))
    by_key = random_access_reals(scales)

    def changed(key: str, posterior: Posterior) -> Posterior:
        scale = by_key.get(key)
        if scale is None:
            raise Nnet3Error(f"{scales} has no scale for it")
        return scaled(posterior, scale)

    return _write(source, output, changed, "Scaled")


def _number(text: str, what: str) -> float:
    try:
        number = read_number(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Nnet3Error(f"'{text}': expected {what}")
    return number


def summed(first: Posterior, second: Posterior, merge: bool, drop_disjoint: bool) -> tuple[Posterior, int]:
    """Returns the weights of both posteriors by frame and id, and the number of frames without a common id.

    `merge`: adds the weights of equal ids, and drops weights of 0. `drop_disjoint`: empties frames without a common id.
    """
    frame, ids, weights = (
        np.concatenate(parts)
        for parts in ((_frames(first), _frames(second)), (first.ids, second.ids), (first.weights, second.weights))
    )
    is_second = np.arange(len(ids)) >= len(first.ids)
    order = np.lexsort((weights, ids, frame))
    frame, ids, weights, is_second = frame[order], ids[order], weights[order], is_second[order]
    is_new = np.append(True, (np.diff(frame) != 0) | (np.diff(ids) != 0))[: len(ids)]
    group, count = np.cumsum(is_new) - 1, int(is_new.sum())
    of_second = np.bincount(group, is_second, count)
    shared = (of_second > 0) & (of_second < np.bincount(group, minlength=count))
    frames = len(first.indptr) - 1
    disjoint = np.bincount(frame[is_new], shared, frames) == 0
    if merge:
        total = np.zeros(count, np.float32)
        np.add.at(total, group, weights)  # one by one in float32, as Kaldi adds
        frame, ids, weights = frame[is_new], ids[is_new], total
    indptr = np.append(0, np.cumsum(np.bincount(frame, minlength=frames)))
    kept = weights != 0 if merge else np.ones(len(weights), bool)
    if drop_disjoint:
        kept &= ~disjoint[frame]
    return _part(Posterior(indptr, ids, weights), kept), int(disjoint.sum())


def sum_two(first: str, second: str, output: str, scales: tuple[float, float], merge: bool, drop_disjoint: bool) -> int:
    """Writes the sums of posteriors of two tables, each times a scale."""
    by_key, frames, apart = random_access_posteriors(second), 0, 0

    def added(key: str, posterior: Posterior) -> Posterior:
        nonlocal frames, apart
        other = by_key.get(key)
        if other is None:
            raise Nnet3Error(f"{second} has no posterior for it")
        counts = len(posterior.indptr) - 1, len(other.indptr) - 1
        if counts[0] != counts[1]:
            raise Nnet3Error(f"it has {counts[0]} frames in {first}, and {counts[1]} in {second}")
        total, disjoint = summed(scaled(posterior, scales[0]), scaled(other, scales[1]), merge, drop_disjoint)
        frames, apart = frames + counts[0], apart + disjoint
        return total

    status = _write(first, output, added, "Summed")
    say(f"Processed {frames} frames; in {apart} of them no id was in both.")
    return status


def weight_frames(source: str, weights: str, output: str, tolerance: int) -> int:
    """Writes posteriors times the weights of their frames; frames behind the last weight become empty."""
    by_key = random_access_vectors(weights)

    def changed(key: str, posterior: Posterior) -> Posterior:
        factors, count = by_key.get(key), len(posterior.indptr) - 1
        if factors is None:
            raise Nnet3Error(f"{weights} has no weights for it")
        if abs(len(factors) - count) > tolerance:
            raise Nnet3Error(f"it has {count} frames and {len(factors)} weights")
        return _times(posterior, np.pad(factors[:count], (0, max(count - len(factors), 0))))

    return _write(source, output, changed, "Weighted")


def _sums(posterior: Posterior, weights: Weights) -> Weights:
    """Returns the sum of weights of each frame, (frames,), added in float32, one by one, as in Kaldi."""
    total = np.zeros(len(posterior.indptr) - 1, np.float32)
    np.add.at(total, _frames(posterior), weights)
    return total


def without_silence(posterior: Posterior, is_silence: np.ndarray, silence_weight: float, distribute: bool) -> Posterior:
    """Returns the posterior with the weights of marked ids, (weights,) bool, times a number.

    `distribute`: all weights of a frame times one number, the mean of the number and 1 by the share of silence.
    """
    weights, scale = posterior.weights, np.float32(silence_weight)
    if not distribute:
        changed = posterior._replace(weights=np.where(is_silence, weights * scale, weights))
        return _part(changed, ~is_silence) if scale == 0 else changed
    silent, spoken = (_sums(posterior, np.where(chosen, weights, 0)) for chosen in (is_silence, ~is_silence))
    if min(silent.min(initial=0), spoken.min(initial=0)) < 0:
        raise Nnet3Error("weights below 0 cannot be distributed")
    total = silent + spoken
    factors = np.ones_like(total)
    np.divide(silent * scale + spoken, total, out=factors, where=total != 0)
    return _times(posterior, factors)


def weight_silence(
    silence_weight: str, silence_phones: str, model: str, source: str, output: str, distribute: bool
) -> int:
    """Writes posteriors with the weights of silence phones, such as 1:2:3, times a number."""
    number = _number(silence_weight, "the weight of silence, a number")
    pieces = silence_phones.split(":") if silence_phones else []
    if not all(piece.isdecimal() for piece in pieces):
        raise Nnet3Error(f"'{silence_phones}': expected numbers of phones, such as 1:2:3")
    phones, transitions = np.array(pieces, np.int64), load_transitions(model)
    if not pieces:
        say("warning: there are no silence phones, so no weight is changed")
    change = partial(_without_phones, phones=phones, model=transitions)
    return _write(
        source,
        output,
        lambda _, posterior: without_silence(posterior, change(posterior), number, distribute),
        "Weighted silence of",
    )


def _without_phones(posterior: Posterior, phones: np.ndarray, model: TransitionModel) -> np.ndarray:
    """Returns which transition-ids belong to the phones, (weights,) bool."""
    return np.isin(model.phone(posterior.ids), phones)


def to_weights(source: str, output: str) -> int:
    """Writes the sum of weights of each frame. Returns 1, an exit status, without any posterior."""
    with open_posterior_table(source) as table, vector_writer(output) as writer:
        for key, posterior in table:
            writer.write(key, _sums(posterior, posterior.weights))
        say(f"Converted {writer.count} posteriors to weights.")
        return int(writer.count == 0)


def of_log_probs(source: str, output: str, least: float, random_prune: bool) -> int:
    """Writes probabilities of at least `least` as posteriors of column numbers. Returns 1 without any matrix.

    `random_prune`: a smaller probability becomes `least` with the probability that keeps its mean, by the numbers that
    Kaldi draws on Linux.
    """
    draws, count = CRandom(1), 0
    with open_matrix_table(source) as table, posterior_writer(output) as writer:
        for count, (key, rows) in enumerate(table, 1):  # noqa: B007
            probs = np.exp(rows)
            is_small = probs < np.float32(least)
            kept = ~is_small
            if random_prune:
                drawn = np.fromiter((draws.uniform() for _ in range(int(is_small.sum()))), np.float32)
                kept[is_small] = probs[is_small] / np.float32(least) >= drawn
            frame, ids = np.nonzero(kept)
            indptr = np.append(0, np.cumsum(np.bincount(frame, minlength=len(rows))))
            weights = np.maximum(probs[kept], np.float32(least))
            writer.write(key, Posterior(indptr, ids.astype(np.int32), weights))
    say(f"Converted {count} matrices of log-probabilities to posteriors.")
    return int(count == 0)
