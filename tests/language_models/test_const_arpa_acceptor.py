"""Const-arpa models as acceptors: walks of Kaldi, and many pairs at a time against one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ModelFormatError
from nnet3.speech.language_models import const_arpa_acceptor
from nnet3.speech.language_models.const_arpa import NO_UNK
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import load_const_arpa
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from nnet3.speech.language_models.word_acceptor import NO_ARC
from tests.asr.golden_const_arpa import CASES, FOLDER, as_arrays, needs_rescoring, questions, random_ngrams


@pytest.fixture(scope="module", autouse=True)
def arrays_for_few() -> Iterator[None]:
    """Lets few pairs, too, be looked up as arrays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(const_arpa_acceptor, "_MANY", 0)
        yield


@needs_rescoring
@pytest.mark.parametrize("case", CASES)
def test_walks_of_kaldi(case: str) -> None:
    """One word after the other; and the words of all walks at once."""
    model = load_const_arpa(FOLDER / case / "G.carpa")
    walks = [([*map(int, question[1:])], answer[1:]) for question, answer in questions(case) if question[0] == "S"]
    assert len(walks) == 40
    together, states = ConstArpaAcceptor(model), np.zeros(40, np.int64)
    acceptors, names = [ConstArpaAcceptor(model) for _ in walks], [{0: 0} for _ in walks]
    alone = [0] * 40
    going = np.arange(40)
    for place in range(max(len(words) for words, _ in walks) + 1):
        ended = [each for each in going.tolist() if len(walks[each][0]) == place]
        going = np.setdiff1d(going, ended)
        for each, cost in zip(ended, together.final_costs(states[ended]).tolist(), strict=True):
            assert walks[each][1][place] == "end"
            assert acceptors[each].final_cost(alone[each]) == cost == pytest.approx(float(walks[each][1][-1]), rel=1e-8)
        words = np.array([walks[each][0][place] for each in going.tolist()], np.int64)
        states[going], cost_of = together.arcs(states[going], words)
        for each, word, cost in zip(going.tolist(), words.tolist(), cost_of.tolist(), strict=True):
            arc, wanted = acceptors[each].arc(alone[each], word), walks[each][1][place]
            assert (arc is None) == (wanted == "none") == (states[each] == NO_ARC)
            if arc is not None:
                alone[each] = arc[0]
                assert arc[1] == cost == pytest.approx(float(wanted.split(":")[0]), rel=1e-8)
                assert names[each].setdefault(arc[0], len(names[each])) == int(wanted.split(":")[1])
        going = going[states[going] != NO_ARC]


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_pairs_give_what_a_pair_gives_at_a_time(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    model = make_const_arpa(as_arrays(random_ngrams(rng, order, 5), order, rng), 1, 2, int(rng.choice([3, NO_UNK])))
    at_once, by_pair = ConstArpaAcceptor(model), ConstArpaAcceptor(model)
    states = np.zeros(1, np.int64)
    for _ in range(3):
        states, words = rng.choice(states, 12), rng.integers(1, 8, 12)
        dst, cost = at_once.arcs(states, words)
        singly = [by_pair.arc(*pair) or (NO_ARC, np.inf) for pair in zip(states.tolist(), words.tolist(), strict=True)]
        assert list(zip(dst.tolist(), cost.tolist(), strict=True)) == singly
        states = np.append(0, dst[dst != NO_ARC])
        assert at_once.final_costs(states).tolist() == [by_pair.final_cost(state) for state in states.tolist()]


def test_few_pairs_give_what_many_give(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    model = make_const_arpa(as_arrays(random_ngrams(rng, 3, 5), 3, rng), 1, 2, 3)
    arrays, few = ConstArpaAcceptor(model), ConstArpaAcceptor(model)
    states = np.zeros(1, np.int64)
    for _ in range(4):
        states, words = rng.choice(states, 12), rng.integers(1, 8, 12)
        monkeypatch.setattr(const_arpa_acceptor, "_MANY", 0)
        wanted, ends = arrays.arcs(states, words), arrays.final_costs(states)
        monkeypatch.setattr(const_arpa_acceptor, "_MANY", 13)
        found = few.arcs(states, words)
        assert (found.dst.tolist(), found.cost.tolist()) == (wanted.dst.tolist(), wanted.cost.tolist())
        assert few.final_costs(states).tolist() == ends.tolist()
        states = np.append(0, found.dst[found.dst != NO_ARC])
    assert few.arcs(states[:0], states[:0]).dst.tolist() == []


def test_a_child_at_the_place_behind_the_overflow_list() -> None:
    """Memory there is that of the list that was longer."""
    rng = np.random.default_rng(0)
    model = make_const_arpa(as_arrays(random_ngrams(rng, 3, 5), 3, rng), 1, 2, 3, most_distance=20)
    acceptor = ConstArpaAcceptor(replace(model, overflow=model.overflow[:-1]))
    with pytest.raises(ModelFormatError, match="more than the overflow list has"):
        _ = [acceptor.arc(state, word) for state, word in product(range(20), range(1, 6)) if state < len(acceptor)]
