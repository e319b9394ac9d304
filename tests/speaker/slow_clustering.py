"""Agglomerative clustering one pair at a time, with a queue of all pairs."""

from __future__ import annotations

import heapq
import math

import numpy as np

Pair = tuple[np.float32, int, int]


def slow_clusters(costs: np.ndarray, threshold: float, number: int, share: float, at_once: int) -> list[int]:
    """Returns the cluster of each item, from 1; of more items than `at_once` parts are clustered first."""
    count = len(costs)
    largest = math.ceil(np.float32(count) * np.float32(share))
    if count <= at_once:
        return _labels(_merged([[item] for item in range(count)], costs, threshold, number, largest), count)
    size = math.ceil(count / math.ceil(count / at_once))
    parts: list[list[int]] = []
    for start in range(0, count, size):
        items = [[item] for item in range(start, min(start + size, count))]
        parts += _merged(items, costs, threshold, 10 * number, largest)
    part_of = {item: item // size for item in range(count)}
    both = np.array(
        [
            [
                costs[min(i, j), max(i, j)] if part_of[i] == part_of[j] else costs[max(i, j), min(i, j)]
                for j in range(count)
            ]
            for i in range(count)
        ]
    )
    return _labels(_merged(parts, both, threshold, number, largest), count)


def _merged(
    clusters: list[list[int]], costs: np.ndarray, threshold: float, number: int, largest: int
) -> list[list[int]]:
    found = dict(enumerate(clusters))
    queue: list[Pair] = []

    def add(one: int, other: int) -> None:
        first, second = min(one, other), max(one, other)
        total = sum((costs[min(i, j), max(i, j)] for i in found[first] for j in found[second]), np.float32(0))
        cost = np.float32(total) / np.float32(len(found[first]) * len(found[second]))
        if cost <= np.float32(threshold):
            heapq.heappush(queue, (cost, first, second))

    for one in range(len(clusters)):
        for other in range(one + 1, len(clusters)):
            add(one, other)
    following = len(clusters)
    while len(found) > number and queue:
        _, one, other = heapq.heappop(queue)
        if one in found and other in found and len(found[one]) + len(found[other]) <= largest:
            found[following] = found.pop(one) + found.pop(other)
            for each in list(found):
                if each != following:
                    add(each, following)
            following += 1
    return [found[key] for key in sorted(found)]


def _labels(clusters: list[list[int]], count: int) -> list[int]:
    label = {item: number for number, items in enumerate(clusters, start=1) for item in items}
    return [label[item] for item in range(count)]
