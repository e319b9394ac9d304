"""Back-off models read exactly: by the definition, one pair at a time and many at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.fst import Fst
from nnet3.speech.language_models.backoff_acceptor import BackoffAcceptor, words_of_grammar
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.language_models.word_acceptor import NO_ARC


def _grammar(rng: np.random.Generator, states: int = 5, words: int = 4) -> Fst:
    """States back off to states of lower numbers; labels of the input side are other ones."""
    has_arc = rng.random((states, words)) < 0.5
    src, word = np.nonzero(has_arc)
    back = np.flatnonzero(rng.random(states - 1) < 0.8) + 1
    dst = np.append(rng.integers(0, states, len(src)), [rng.integers(0, state) for state in back])
    output, source = np.append(word + 1, 0 * back), np.append(src, back)
    final = np.where(rng.random(states) < 0.5, rng.normal(size=states), np.inf)
    cost = rng.normal(size=len(source))
    start = int(rng.integers(0, states))
    return Fst.from_arcs(start, final, source, dst, np.where(output > 0, output, 9), cost, output)


def _read(fst: Fst, state: int, word: int) -> tuple[int, float] | None:
    """The definition, on the FST of output labels."""
    for arc in range(fst.offsets[state], fst.offsets[state + 1]):
        if fst.olabel[arc] == word:
            return int(fst.dst[arc]), float(fst.cost[arc])
    for arc in range(fst.offsets[state], fst.offsets[state + 1]):
        if fst.olabel[arc] == 0:
            found = _read(fst, int(fst.dst[arc]), word)
            return None if found is None else (found[0], found[1] + float(fst.cost[arc]))
    return None


def _final(fst: Fst, state: int) -> float:
    back = [arc for arc in range(fst.offsets[state], fst.offsets[state + 1]) if fst.olabel[arc] == 0]
    if fst.final[state] < np.inf or not back:
        return float(fst.final[state])
    return float(fst.cost[back[0]]) + _final(fst, int(fst.dst[back[0]]))


@given(st.integers(0, 2**32))
def test_words_back_off_only_where_they_have_no_arc(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fst = _grammar(rng)
    acceptor, name = BackoffAcceptor(BackoffModel(words_of_grammar(fst))), {0: fst.start}
    waiting = [0]
    while waiting:
        state = waiting.pop()
        np.testing.assert_allclose(acceptor.final_cost(state), _final(fst, name[state]), rtol=1e-5, atol=1e-6)
        for word in range(1, 6):
            found, wanted = acceptor.arc(state, word), _read(fst, name[state], word)
            assert (found is None) == (wanted is None)
            if found is not None and wanted is not None:
                np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-6)
                if found[0] not in name:
                    waiting.append(found[0])
                assert name.setdefault(found[0], wanted[0]) == wanted[0]
    states, words = (axis.reshape(-1) for axis in np.meshgrid(list(name), np.arange(1, 6)))
    dst, cost = acceptor.arcs(states, words)
    singly = [acceptor.arc(*pair) or (NO_ARC, np.inf) for pair in zip(states.tolist(), words.tolist(), strict=True)]
    assert list(zip(dst.tolist(), cost.tolist(), strict=True)) == singly
    assert acceptor.final_costs(states).tolist() == [acceptor.final_cost(state) for state in states.tolist()]
