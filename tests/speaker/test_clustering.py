"""Agglomerative clustering against one with a queue of pairs; costs are small integers, so that there are many ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import Nnet3Error
from nnet3.options import ClusteringOptions
from nnet3.speech.speaker.clustering import clusters_of
from tests.speaker.slow_clustering import slow_clusters


def _costs(seed: int, count: int, step: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = np.round(rng.normal(0, 4, (count, count)) / step) * step
    return ((found + found.T) / 2).astype(np.float32)


@given(seed=st.integers(0, 10**6), count=st.integers(1, 25), threshold=st.integers(-3, 4))
def test_a_threshold_ends_the_merging(seed: int, count: int, threshold: int) -> None:
    costs = _costs(seed, count)
    ours = clusters_of(costs, ClusteringOptions(threshold=threshold))
    assert ours.tolist() == slow_clusters(costs, threshold, 1, 1.0, 100)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 25),
    number=st.integers(1, 6),
    share=st.sampled_from([0.1, 0.5, 0.7, 1.0, 2.0]),
)
def test_a_number_of_clusters_ends_the_merging(seed: int, count: int, number: int, share: float) -> None:
    costs = _costs(seed, count)
    ours = clusters_of(costs, ClusteringOptions(max_spk_fraction=share), number)
    kept = share if 1 / number <= share <= 1 else 1.0
    assert ours.tolist() == slow_clusters(costs, float(np.finfo(np.float32).max), number, kept, 100)
    if kept == 1:
        assert len(set(ours.tolist())) == min(number, count)


@given(seed=st.integers(0, 10**6), count=st.integers(2, 60), most=st.integers(1, 30), threshold=st.integers(-2, 3))
def test_many_items_are_clustered_in_parts_first(seed: int, count: int, most: int, threshold: int) -> None:
    rng = np.random.default_rng(seed)
    costs = np.round(rng.normal(0, 4, (count, count))).astype(np.float32)  # not symmetric: which half counts is seen
    options = ClusteringOptions(threshold=threshold, first_pass_max_utterances=most)
    assert clusters_of(costs, options).tolist() == slow_clusters(costs, threshold, 1, 1.0, most)
    assert clusters_of(costs, options, 2).tolist() == slow_clusters(costs, np.finfo(np.float32).max, 2, 1.0, most)


def test_speakers_are_found() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(3, 8))[np.arange(600) % 3] + 0.2 * rng.normal(size=(600, 8))
    costs = ((points[:, np.newaxis] - points) ** 2).sum(axis=2).astype(np.float32)
    labels = clusters_of(costs, ClusteringOptions(), 3)
    assert len({(label, item % 3) for item, label in enumerate(labels.tolist())}) == 3


def test_no_cluster_has_more_than_its_share() -> None:
    """One cluster would take in an item after the other, as costs to the first ones are the least."""
    costs = np.arange(10)[:, np.newaxis] + np.arange(10.0, dtype=np.float32)
    alone = clusters_of(costs, ClusteringOptions(), 2).tolist()
    assert sorted(alone.count(label) for label in (1, 2)) == [1, 9]
    shared = clusters_of(costs, ClusteringOptions(max_spk_fraction=0.6), 2).tolist()
    assert sorted(shared.count(label) for label in (1, 2)) == [4, 6]
    assert shared == slow_clusters(costs, float(np.finfo(np.float32).max), 2, 0.6, 100)


def test_wrong_costs_are_refused() -> None:
    for costs in (np.zeros((2, 3), np.float32), np.zeros((0, 0), np.float32)):
        with pytest.raises(Nnet3Error, match="a matrix n x n"):
            clusters_of(costs, ClusteringOptions())
    wrong: Any
    for wrong in (0, "two", 1.5):
        with pytest.raises(Nnet3Error, match=f"must be 1 or more, got {wrong!r}"):
            clusters_of(np.zeros((2, 2), np.float32), ClusteringOptions(), wrong)


def test_costs_that_are_no_numbers_are_never_merged() -> None:
    costs = np.array([[0, np.nan, 1], [np.nan, 0, np.inf], [1, np.inf, 0]], np.float32)
    assert clusters_of(costs, ClusteringOptions(threshold=5)).tolist() == [2, 1, 2]
