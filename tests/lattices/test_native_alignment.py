"""Alignment in C: nodes, arcs, rows, words with the least risk and errors are those of Python to the last bit."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, NetworkError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices import native_alignment, native_words, timed_lattice
from nnet3.speech.lattices.bayes_risk import HeardWord, least_risk_words, words_of_lattice
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.native_words import heard_rows
from nnet3.speech.lattices.timed_lattice import OtherLabels, word_aligned
from nnet3.speech.lattices.word_times import WordBoundaries
from tests.asr.toy_lattices import strings_of
from tests.asr.toy_phones import KINDS, PHONES, chain_model, hmm_model
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code
_MODELS = {"chain": chain_model(), "hmm": hmm_model()}


@pytest.fixture(params=_MODELS)
def kinds(request: pytest.FixtureRequest, tmp_path: Path) -> WordBoundaries:
    (tmp_path / "word_boundary.int").write_text(KINDS)
    return WordBoundaries.load(tmp_path / "word_boundary.int", _MODELS[request.param])


def _said(rng: np.random.Generator, model: TransitionModel, count: int) -> Integers:
    """Ids of phones for some rows each, mostly of whole words, with some other ids between, (rows,)."""
    ids = np.arange(1, model.num_transition_ids + 1)
    phone, found = model.phone(ids), list[int]()
    words = ([1], [4], [2, 3], [2, 5, 3])
    while len(found) < count:
        for each in words[rng.integers(len(words))]:
            own = ids[phone == each]
            found += np.sort(rng.choice(own, rng.integers(1, 5)))[:: int(rng.choice([-1, 1]))].tolist()
        if rng.random() < 0.05:
            found.append(int(rng.integers(1, 2 * PHONES)))
    return np.array(found[:count])


def _lattice(rng: np.random.Generator, model: TransitionModel, states: int) -> LabelLattice:
    """States in a row, with arcs to the next state, by several words, and over it; cuts are anywhere."""
    src = np.sort(np.concatenate([np.arange(states - 1), rng.integers(0, states - 1, states)]))
    dst = np.minimum(src + rng.integers(1, 3, len(src)), states - 1)
    dst[np.searchsorted(src, np.arange(states - 1))] = np.arange(1, states)
    row = np.append(0, np.cumsum(rng.integers(0, 6, states)))
    said = [_said(rng, model, int(row[-1])) for _ in range(3)]
    voice, words = rng.integers(0, 3, len(src)), rng.integers(0, 4, len(src))
    ids = [said[v][row[s] : row[d]].tolist() for v, s, d in zip(voice, src, dst, strict=True)]
    final = np.where(rng.random(states) < 0.2, rng.normal(size=states), np.inf)
    final[-1] = 0.5
    ends = [said[0][row[s] : row[s + 1]].tolist() if final[s] < np.inf else [] for s in range(states)]
    costs = rng.normal(size=(2, len(src)))
    return LabelLattice(
        np.arange(states), src, dst, words, *costs, strings_of(ids), final, np.where(final < np.inf, 0.25, np.inf),
        strings_of(ends),
    )  # fmt: skip


def _aligned(lattice: LabelLattice, kinds: WordBoundaries) -> tuple[LabelLattice, bool] | str:
    try:
        return word_aligned(lattice, kinds, OtherLabels(8, 9))
    except ModelFormatError as error:
        return str(error)


def test_random_lattices(kinds: WordBoundaries, monkeypatch: pytest.MonkeyPatch) -> None:
    used, call, compared = list[bool](), native_alignment.native_alignment, 0

    def counted(*operands: object) -> object:
        used.append(True)
        return call(*operands)  # type: ignore[arg-type]

    monkeypatch.setattr(timed_lattice, "native_alignment", counted)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        lattice = _lattice(rng, kinds.model, int(rng.integers(2, 24)))
        native = _aligned(lattice, kinds)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timed_lattice, "library", lambda: None)
            expected = _aligned(lattice, kinds)
        if isinstance(native, str) or isinstance(expected, str):
            assert native == expected
            continue
        assert native[1] == expected[1]
        compared += 1
        found, wanted = native[0], expected[0]
        for name in ("level", "src", "dst", "label", "graph_cost", "acoustic_cost", "final_graph", "final_acoustic"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name))
        assert np.array_equal(found.ids.offsets, wanted.ids.offsets)
        assert np.array_equal(found.ids.values, wanted.ids.values)
    assert len(used) == 60
    assert 20 < compared < 60  # some words do not begin and end with their phones


def _heard(lattice: LabelLattice, kinds: WordBoundaries, scale: float) -> list[HeardWord] | str:
    try:
        return words_of_lattice(lattice, kinds, scale)
    except ModelFormatError as error:
        return str(error)


def test_the_words_of_random_lattices(kinds: WordBoundaries) -> None:
    """Where C gives up the words do not fit their phones, which Python says."""
    heard = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        lattice, scale = _lattice(rng, kinds.model, int(rng.integers(2, 24))), float(rng.choice([0.37, 0.9, 1.0]))
        native, rows = _heard(lattice, kinds, scale), heard_rows(lattice, kinds, scale)
        with pytest.MonkeyPatch.context() as patch:
            for module in (timed_lattice, native_words):
                patch.setattr(module, "library", lambda: None)
            assert _heard(lattice, kinds, scale) == native
        assert isinstance(native, str) == (rows is None)
        heard += len(native) if rows is not None else 0
    assert heard > 40


def test_copies_have_their_own_addresses(kinds: WordBoundaries) -> None:
    assert kinds.addresses[-1] == kinds.model.num_transition_ids + 1
    for own in (kinds, copy.deepcopy(kinds), pickle.loads(pickle.dumps(kinds))):
        assert own.addresses[:-1:5].tolist() == [own.is_self_loop.ctypes.data, own.state.ctypes.data]


def test_lattices_for_which_c_gives_up(kinds: WordBoundaries) -> None:
    """Unknown ids, infinite costs, and arcs that lead back."""
    rng = np.random.default_rng(0)
    while heard_rows(lattice := _lattice(rng, kinds.model, 8), kinds, 1.0) is None:
        pass
    costs = lattice.graph_cost.copy()
    costs[0] = np.inf
    assert heard_rows(replace(lattice, graph_cost=costs), kinds, 1.0) is None
    assert heard_rows(replace(lattice, dst=lattice.src), kinds, 1.0) is None
    for wrong in (0, kinds.model.num_transition_ids + 1):
        ids = replace(lattice.ids, values=np.full_like(lattice.ids.values, wrong))
        assert heard_rows(replace(lattice, ids=ids), kinds, 1.0) is None
        with pytest.raises(NetworkError, match="transition-id"):
            words_of_lattice(replace(lattice, ids=ids), kinds)


def test_long_lattices_are_taken_in_parts(kinds: WordBoundaries) -> None:
    """Between states that no arc leads past; silence may take the place of two words."""
    rng = np.random.default_rng(0)
    word = np.flatnonzero(kinds.begins_word & kinds.ends_word & kinds.ends_phone)[:1].tolist()
    is_silence = kinds.ends_phone & ~kinds.begins_word & ~kinds.ends_word & ~kinds.is_inside
    silence = 2 * np.flatnonzero(is_silence)[:1].tolist()
    states = 2100
    step, over = np.arange(states - 1), np.flatnonzero(rng.random(states - 2) < 0.3)
    src, dst = np.concatenate([step, step, over]), np.concatenate([step + 1, step + 1, over + 2])
    order = np.argsort(src, kind="stable")
    label = np.repeat([7, 8, 0], [len(step), len(step), len(over)])[order]
    ids = strings_of([word if each else silence for each in label.tolist()])
    final = np.where(np.arange(states) == states - 1, 0.0, np.inf)
    costs, ends = rng.normal(size=(2, len(src))), strings_of([[]] * states)
    long = LabelLattice(np.arange(states), src[order], dst[order], label, costs[0], costs[1], ids, final, final, ends)
    native = words_of_lattice(long, kinds)
    assert len(native) > states // 2
    assert heard_rows(long, kinds, 1.0) is not None
    assert least_risk_words(timed_lattice.timed_lattice(long, kinds, 1.0)) == native
