"""Sums over the paths of acceptors in the log domain, over all arcs of a frame at once, of all sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Arcs:
    """Arcs from the states of a frame boundary to the states of the next; all tensors are (arcs,).

    `before` and `after`: numbers of states within their boundary. `cost`: float64. `position`: the arc's score as an
    element of the output, counted along one long row.
    """

    before: Tensor
    after: Tensor
    cost: Tensor
    position: Tensor
    sequence: Tensor


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of paths at a frame boundary: states there, their costs (float64) and sequences, all (states,)."""

    state: Tensor
    cost: Tensor
    sequence: Tensor


@dataclass(frozen=True, eq=False)
class Trellis:
    """Paths over frames: `arcs[t]` lead from boundary t to boundary t + 1; `ends[t]` or None for each boundary.

    `first_position[t]` is added to the positions of `arcs[t]`. All paths begin at boundary 0, at the states `starts`,
    with cost 0, and each sequence has its own states. `num_states` of each boundary.
    """

    num_sequences: int
    num_states: Sequence[int]
    starts: Tensor
    arcs: Sequence[Arcs]
    first_position: Sequence[int]
    ends: Sequence[Ends | None]


@dataclass(frozen=True, eq=False)
class PathSums:
    """`log_probs` (sequences,) float64: log of the sum over paths of exp(scores - costs).

    `posteriors` float64 and `positions`, both (arcs of all frames,): the share of a sequence's paths through
    each arc, and the arc's element of the output; an element may occur often.
    """

    log_probs: Tensor
    posteriors: Tensor
    positions: Tensor


@torch.no_grad()
def sum_paths(trellis: Trellis, output: Tensor) -> PathSums:
    """Runs forward and backward in float64 over `output` of any shape; sequences without a path have -inf."""
    flat = output.reshape(-1)
    positions = [arcs.position + first for arcs, first in zip(trellis.arcs, trellis.first_position, strict=True)]
    scores = [flat[position].double() - arcs.cost for position, arcs in zip(positions, trellis.arcs, strict=True)]
    before = _impossible(trellis.num_states[0], flat)
    before[trellis.starts] = 0.0
    alphas = [before]
    for arcs, score, count in zip(trellis.arcs, scores, trellis.num_states[1:], strict=True):
        alphas.append(log_sums(alphas[-1][arcs.before] + score, arcs.after, count))
    log_probs = _log_probs(trellis, alphas)
    beta = _at_ends(trellis, len(trellis.arcs), flat)
    posteriors = []
    for t in reversed(range(len(trellis.arcs))):
        arcs = trellis.arcs[t]
        onward = scores[t] + beta[arcs.after]
        posteriors.append((alphas[t][arcs.before] + onward - log_probs[arcs.sequence]).exp_())
        beta = log_sums(onward, arcs.before, trellis.num_states[t])
        if trellis.ends[t] is not None:
            beta = torch.logaddexp(beta, _at_ends(trellis, t, flat))
    return PathSums(log_probs, torch.cat(posteriors[::-1]), torch.cat(positions))


def log_sums(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Returns log of the sum of exp(values) over each group, (num_groups,); -inf for a group without values."""
    largest = values.new_full((num_groups,), -torch.inf).scatter_reduce_(0, group, values, "amax")
    base = torch.where(largest == -torch.inf, 0.0, largest)
    sums = torch.zeros_like(base).index_add_(0, group, (values - base[group]).exp_())
    return sums.log_().add_(base)


def _log_probs(trellis: Trellis, alphas: list[Tensor]) -> Tensor:
    values = [alpha[ends.state] - ends.cost for alpha, ends in zip(alphas, trellis.ends, strict=True) if ends]
    sequences = [ends.sequence for ends in trellis.ends if ends]
    return log_sums(torch.cat(values), torch.cat(sequences), trellis.num_sequences)


def _at_ends(trellis: Trellis, boundary: int, like: Tensor) -> Tensor:
    beta = _impossible(trellis.num_states[boundary], like)
    ends = trellis.ends[boundary]
    if ends is not None:
        beta[ends.state] = -ends.cost
    return beta


def _impossible(count: int, like: Tensor) -> Tensor:
    return torch.full((count,), -torch.inf, dtype=torch.float64, device=like.device)
