"""Const-arpa models: what Kaldi answered, the definition of back-off on random models, damaged arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ModelFormatError
from nnet3.speech.language_models.const_arpa import NO_STATE, NO_UNK, ConstArpa
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import load_const_arpa
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from tests.asr.golden_const_arpa import CASES, FOLDER, Words, as_arrays, needs_rescoring, questions, random_ngrams


def _padded(histories: list[list[int]]) -> np.ndarray:
    longest = max(map(len, histories))
    return np.array([[0] * (longest - len(each)) + each for each in histories], np.int64).reshape(-1, longest)


@needs_rescoring
@pytest.mark.parametrize("case", CASES)
def test_answers_of_kaldi(case: str) -> None:
    model = load_const_arpa(FOLDER / case / "G.carpa")
    asked = [([*map(int, question)], answer) for question, answer in questions(case) if question[0] != "S"]
    assert len(asked) == 300
    words, histories = np.array([words[0] for words, _ in asked]), _padded([words[1:] for words, _ in asked])
    np.testing.assert_allclose(model.log_probs(words, histories), [float(answer[0]) for _, answer in asked], rtol=1e-8)
    assert model.exist(histories).tolist() == [answer[1] == "1" for _, answer in asked]


@needs_rescoring
@pytest.mark.parametrize("case", CASES)
def test_written_out_again(case: str) -> None:
    """All n-grams of the file that Kaldi wrote of the model have their logarithms, and their weights of backing off."""
    model = load_const_arpa(FOLDER / case / "G.carpa")
    found: dict[int, list[list[str]]] = {}
    for line in (FOLDER / case / "written.arpa").read_text().splitlines():
        fields = line.split()
        if line.endswith("-grams:"):
            found[len(found) + 1] = []
        elif found and len(fields) > len(found):
            found[len(found)].append([*fields, "0"][: len(found) + 2])
    assert len(found) == model.order
    for order, rows in found.items():
        ngrams = np.array([row[1:-1] for row in rows], np.int64).reshape(-1, order)
        log_probs = model.log_probs(ngrams[:, -1], ngrams[:, :-1])
        np.testing.assert_allclose(log_probs, [float(row[0]) for row in rows], rtol=1e-5)
        states = model.find(ngrams)
        weights = [model.real(state + 1) if state != NO_STATE else 0.0 for state in states.tolist()]
        np.testing.assert_allclose(weights, [float(row[-1]) for row in rows], rtol=1e-5)


def _log_prob(ngrams: dict[Words, tuple[float, float]], history: Words, word: int) -> float:
    """By the definition: of the longest history that is there, or with its weight that of a shorter one."""
    if (*history, word) in ngrams:
        return ngrams[(*history, word)][0]
    if not history:
        return -np.inf
    return ngrams.get(history, (0, 0.0))[1] + _log_prob(ngrams, history[1:], word)


@given(st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_random_models_agree_with_the_definition(seed: int, order: int, has_unk: bool) -> None:
    rng = np.random.default_rng(seed)
    ngrams = random_ngrams(rng, order, 7 if order < 3 else 4)
    unk = 3 if has_unk else NO_UNK
    model = make_const_arpa(as_arrays(ngrams, order, rng), 1, 2, unk, most_distance=int(rng.choice([5, 40, 2**30 - 1])))
    words = rng.integers(1, 10, 60)
    histories = [rng.integers(1, 10, rng.integers(0, order + 1)).tolist() for _ in words]
    found = model.log_probs(words, _padded(histories))

    def known(word: int) -> int:
        return word if not has_unk or (word,) in ngrams else unk

    for word, history, log_prob in zip(words.tolist(), histories, found.tolist(), strict=True):
        recent = history[max(len(history) - order + 1, 0) :]
        wanted = _log_prob(ngrams, tuple(map(known, recent)), known(word))
        assert log_prob == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def _model() -> ConstArpa:
    rng = np.random.default_rng(0)
    return make_const_arpa(as_arrays(random_ngrams(rng, 3, 5), 3, rng), 1, 2, 3, most_distance=20)


@given(st.data())
def test_damaged_arrays_are_refused_or_answer(data: st.DataObject) -> None:
    model = _model()
    name = data.draw(st.sampled_from(["states", "unigrams", "overflow"]))
    array = getattr(model, name).copy()
    place = data.draw(st.integers(0, len(array) - 1))
    array[place] = data.draw(st.integers(-(2**31), 2**31 - 1))
    model = replace(model, **{name: array})
    words, histories = np.arange(1, 126) % 5 + 1, np.stack([np.arange(125) // 5 % 5 + 1, np.arange(125) // 25 + 1], 1)
    try:
        assert (model.log_probs(words, histories) < np.inf).all()
        model.exist(histories)
        acceptor = ConstArpaAcceptor(model)
        for word in range(1, 6):
            arc = acceptor.arc(0, word)
            assert arc is None or acceptor.arc(arc[0], word) != (0, np.inf)
    except ModelFormatError as error:
        assert "a damaged const-arpa model" in str(error)  # noqa: PT017


def test_an_offset_near_the_largest_number() -> None:
    damaged = replace(_model(), unigrams=np.full(9, 2**63 - 1))
    with pytest.raises(ModelFormatError, match="a state begins outside of the states"):
        damaged.exist(np.array([[1]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bos": 0}, "<s> is word 0, but words are 1 to"),
        ({"eos": 99}, "</s> is word 99"),
        ({"unk": -2}, "the unknown word is word -2"),
        ({"order": 0}, "up to 0 words"),
    ],
)
def test_impossible_models(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        replace(_model(), **changes)
