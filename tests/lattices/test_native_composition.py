"""Composition in C: lattices, errors and limits are those of Python to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, no_strings
from nnet3.base.kaldi_io.lattice_states import connected
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.speech.language_models import const_arpa_acceptor, word_histories
from nnet3.speech.language_models.const_arpa import NO_UNK, ConstArpa
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.speech.language_models.rnnlm_acceptor import RnnlmAcceptor
from nnet3.speech.language_models.word_acceptor import JointAcceptor, ScaledAcceptor, WordAcceptor
from nnet3.speech.lattices import native_composition
from nnet3.speech.lattices.cheapest_acceptor import CheapestAcceptor
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_composition import WordFst, composed_in_turn
from nnet3.speech.lattices.lattice_states import is_deterministic, label_lattice, sorted_upwards
from nnet3.speech.lattices.native_composition import NativeComposition
from nnet3.speech.lattices.pruned_composition import composed_pruned
from nnet3.speech.lattices.rescoring import best_of_words, exchanged
from tests.asr.golden_const_arpa import as_arrays, random_ngrams
from tests.asr.random_lattices import Sums, random_grammar, random_lattice
from tests.asr.small_rnnlm import OPTIONS, WORDS, embedding, network, small_rnnlm
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code

_RNNLMS = {kind: small_rnnlm(kind) for kind in ("lstm", "tdnn")}


def _model(rng: np.random.Generator, order: int) -> ConstArpa:
    ngrams, unk = random_ngrams(rng, order, int(rng.integers(4, 7))), int(rng.choice([3, NO_UNK]))
    model = make_const_arpa(as_arrays(ngrams, order, rng), 1, 2, unk, most_distance=int(rng.choice([5, 40, 2**30 - 1])))
    return replace(model, bos=int(rng.integers(1, len(model.unigrams))))  # which may begin no n-grams


def _lattice(rng: np.random.Generator, words: int = 6) -> Lattice:
    states = int(rng.integers(2, 12))
    lattice = random_lattice(rng, states, int(rng.integers(1, 7)) * states, words)
    return lattice.with_costs(graph=(float(rng.choice([0.1, 1.0, 5.0])), 0.0))


def _same(one: Lattice | str, other: Lattice | str) -> Lattice:
    """Compares two lattices; returns one."""
    assert isinstance(one, Lattice)
    assert isinstance(other, Lattice)
    for name in ("final", "offsets", "ilabel", "cost", "dst"):
        assert np.array_equal(getattr(one.fst, name), getattr(other.fst, name))
    for name in ("acoustic_cost", "final_acoustic_cost"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.transition_ids.values, other.transition_ids.values)
    return one


def _outcome(made: Callable[[], Lattice]) -> Lattice | str:
    try:
        return made()
    except Nnet3Error as error:
        return str(error)


def _both_ways(made: Callable[[], Lattice]) -> tuple[Lattice | str, Lattice | str]:
    """Returns a lattice or an error, as native code and as Python makes it, histories one by one."""
    native = _outcome(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_composition, "library", lambda: None)
        patch.setattr(const_arpa_acceptor, "library", lambda *, warns: None)
        patch.setattr(word_histories, "_MOST_STEPS", 10**6)
        return native, _outcome(made)


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Returns a list to which each call of native code adds whether it gave up."""
    gave_up, compose = list[bool](), native_composition.library

    def counting() -> SimpleNamespace:
        functions = compose()
        assert functions is not None

        def counted(*operands: Any) -> Any:
            made = functions.nnet3_exchange(*operands)
            gave_up.append(not made)
            return made

        return SimpleNamespace(**vars(functions) | {"nnet3_exchange": counted})

    monkeypatch.setattr(native_composition, "library", counting)
    return gave_up


@pytest.mark.parametrize("kind", _RNNLMS)
def test_random_lattices(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gave_up, num_arcs = _counting(monkeypatch), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        lattice, model = _lattice(rng), _model(rng, int(rng.integers(1, 5)))
        beam, most = float(rng.choice([0.3, 3.0, 60.0])), int(rng.choice([1, 30, 3000]))
        options = ComposeOptions(beam, most, rng.uniform(1.1, 3))
        order, scale = int(rng.integers(2, 6)), float(rng.choice([0.5, 1.0, rng.uniform(0.1, 2)]))

        def made() -> Lattice:
            rnnlm = RnnlmAcceptor(_RNNLMS[kind], order)  # noqa: B023
            return exchanged(lattice, ConstArpaAcceptor(model), rnnlm, scale, options)  # noqa: B023

        num_arcs += _same(*_both_ways(made)).fst.num_arcs
    assert len(gave_up) > 50
    assert not any(gave_up)
    assert num_arcs > 600


def test_models_that_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lattices with a grammar taken away and an n-gram model added, alone and before the best paths are found."""
    gave_up, num_arcs = _counting(monkeypatch), [0, 0, 0]
    for seed in range(150):
        rng = np.random.default_rng(seed)
        lattice, model, grammar = _lattice(rng), _model(rng, int(rng.integers(1, 5))), WordFst(random_grammar(rng))
        scale = float(rng.choice([-1.0, 1.0, rng.uniform(-2, 2)]))

        def acceptors() -> list[WordAcceptor]:
            return [ScaledAcceptor(CheapestAcceptor(grammar), scale), ConstArpaAcceptor(model)]  # noqa: B023

        def made() -> Lattice:
            rnnlm = RnnlmAcceptor(_RNNLMS["lstm"], 3)
            options = ComposeOptions(3.0, 300)
            return exchanged(lattice, ConstArpaAcceptor(model), rnnlm, 0.5, options, added=acceptors())  # noqa: B023

        for number in (1, 2):
            both = _both_ways(lambda: composed_in_turn(lattice, acceptors()[:number]))  # noqa: B023
            num_arcs[0] += _same(*both).fst.num_arcs
        num_arcs[1] += _same(*_both_ways(made)).fst.num_arcs
        for each in (lattice, best_of_words(connected(lattice))):
            num_arcs[2] += _compare_by_levels(each, acceptors())
    assert not any(gave_up)
    assert min(num_arcs) > 500


def _compare_by_levels(lattice: Lattice, acceptors: list[WordAcceptor]) -> int:
    """A lattice by levels, if it has at most one arc for a label, becomes what its table becomes, by levels.

    Returns how many arcs that are.
    """
    native = NativeComposition.of(acceptors)
    assert native is not None
    if not lattice.fst.num_states:
        return 0
    by_levels = LabelLattice.of(sorted_upwards(lattice))
    found = native.labelled(by_levels)
    if not is_deterministic(by_levels.lattice()):
        assert found is None
        return 0
    wanted = composed_in_turn(by_levels.lattice(), acceptors)
    assert found is not None
    if not wanted.fst.num_states:
        assert not found.num_states
        return 0
    expected = label_lattice(wanted)
    for name in ("level", "src", "dst", "label", "graph_cost", "acoustic_cost", "final_graph", "final_acoustic"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    for name in ("ids", "final_ids"):
        assert np.array_equal(getattr(found, name).offsets, getattr(expected, name).offsets)
        assert np.array_equal(getattr(found, name).values, getattr(expected, name).values)
    return len(found.src)


def test_grammars_that_python_reads() -> None:
    """States reached by many arcs without words, and costs that are too high to be compared."""
    line, rng = Fst.from_arcs(0, [np.inf, 0.5], [0], [1], [1], [0.25]), np.random.default_rng(5)
    ends, none = np.array([np.inf, 0], np.float32), np.zeros(1, np.float32)
    lattice = Lattice(line, none, ends, no_strings(1), no_strings(2))
    for number, cost in ((14, 0.0), (15, 0.0), (3, 1e30)):
        cost_of = np.append(rng.normal(size=number), [-1.0, cost])
        steps = np.append(np.zeros(number, np.int64), [1, 1])
        states = np.arange(number + 1)
        final = [*rng.normal(size=number + 1), 0.5]
        grammar = Fst.from_arcs(
            0, final, [*states[:-1], 0, 0], [*states[1:], 0, number + 1], steps, cost_of.astype(np.float32)
        )
        acceptor = CheapestAcceptor(WordFst(grammar))
        native = NativeComposition.of([acceptor])
        assert native is not None
        assert (native.arcs(lattice) is None) == (number == 15 or cost > 0)
        _same(*_both_ways(lambda: composed_in_turn(lattice, [acceptor])))  # noqa: B023


def test_long_lattices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first complete path comes late, after some estimates, and the limits of arcs count; many costs are equal."""
    gave_up, num_arcs = _counting(monkeypatch), list[int]()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        lattice, model = random_lattice(rng, 400, 1800, 3, reach=3), _model(rng, 1 + seed % 3)
        cost = lattice.fst.cost if seed % 2 else np.round(lattice.fst.cost)
        ends = np.where(lattice.fst.final == 0.5, np.float32(0.5), np.float32(np.inf))
        lattice = replace(lattice, fst=replace(lattice.fst, cost=cost, final=ends), final_acoustic_cost=ends)
        options = ComposeOptions(8.0, 100 + 150 * seed, 1.3)

        def made() -> Lattice:
            rnnlm = RnnlmAcceptor(_RNNLMS["lstm"], 3)
            return exchanged(lattice, ConstArpaAcceptor(model), rnnlm, 0.5, options)  # noqa: B023

        num_arcs.append(_same(*_both_ways(made)).fst.num_arcs)
    assert not any(gave_up)
    assert np.count_nonzero(num_arcs) > 5


def test_more_states_than_tables_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_up, rng = _counting(monkeypatch), np.random.default_rng(3)
    lattice, model = random_lattice(rng, 12, 90, 6), _model(rng, 3)
    options = ComposeOptions(1000.0, 4000)
    both = _both_ways(
        lambda: exchanged(lattice, ConstArpaAcceptor(model), RnnlmAcceptor(_RNNLMS["lstm"], 6), 0.5, options)
    )
    assert _same(*both).fst.num_states > 600
    assert gave_up == [False]


@given(st.data())
def test_damaged_models_are_refused_by_the_same_errors(data: st.DataObject) -> None:
    """Arrays may begin at any address, as in mapped files."""
    rng = np.random.default_rng(data.draw(st.integers(0, 20)))
    lattice, model = _lattice(rng, 4), _model(rng, 3)
    name = data.draw(st.sampled_from(["states", "unigrams", "overflow"]))
    array = getattr(model, name)
    moved = np.frombuffer(b"?" + array.tobytes(), array.dtype, offset=1).copy()
    if len(moved):
        least, most = (-(2**63), 2**63 - 1) if array.dtype == np.int64 else (-(2**31), 2**31 - 1)
        near = st.integers(-3, len(model.states) + 3)
        moved[data.draw(st.integers(0, len(moved) - 1))] = data.draw(st.one_of(near, st.integers(least, most)))
    moved = np.frombuffer(b"?" + moved.tobytes(), array.dtype, offset=1)
    damaged = replace(model, **{name: moved})
    native, expected = _both_ways(
        lambda: exchanged(
            lattice, ConstArpaAcceptor(damaged), RnnlmAcceptor(_RNNLMS["tdnn"]), 0.5, ComposeOptions(50.0, 500)
        )
    )
    if isinstance(native, str) or isinstance(expected, str):
        assert native == expected
        assert "a damaged const-arpa model" in native
    else:
        _same(native, expected)


def test_words_of_another_list_are_refused() -> None:
    rng = np.random.default_rng(1)
    lattice, model = random_lattice(rng, words=WORDS + 3), replace(_model(rng, 2), unk=1)
    with pytest.raises(ArgumentError, match="words are 1 to 8"):
        exchanged(lattice, ConstArpaAcceptor(model), RnnlmAcceptor(_RNNLMS["lstm"]), 0.5, ComposeOptions())


def test_a_history_longer_than_native_code_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_up, rng = _counting(monkeypatch), np.random.default_rng(2)
    lattice, model = _lattice(rng), _model(rng, 2)
    for order, expected in ((17, False), (18, True)):
        gave_up.clear()
        exchanged(
            lattice,
            ConstArpaAcceptor(replace(model, order=order)),
            RnnlmAcceptor(_RNNLMS["lstm"]),
            0.5,
            ComposeOptions(),
        )
        assert gave_up == [expected]


def test_acceptors_that_native_code_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_up, rng = _counting(monkeypatch), np.random.default_rng(7)
    ngrams, rnnlm = ConstArpaAcceptor(_model(rng, 2)), _RNNLMS["lstm"]
    normalized = Rnnlm(network("lstm"), embedding(), replace(OPTIONS, normalize_probs=True))
    known = RnnlmAcceptor(rnnlm)
    known.arc(0, 4)
    doubly = ScaledAcceptor(ScaledAcceptor(ngrams, 0.3), 0.7)
    acceptors: list[WordAcceptor] = [
        *(ngrams, RnnlmAcceptor(rnnlm), JointAcceptor(RnnlmAcceptor(rnnlm), ngrams), JointAcceptor(ngrams, Sums())),
        *(JointAcceptor(ngrams, other) for other in (RnnlmAcceptor(rnnlm, 1), RnnlmAcceptor(rnnlm, 0), known)),
        *(JointAcceptor(ngrams, RnnlmAcceptor(other)) for other in (normalized, small_rnnlm("batchnorm"))),
        *(
            JointAcceptor(doubly, RnnlmAcceptor(rnnlm)),
            JointAcceptor(JointAcceptor(ngrams, ngrams), RnnlmAcceptor(rnnlm)),
        ),
    ]
    for acceptor in acceptors:
        composed_pruned(_lattice(rng, 4), acceptor, ComposeOptions())
    assert gave_up == []


def test_a_damaged_model_is_named() -> None:
    rng = np.random.default_rng(1)
    model = _model(rng, 2)
    damaged = replace(model, unigrams=np.where(model.unigrams > 0, 2**62, 0), source="G.carpa")
    with pytest.raises(ModelFormatError, match=r"G\.carpa.*a state begins outside"):
        exchanged(_lattice(rng), ConstArpaAcceptor(damaged), RnnlmAcceptor(_RNNLMS["lstm"]), 0.5, ComposeOptions())
