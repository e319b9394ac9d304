"""Alignments: the best of all paths, one by one; what beams, careful graphs and wrong models do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnet3.errors import ExecutionError, ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.options import AlignmentOptions
from nnet3.speech.search.alignment import Aligner
from tests.chain.graphs.small_hmms import small_hmms
from tests.seeds import shifted

MODEL = small_hmms().model


def _graph(random: np.random.Generator) -> Fst:
    """Arcs upwards and loops, some without input label, with words."""
    src = np.repeat(np.arange(4), 3)
    dst = np.minimum(src + random.integers(0, 3, len(src)), 4)
    ids = np.where((random.random(len(src)) < 0.2) & (dst > src), 0, random.integers(1, 9, len(src)))
    final = [np.inf, np.inf, 0.25, np.inf, 0.0]
    return Fst.from_arcs(0, final, src, dst, ids, random.random(len(src)), random.integers(0, 3, len(src)))


def _costs(options: AlignmentOptions) -> np.ndarray:
    """What each transition-id costs, (transition-ids + 1,)."""
    costs = np.zeros(MODEL.num_transition_ids + 1)
    for number in range(1, len(costs)):
        same = [k for k in range(1, len(costs)) if MODEL.transition_state(k) == MODEL.transition_state(number)]
        loops = sum(np.exp(MODEL.log_prob(k)) for k in same if MODEL.is_self_loop(k))
        own, leaving = MODEL.log_prob(number), np.log(1 - loops)
        forward = options.self_loop_scale * leaving + options.transition_scale * (own - leaving)
        costs[number] = -(options.self_loop_scale * own if MODEL.is_self_loop(number) else forward)
    return costs


def _paths(graph: Fst, rows: int) -> Iterator[list[int]]:
    """All paths of so many rows that end, as arcs."""
    waiting: list[tuple[int, int, list[int]]] = [(graph.start, 0, [])]
    while waiting:
        state, row, arcs = waiting.pop()
        if row == rows and graph.final[state] < np.inf:
            yield arcs
        for arc in range(graph.offsets[state], graph.offsets[state + 1]):
            after = row + int(graph.ilabel[arc] > 0)
            if after <= rows:
                waiting.append((int(graph.dst[arc]), after, [*arcs, arc]))


@pytest.mark.parametrize("scales", [(1.0, 1.0), (1.0, 0.1), (0.0, 0.0)])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_all_paths(seed: int, scales: tuple[float, float]) -> None:
    random = np.random.default_rng(shifted(seed))
    graph, rows = _graph(random), int(random.integers(1, 5))
    scores = random.normal(size=(rows, MODEL.num_pdfs)).astype(np.float32)
    options = AlignmentOptions(transition_scale=scales[0], self_loop_scale=scales[1])
    added, best, of_best = _costs(options), np.inf, list[int]()
    for arcs in _paths(graph, rows):
        ids = [int(graph.ilabel[arc]) for arc in arcs if graph.ilabel[arc]]
        end = graph.dst[arcs[-1]] if arcs else graph.start
        cost = float(graph.cost[arcs].sum() + graph.final[end] + added[ids].sum())
        cost -= sum(scores[row, MODEL.pdf(number)] for row, number in enumerate(ids))
        if cost < best:
            best, of_best = cost, ids
    alignment = Aligner(MODEL, options).align(graph, scores, 200.0)
    if not np.isfinite(best):
        assert alignment is None
        return
    assert alignment is not None
    assert alignment.score == pytest.approx(-best, abs=1e-4)
    assert alignment.transition_ids.tolist() == of_best
    np.testing.assert_array_equal(alignment.acoustic, scores[np.arange(rows), MODEL.pdf(np.array(of_best))])


def _line(length: int) -> Fst:
    return Fst.from_arcs(
        0, [np.inf] * length + [0.0], range(length), range(1, length + 1), [1] * length, olabel=[3] + [0] * (length - 1)
    )


def test_words_come_with_their_rows() -> None:
    alignment = Aligner(MODEL).align(_line(3), np.zeros((3, MODEL.num_pdfs), np.float32), 10.0)
    assert alignment is not None
    assert (alignment.words.tolist(), alignment.word_rows.tolist()) == ([3], [1])


def test_no_beam_prunes_what_is_reached_before_the_first_row() -> None:
    """Kaldi aligns with this graph by a beam of 0.01, too: through the dear arc, as the cheap one leads to no end."""
    final = [np.inf, np.inf, np.inf, np.inf, 0.0]
    graph = Fst.from_arcs(0, final, [0, 0, 1, 3], [1, 3, 2, 4], [0, 0, 1, 1], [0.0, 5.0, 0.0, 0.0], [0, 7, 0, 0])
    scores = np.zeros((1, MODEL.num_pdfs), np.float32)
    found = Aligner(MODEL, AlignmentOptions()).align(graph, scores, 0.01)
    assert found is not None
    assert (found.transition_ids.tolist(), found.words.tolist()) == ([1], [7])


def test_speech_that_goes_on_is_lost_by_careful_graphs_alone() -> None:
    """Seventy ways to go on are better than the only end by far more than the beam."""
    ways = 70
    branch = Fst.from_arcs(
        0,
        [np.inf, 0.0, *[np.inf] * ways],
        [0, 1, *[0] * ways, *range(2, ways + 2)],
        [1, 1, *range(2, ways + 2), *range(2, ways + 2)],
        [1, 1, *[2] * ways, *[2] * ways],
    )
    scores = np.zeros((6, MODEL.num_pdfs), np.float32)
    scores[:, MODEL.pdf(1)] = -50.0
    for beam, found in ((5.0, False), (1000.0, True)):
        assert (Aligner(MODEL).align(branch, scores, beam) is not None) == found
    aligners = (Aligner(MODEL, AlignmentOptions(careful=careful)) for careful in (False, True))
    plain, careful = (aligner.align(_line(3), scores[:3], 9.0) for aligner in aligners)
    assert plain is not None
    assert careful is not None
    assert careful.score == plain.score


def test_what_cannot_be_aligned() -> None:
    scores = np.zeros((2, MODEL.num_pdfs), np.float32)
    assert Aligner(MODEL).align(_line(3), scores, 10.0) is None
    large = Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [MODEL.num_transition_ids + 1])
    with pytest.raises(ModelFormatError, match="does the graph belong to this model"):
        Aligner(MODEL).align(large, scores, 10.0)
    with pytest.raises(ModelFormatError, match="is empty"):
        Aligner(MODEL).align(Fst.empty(), scores, 10.0)
    with pytest.raises(ExecutionError, match="retry_beam must be 0 or more than beam, 10, got 5"):
        AlignmentOptions(beam=10, retry_beam=5)
