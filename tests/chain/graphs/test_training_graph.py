"""Training graphs: what sequences of transition-ids of transcripts cost, from the transition model alone."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, Reader
from nnet3.model.hmm.tree import ContextDependency, make_transition_model
from nnet3.options import TrainingGraphOptions
from nnet3.training.chain.graphs.expansion import transition_ids_of_phones
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.training_graph import TrainingGraphs
from tests.chain.graphs.path_costs import Labels, language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms

pytest.importorskip("kaldifst")

_TRIPHONES = """ContextDependency 3 1 ToPdf TE 1 5 ( NULL
SE 2 [ 0 1 ]
{ CE 0 CE 1 } SE 0 [ 1 2 ]
{ CE 2 CE 3 } TE -1 3 ( CE 4 CE 5 CE 6 ) TE -1 3 ( CE 7 CE 8 CE 9 ) ) EndContextDependency """
#: Word 1 is phones 1 or 3 4, word 2 is 2 1; silence, phone 4, may come before each word, with cost 0.5.
_LEXICON = Fst.from_arcs(
    0,
    [0.0, np.inf, np.inf, np.inf],
    [0, 0, 1, 1, 1, 2, 3],
    [1, 1, 0, 2, 3, 0, 0],
    [0, 4, 1, 3, 2, 4, 1],
    [0.0, 0.5, 0.25, 0.75, 0.0, 0.0, 0.0],
    [0, 0, 1, 1, 2, 0, 0],
)


def _check_same(found: dict[Labels, float], expected: dict[Labels, float]) -> None:
    assert found.keys() == expected.keys()
    for labels, cost in expected.items():
        assert found[labels] == pytest.approx(cost, abs=3e-3)


def _loops_first(hmms: PhoneHmms, labels: Labels) -> Labels:
    """Puts self-loops before the transition that they follow."""
    moved: list[int] = []
    place = 0
    for label in labels:
        if hmms.transitions.is_self_loop[label]:
            moved.insert(place, label)
        else:
            place = len(moved)
            moved.append(label)
    return tuple(moved)


def _phones_of(words: list[int]) -> Fst:
    """All sequences of phones of the words."""
    arcs: list[tuple[int, int, int, float]] = []
    state, states = 0, 1 + 3 * len(words)
    for number, word in enumerate(words):
        spoken, inner, end = 3 * number + 1, 3 * number + 2, 3 * number + 3
        arcs += [(state, spoken, 0, 0.0), (state, spoken, 4, 0.5)]
        ways = [(2, 1, 0.0)] if word == 2 else [(3, 4, 0.75)]
        arcs += [(spoken, end, 1, 0.25)] if word == 1 else []
        arcs += [arc for first, second, cost in ways for arc in ((spoken, inner, first, cost), (inner, end, second, 0))]
        state = end
    src, dst, label, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, [np.inf] * (states - 1) + [0.0], src, dst, label, cost)


@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("words", [[1], [2, 1]], ids=str)
def test_all_sequences_of_transcripts(words: list[int], reorder: bool) -> None:
    hmms = small_hmms()
    options = TrainingGraphOptions(transition_scale=0.5, self_loop_scale=0.5, reorder=reorder)
    graph = TrainingGraphs(hmms, _LEXICON, options).make(words)
    expected = id_sequences(hmms, _phones_of(words), 0.5, 5)
    _check_same(language(graph, 5), expected if reorder else {_loops_first(hmms, k): c for k, c in expected.items()})


def test_every_path_says_the_words() -> None:
    graph = TrainingGraphs(small_hmms(), _LEXICON).make([1, 2, 1])
    by_words = Fst(graph.start, graph.final, graph.offsets, graph.olabel, graph.olabel, graph.cost, graph.dst)
    loops = graph.src == graph.dst
    kept = ~loops
    acyclic = Fst.from_arcs(
        graph.start, graph.final, graph.src[kept], graph.dst[kept], by_words.ilabel[kept], graph.cost[kept]
    )
    said = set()
    waiting: list[tuple[int, Labels]] = [(acyclic.start, ())]
    for _ in range(2000):
        if not waiting:
            break
        state, words = waiting.pop()
        if acyclic.final[state] < np.inf:
            said.add(words)
        for arc in range(acyclic.offsets[state], acyclic.offsets[state + 1]):
            word = int(acyclic.ilabel[arc])
            if len(words) < 5:
                waiting.append((int(acyclic.dst[arc]), (*words, word) if word else words))
    assert said == {(1, 2, 1)}


@pytest.mark.parametrize("words", [[1], [1, 2]], ids=str)
def test_right_context_and_disambiguation(words: list[int]) -> None:
    tree = ContextDependency.read(Reader(_TRIPHONES.encode(), "tree"))
    hmms = PhoneHmms(tree, make_transition_model(tree, small_hmms().model.topology))
    marked = Fst.from_arcs(
        0,
        [0.0, np.inf, np.inf, np.inf],
        [0, 0, 1, 1, 1, 2, 3],
        [1, 1, 0, 2, 3, 0, 0],
        [9, 4, 1, 3, 2, 4, 1],
        [0.0, 0.5, 0.25, 0.75, 0.0, 0.0, 0.0],
        [0, 0, 1, 1, 2, 0, 0],
    )
    graph = TrainingGraphs(hmms, marked, TrainingGraphOptions(self_loop_scale=1.0, transition_scale=1.0), [9]).make(
        words
    )
    _check_same(language(graph, 4), language(transition_ids_of_phones(_phones_of(words), hmms, 1.0), 4))


def test_words_that_the_lexicon_lacks() -> None:
    graphs = TrainingGraphs(small_hmms(), linear([1]))
    with pytest.raises(TrainingError, match="the lexicon has no word 7"):
        graphs.make([7])
    with pytest.raises(TrainingError, match="no path for the words"):
        graphs.make([1, 1])


def test_an_acceptor_of_several_transcripts() -> None:
    """Its graph has all that they say, with the costs that it adds; arcs of a state need not be in order."""
    graphs = TrainingGraphs(small_hmms(), _LEXICON, TrainingGraphOptions(transition_scale=0.5, self_loop_scale=0.5))
    said = Fst.from_arcs(0, [np.inf, np.inf, 0.125], [0, 0, 1], [1, 2, 2], [2, 1, 1], [0.5, 0.25, 0.0])
    expected = {
        labels: cost + more
        for words, more in (([1], 0.375), ([2, 1], 0.625))
        for labels, cost in language(graphs.make(words), 5).items()
    }
    _check_same(language(graphs.make_of(said), 5), expected)
    _check_same(language(graphs.make_of(linear([2, 1])), 5), language(graphs.make([2, 1]), 5))
    with pytest.raises(TrainingError, match="must be an acceptor of words"):
        graphs.make_of(Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], [0.0], [2]))
    with pytest.raises(TrainingError, match="no path for the words"):
        graphs.make_of(linear([7]))
