"""Labels row by row, and loops of phones."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ArgumentError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.options import DecodingOptions
from nnet3.speech.asr.without_graph import greedy_labels, phone_loop
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import best_of_words
from tests.asr.toy_phones import chain_model, hmm_model, ids_of_phones
from tests.seeds import RANDOM


def test_runs_of_labels_count_once() -> None:
    best = np.array([0, 3, 3, 0, 3, 1, 1, 1, 0])
    scores = np.log(np.where(np.arange(4) == best[:, None], 0.7, 0.1))
    found = greedy_labels(scores)
    assert found.label.tolist() == [3, 3, 1]
    assert (found.begin.tolist(), found.end.tolist()) == ([1, 4, 5], [3, 5, 8])
    assert found.confidence == pytest.approx([0.7] * 3)
    assert greedy_labels(scores, blank=None).label.tolist() == [0, 3, 0, 3, 1, 0]
    assert greedy_labels(scores + RANDOM.normal(size=(9, 1))).confidence == pytest.approx(found.confidence)


def test_nothing_said() -> None:
    assert len(greedy_labels(np.zeros((0, 3))).label) == 0
    assert len(greedy_labels(np.zeros((4, 3))).label) == 0
    with pytest.raises(ArgumentError, match=r"a matrix of \(rows, labels\), got the shape \(3,\)"):
        greedy_labels(np.zeros(3))


def test_a_phone_loop_of_a_chain_model() -> None:
    model = chain_model()
    ids = np.array(ids_of_phones(model, (3, 2), (3, 1), (1, 4)))
    scores = np.full((len(ids), model.num_pdfs), -9.0, np.float32)
    scores[np.arange(len(ids)), model.pdf(ids)] = 0
    columns = np.append(-1, model.pdf(np.arange(1, model.num_transition_ids + 1)))
    search = BeamSearch(SearchGraph(phone_loop(model, 0.25), columns), DecodingOptions())
    search.advance(scores)
    path = search.best_path(use_final=True)
    assert path is not None
    assert path.words.tolist() == [3, 3, 1]
    assert np.array_equal(path.transition_ids, ids)
    assert path.cost == pytest.approx(7 * np.log(2) + 3 * 0.25, abs=1e-5)


@pytest.mark.parametrize("make", [chain_model, hmm_model])
def test_all_paths_are_those_of_the_hmms(make) -> None:  # type: ignore[no-untyped-def]
    """Every sequence of transition-ids of three rows, from the topology; scores do not matter here."""
    model = make()
    scores = np.zeros((3, model.num_transition_ids), np.float32)
    found = best_of_words(phone_loop(model), scores)
    expected = _sequences(model, 3)
    assert set(found) == {phones for phones, _ in expected}
    for phones, (cost, ids) in found.items():
        costs = {path: -sum(model.log_probs[i] for i in path) for words, path in expected if words == phones}
        assert ids in costs
        assert cost == pytest.approx(min(costs.values()), abs=1e-5)


def _sequences(model: TransitionModel, rows: int) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Phones and ids: each HMM state is left by a transition, with any number of its self-loops behind it."""
    states = 2 if model.num_transition_ids > 2 * len(model.phones) else 1
    split: dict[tuple[int, int], list[int]] = {(int(p), s): [0, 0] for p in model.phones for s in range(states)}
    for i in range(1, model.num_transition_ids + 1):  # the transition, and the self-loop
        split[int(model.phone(i)), int(model.hmm_state(i))][int(model.is_self_loop(i))] = i
    found = set()
    waiting: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, int] | None]] = [((), (), None)]
    while waiting:
        phones, path, last = waiting.pop()
        if len(path) == rows:
            if last is None or last[1] == states - 1:
                found.add((phones, path))
            continue
        if last is not None:
            waiting.append((phones, (*path, split[last][1]), last))
        if last is None or last[1] == states - 1:
            waiting += [((*phones, p), (*path, split[p, 0][0]), (p, 0)) for p in range(1, len(model.phones) + 1)]
        else:
            following = (last[0], last[1] + 1)
            waiting.append((phones, (*path, split[following][0]), following))
    return found
