"""Two passes against all paths at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.asr.lookahead import first_pass
from nnet3.asr.rescoring import rescored
from tests.asr.toy_lookahead import bigram, expected_costs, lattice_of, least_costs, lookahead_graph, random_scores


def test_two_passes_give_the_costs_of_one() -> None:
    for _ in range(8):
        graph, model, scores = lookahead_graph(), bigram(), random_scores(4)
        first = first_pass(graph, model)
        found = least_costs(rescored(lattice_of(first.fst, scores), first, model, 1000))
        expected = expected_costs(graph, model, scores)
        assert set(found) == set(expected)
        for words, cost in expected.items():
            assert found[words] == pytest.approx(cost, abs=1e-4)


def test_a_beam_keeps_the_best_path() -> None:
    for _ in range(5):
        graph, model, scores = lookahead_graph(), bigram(), random_scores(5)
        first = first_pass(graph, model)
        whole, narrow = (rescored(lattice_of(first.fst, scores), first, model, beam) for beam in (1000, 6))
        assert narrow.best_cost == pytest.approx(whole.best_cost, abs=1e-6)
        assert narrow.num_states <= whole.num_states


def test_without_an_end_words_alone_count() -> None:
    graph, model, scores = lookahead_graph(), bigram(), random_scores(3)
    first = first_pass(graph, model)
    lattice = lattice_of(first.fst, scores)
    closed, still_open = (
        rescored(replace(lattice, has_ended=has_ended), first, model, 1000) for has_ended in (True, False)
    )
    ending = closed.final_cost < np.inf
    assert np.array_equal(still_open.final_cost < np.inf, ending)
    assert set(still_open.final_cost[ending]) == set(lattice.final_cost[lattice.final_cost < np.inf])
