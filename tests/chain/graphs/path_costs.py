"""Slow and obvious: what label sequences cost, which ones an FST accepts, and the denominator of the objective."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import torch

from nnet3.kaldi_io import Fst

Labels = tuple[int, ...]
#: A denominator graph of three states, of which tests say what is to come out
WORKED_GRAPH = Fst.from_arcs(
    0,
    [np.inf, np.inf, -np.log(0.2)],
    [0, 0, 1, 1, 2, 2],
    [1, 2, 1, 2, 2, 1],
    [1, 2, 1, 3, 2, 1],
    -np.log([0.6, 0.4, 0.5, 0.4, 0.3, 0.5]),
)


def _closure(fst: Fst, costs: dict[int, float], add: Callable[[float, float], float]) -> dict[int, float]:
    """With what epsilon arcs lead to. Epsilon arcs must make no cycles."""
    result: dict[int, float] = {}
    waiting = list(costs.items())
    while waiting:
        state, cost = waiting.pop()
        result[state] = add(result[state], cost) if state in result else cost
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            if fst.ilabel[arc] == 0:
                waiting.append((int(fst.dst[arc]), cost + float(fst.cost[arc])))
    return result


def _step(fst: Fst, costs: dict[int, float], label: int, add: Callable[[float, float], float]) -> dict[int, float]:
    following: dict[int, float] = {}
    for state, cost in costs.items():
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            if fst.ilabel[arc] == label:
                dst, new = int(fst.dst[arc]), cost + float(fst.cost[arc])
                following[dst] = add(following[dst], new) if dst in following else new
    return _closure(fst, following, add)


def log_add(first: float, second: float) -> float:
    """Of costs."""
    return -float(np.logaddexp(-first, -second))


def cost_of(fst: Fst, labels: Labels, add: Callable[[float, float], float] = min, ending: bool = True) -> float:
    """What a label sequence costs: the best path, or with `log_add` all paths together; infinite if there is none."""
    if fst.num_states == 0:
        return math.inf
    costs = _closure(fst, {fst.start: 0.0}, add)
    for label in labels:
        costs = _step(fst, costs, label, add)
    total = math.inf
    for state, cost in costs.items():
        end = cost + float(fst.final[state]) if ending else cost
        total = add(total, end) if total < math.inf else end
    return total


def language(fst: Fst, longest: int, most: int = 100_000) -> dict[Labels, float]:
    """All label sequences of at most `longest` labels that it accepts, with the cost of the best path."""
    found: dict[Labels, float] = {}
    front: dict[Labels, dict[int, float]] = {(): _closure(fst, {fst.start: 0.0}, min)} if fst.num_states else {}
    for _ in range(longest + 1):
        following: dict[Labels, dict[int, float]] = {}
        for labels, costs in front.items():
            ends = [cost + float(fst.final[state]) for state, cost in costs.items() if fst.final[state] < np.inf]
            if ends:
                found[labels] = min(ends)
            arcs = {int(fst.ilabel[a]) for s in costs for a in range(fst.offsets[s], fst.offsets[s + 1])} - {0}
            following.update({(*labels, label): _step(fst, costs, label, min) for label in arcs})
        front = following
        assert len(front) <= most, "too many sequences for this oracle"
    return found


def random_sequence(fst: Fst, random: np.random.Generator, length: int) -> Labels:
    """Labels along a random path of `length` arcs from the start, or of fewer if it comes to a dead end."""
    state = fst.start
    labels: list[int] = []
    while len(labels) < length and fst.offsets[state] < fst.offsets[state + 1]:
        arc = int(random.integers(fst.offsets[state], fst.offsets[state + 1]))
        state = int(fst.dst[arc])
        labels += [int(fst.ilabel[arc])] * int(fst.ilabel[arc] > 0)
    return tuple(labels)


def slow_initial(fst: Fst) -> np.ndarray:
    """The initial probabilities of a denominator graph's states, (states,)."""
    leaving = np.exp(-fst.final.astype(float))
    for src, cost in zip(fst.src, fst.cost, strict=True):
        leaving[src] += math.exp(-cost)
    current = np.zeros(fst.num_states)
    current[fst.start] = 1
    mean = np.zeros(fst.num_states)
    for _ in range(100):
        mean += current / 100
        following: dict[int, float] = defaultdict(float)
        for src, dst, cost in zip(fst.src, fst.dst, fst.cost, strict=True):
            following[int(dst)] += current[src] * math.exp(-cost) / leaving[src]
        current = np.array([following[state] for state in range(fst.num_states)])
        current /= current.sum()
    return mean


def slow_denominator(fst: Fst, outputs: np.ndarray, leak: float) -> tuple[float, np.ndarray]:
    """log p_den of one sequence of outputs (frames, pdfs), and its derivative by them, in float64."""
    y = torch.tensor(outputs, dtype=torch.float64, requires_grad=True)
    initial = torch.tensor(slow_initial(fst), dtype=torch.float64)
    probability = torch.tensor(np.exp(-fst.cost.astype(float)))
    src, dst, pdf = (torch.tensor(array.astype(np.int64)) for array in (fst.src, fst.dst, fst.ilabel - 1))
    alpha, log_total = initial, torch.zeros((), dtype=torch.float64)
    for frame in y:
        total = alpha.sum()
        log_total = log_total + total.log()
        leaky = alpha + leak * total * initial
        flow = leaky[src] * probability * frame[pdf].exp() / total
        alpha = torch.zeros_like(initial).index_add(0, dst, flow)
    log_total = log_total + (alpha.sum() * (1 + leak * initial.sum())).log()
    log_total.backward()
    assert y.grad is not None
    return float(log_total.detach()), y.grad.numpy()


def check_same_language(first: Fst, second: Fst) -> None:
    """Fail unless both accept the same label sequences, by walking through both at the same time."""
    start = tuple(frozenset(_closure(fst, {fst.start: 0.0}, min)) for fst in (first, second))
    seen, waiting = {start}, [start]
    while waiting:
        sets = waiting.pop()
        ends = [any(fst.final[s] < np.inf for s in states) for fst, states in zip((first, second), sets, strict=True)]
        assert ends[0] == ends[1], f"only one of them may end in {sets}"
        labels = [
            {int(fst.ilabel[a]) for s in states for a in range(fst.offsets[s], fst.offsets[s + 1])} - {0}
            for fst, states in zip((first, second), sets, strict=True)
        ]
        assert labels[0] == labels[1], f"different labels may follow in {sets}"
        for label in labels[0]:
            following = tuple(
                frozenset(_step(fst, dict.fromkeys(states, 0.0), label, min))
                for fst, states in zip((first, second), sets, strict=True)
            )
            if following not in seen:
                seen.add(following)
                waiting.append(following)
