"""Supervision that leaves the times inside of chunks free."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.options import SupervisingOptions, Tolerances
from nnet3.training.chain.graphs.chunks import (
    FrameCutter,
    random_pdfs,
    shortest_path,
    supervision_of_graph,
    without_times,
)
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations
from tests.chain.graphs.path_costs import language
from tests.chain.graphs.small_hmms import linear, small_hmms

HMMS = small_hmms()


def _chunk() -> Fst:
    """Frames 1 .. 3 of five, of phones 1, 2 and 3."""
    options = SupervisingOptions(Tolerances(1, 1, 1), convert_to_pdfs=False)
    supervision = supervise(phones_of_durations([(1, 2), (2, 2), (3, 1)]), HMMS, options)
    return FrameCutter(supervision.fsts[0]).cut(1, 3)


def _pdfs_of(ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(HMMS.model.pdf(np.array(ids)).tolist())


def test_random_pdfs_are_those_of_any_path() -> None:
    chunk, rng = _chunk(), np.random.default_rng(0)
    drawn = {tuple(random_pdfs(chunk, HMMS.transitions, rng).tolist()) for _ in range(300)}
    assert drawn == {_pdfs_of(ids) for ids in language(chunk, 5) if len(ids) == 3}


def test_each_state_for_as_long_as_it_may_be() -> None:
    """Self-loops inside may be left out or repeated; those with which the chunk begins are as they were."""
    pytest.importorskip("kaldifst")
    model = HMMS.model
    expected = set()
    for ids in language(_chunk(), 5):
        loops = model.is_self_loop(np.array(ids))
        kept = [number for k, number in enumerate(ids) if k == 0 or not loops[k]]
        counts = np.indices([5] * len(kept)).reshape(len(kept), -1).T
        for repeats in counts[counts.sum(axis=1) + len(kept) <= 4].tolist():
            made: list[int] = []
            for number, times in zip(kept, repeats, strict=True):
                loop = int(HMMS.transitions.self_loop[model.transition_state(np.array([number]))[0]])
                made += [number, *[loop] * times] if loop else [number] if times == 0 else [-1]
            if -1 not in made:
                expected.add(_pdfs_of(tuple(made)))
    free = without_times(_chunk(), HMMS.transitions)
    assert {tuple(label - 1 for label in labels) for labels in language(free, 4)} == expected
    assert not free.has_epsilons
    assert free.start == 0


def test_transition_ids_of_training_graphs_become_pdfs() -> None:
    """Transition-ids become pdf + 1, epsilons go, costs stay."""
    pytest.importorskip("kaldifst")
    graph = Fst.from_arcs(0, [np.inf, np.inf, 0.5], [0, 1, 1], [1, 1, 2], [1, 2, 0], [0.25, 1.0, 2.0])
    fst = supervision_of_graph(graph, np.array([-1, 4, 6]))
    assert language(fst, 3) == {(5,): 2.75, (5, 7): 3.75, (5, 7, 7): 4.75}
    assert supervision_of_graph(graph, np.array([-1, 4, 6])).num_states > 0
    with pytest.raises(TrainingError, match="has transition-id 2, but the model has 1"):
        supervision_of_graph(graph, np.array([-1, 4]))


def test_the_shortest_path() -> None:
    assert [shortest_path(linear([1] * count)) for count in (0, 1, 5)] == [0, 1, 5]
    two_ways = Fst.from_arcs(1, [0.0, np.inf, np.inf, np.inf], [1, 2, 1, 3, 2], [2, 3, 3, 0, 1], [1] * 5)
    assert shortest_path(two_ways) == 2
