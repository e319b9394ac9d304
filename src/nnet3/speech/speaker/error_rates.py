"""How well scores tell trials of one speaker, targets, from trials of two: equal error rate, detection cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index.given_numbers import real_numbers
from nnet3.errors import ArgumentError, Nnet3Error, shown
from nnet3.speech.arrays.aliases import Doubles, Flags

Scores = npt.NDArray[np.floating]


def equal_error_rate(targets: Scores, others: Scores) -> tuple[float, float]:
    """Returns the error rate at which misses and false alarms are equally frequent, and the threshold.

    targets, others: scores of trials of one speaker, and of two, (n,) and (m,). The threshold is the lowest target with
    at most as large a share of others above as of targets below; the rate is the share of targets below. Raises
    Nnet3Error without targets or others.
    """
    targets, others = _checked(targets), _checked(others)
    _check(targets, others)
    rising, falling = np.sort(targets), np.sort(others)[::-1]
    position = np.arange(len(rising))
    opposite = (len(others) * position / len(rising)).astype(np.int64)
    is_above = falling[np.minimum(opposite, len(others) - 1)] < rising
    is_above[-1] = True
    found = int(np.argmax(is_above))
    return found / len(rising), float(rising[found])


def detection_cost(
    scores: Scores, is_target: Flags, target_share: float = 0.01, miss_cost: float = 1.0, alarm_cost: float = 1.0
) -> tuple[float, float]:
    """Returns the least detection cost over all thresholds, and its threshold.

    Cost at a threshold: `miss_cost` * `target_share` * share of targets at or below, plus `alarm_cost` *
    (1 - `target_share`) * share of others above; divided by the cost of a constant answer, the cheaper one. Raises
    Nnet3Error without targets or others.
    """
    scores, is_target = _checked(scores), np.asarray(is_target)
    if is_target.shape != scores.shape or is_target.dtype != bool:
        raise ArgumentError(f"is_target must be {len(scores)} truth values, one for each score, got {shown(is_target)}")
    _check(scores[is_target], scores[~is_target])
    order = np.argsort(scores, kind="stable")
    misses = np.cumsum(is_target[order]) / is_target.sum()
    alarms = 1 - np.cumsum(~is_target[order]) / (~is_target).sum()
    costs = miss_cost * misses * target_share + alarm_cost * alarms * (1 - target_share)
    least = int(np.argmin(costs))
    same_answer = min(miss_cost * target_share, alarm_cost * (1 - target_share))
    return float(costs[least] / same_answer), float(scores[order[least]])


def _checked(scores: Scores) -> Doubles:
    found = real_numbers(scores, "scores must be numbers")
    if found.ndim != 1:
        raise ArgumentError(f"scores must be an array (n,), got {found.shape}")
    return found


def _check(targets: Scores, others: Scores) -> None:
    if not len(targets) or not len(others):
        raise Nnet3Error(f"there are no {'other' if len(targets) else 'target'} trials: both kinds are needed")
    if np.isnan(targets).any() or np.isnan(others).any():
        raise Nnet3Error("a score is a NaN")
