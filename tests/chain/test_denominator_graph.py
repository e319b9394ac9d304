"""Denominator graphs: where sequences begin, and what cannot be one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst
from nnet3.chain import CHAIN_EXAMPLES, DenominatorGraph
from nnet3.errors import TrainingError
from nnet3.examples import ExampleReader
from nnet3.training.chain.denominator_graph import Belonging
from nnet3.training.chain.graphs.normalization import make_normalization_fst
from tests.chain.chain_data import (
    distance,
    fst_of,
    golden_graph,
    golden_minibatches,
    random_acceptor,
    random_cyclic_acceptor,
    random_graph,
    small_graph,
    supervision_of,
)
from tests.chain.graphs.path_costs import WORKED_GRAPH, language
from tests.shared_data import golden_cases


def test_initial_probabilities_of_the_small_graph() -> None:
    np.testing.assert_allclose(small_graph().initial, [0.01, 0.5753337, 0.4146663], atol=5e-8)


@pytest.mark.parametrize("path", golden_cases("chain", "objf.json", "den.fst"), ids=lambda path: path.name)
def test_golden_initial_probabilities(path: Path) -> None:
    first = next(golden_minibatches(path))
    wanted = torch.from_numpy(np.load(path / "arrays.npz")["initial_probs"])
    graph = golden_graph(path)
    assert distance(torch.from_numpy(graph.initial), wanted) < 1e-6
    assert graph.num_pdfs == first.target.supervision.label_dim


@pytest.mark.parametrize(
    ("fst", "message"),
    [
        (Fst.empty(), "is empty"),
        (fst_of([(0, 0, 0, 0.5)], [0.0]), "without epsilons"),
        (fst_of([(0, 0, 4, 0.5)], [0.0]), r"a pdf 3, it must be in 0..2"),
        (fst_of([(0, 1, 1, 0.5)], [np.inf, 0.0]), "no sequences of a hundred frames"),
        (fst_of([(0, 1, 1, 0.5)], [np.inf, np.inf]), "state 1 .* left with probability 0"),
        (fst_of([(0, 0, 1, -10.0)], [0.0]), "left with probability 2"),
        (fst_of([(0, 0, 1, -200.0)], [0.0]), "infinite"),
        (Fst.from_arcs(0, [0.0], [0], [0], [1], [0.5], [2]), "acceptor"),
    ],
)
def test_what_cannot_be_a_denominator_graph(fst: Fst, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        DenominatorGraph.from_fst(fst, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_states": 0}, "at least one state and one pdf"),
        ({"num_pdfs": 0}, "at least one state and one pdf"),
        ({"pdfs": np.array([0])}, "a source, a destination, a pdf and a probability each"),
        ({"probabilities": np.ones(3, np.float32)}, "a source, a destination, a pdf and a probability each"),
        ({"sources": np.array([0, 2])}, r"a source state 2, it must be in 0\.\.1"),
        ({"sources": np.array([-1, 0])}, "a source state -1"),
        ({"destinations": np.array([2, 0])}, r"a destination state 2, it must be in 0\.\.1"),
        ({"pdfs": np.array([3, 0])}, r"a pdf 3, it must be in 0\.\.2: is it made for another tree\?"),
        ({"probabilities": np.array([0.5, -0.5], np.float32)}, "infinite, negative or NaN"),
        ({"probabilities": np.array([0.5, np.nan], np.float32)}, "infinite, negative or NaN"),
    ],
    ids=str,
)
def test_arrays_that_make_no_graph(change: dict[str, object], message: str) -> None:
    half = np.full(2, 0.5, np.float32)
    parts = {"num_states": 2, "num_pdfs": 3, "sources": np.array([0, 1]), "destinations": np.array([1, 0])}
    parts |= {"pdfs": np.array([2, 0]), "probabilities": half, "initial": half}
    DenominatorGraph(**parts)
    with pytest.raises(TrainingError, match=message):
        DenominatorGraph(**(parts | change))


def test_where_a_graph_starts_and_how_much_may_leave_a_state() -> None:
    loop = (np.array([0]), np.array([0]), np.array([0]))
    assert DenominatorGraph.from_transitions(1, *loop, -np.log([98.5]), np.zeros(1)).initial.tolist() == [1]
    with pytest.raises(TrainingError, match=r"left with probability 100\.5 in all"):
        DenominatorGraph.from_transitions(1, *loop, -np.log([99.5]), np.zeros(1))
    for start in (-1, 1):
        with pytest.raises(TrainingError, match=f"start state of the denominator graph is {start}, it has 1 states"):
            DenominatorGraph.from_transitions(1, *loop, np.zeros(1), np.zeros(1), start)


def test_an_infinite_final_probability() -> None:
    with pytest.raises(TrainingError, match="left with probability inf"):
        DenominatorGraph.from_fst(fst_of([(0, 0, 1, 0.5)], [-1e30]), 3)


def test_a_normalization_graph_is_none() -> None:
    normalization = make_normalization_fst(WORKED_GRAPH, small_graph().initial)
    with pytest.raises(TrainingError, match=r"this is a normalization\.fst, and the den\.fst beside it is needed"):
        DenominatorGraph.from_fst(normalization, 3)


@pytest.mark.parametrize("path", golden_cases("chain", "normalization.fst", "merged.ark"), ids=lambda path: path.name)
def test_golden_normalization_graphs(path: Path) -> None:
    with pytest.raises(TrainingError, match="this is a normalization"):
        DenominatorGraph.from_fst(load_fst(str(path / "normalization.fst")), golden_graph(path).num_pdfs)


@pytest.mark.parametrize("end_of_start", [0.0, np.inf])
def test_a_graph_whose_states_all_end_at_no_cost(end_of_start: float) -> None:
    """Final costs do not count, so that one's own graph may have any: here each phone, with one pdf, follows each."""
    arcs = [(state, phone, phone, np.log(2)) for state in (0, 1, 2) for phone in (1, 2)]
    graph = DenominatorGraph.from_fst(fst_of(arcs, [end_of_start, 0.0, 0.0]), 2)
    assert graph.initial.tolist() == pytest.approx([0.01, 0.495, 0.495])
    arcs[2:] = [(1, 1, 2, 0.7), (1, 2, 1, 0.7), (2, 2, 1, 0.7), (2, 1, 2, 0.7)]  # led elsewhere than from the start
    assert DenominatorGraph.from_fst(fst_of(arcs, [0.5, 0.0, 0.0]), 2).num_states == 3


INF = np.inf


def _has(*allowed: str) -> bool:
    """Whether the small graph, 0 -1-> 1, 0 -2-> 2, 1 -1-> 1, 1 -3-> 2, 2 -2-> 2, 2 -1-> 1, has one of the sequences
    with a label of each of these."""
    arcs = [(t, t + 1, int(label), 0.0) for t, labels in enumerate(allowed) for label in labels]
    supervision = supervision_of([fst_of(arcs, [INF] * len(allowed) + [0.0])], len(allowed), 3)
    return Belonging(small_graph()).has_sequences_of(supervision)


def test_sequences_of_the_small_graph() -> None:
    assert _has("1", "1", "3", "2")
    assert _has("3", "1")  # from any state on
    assert not _has("3", "3")
    assert not _has("2", "3")
    assert not _has("1", "3", "2", "2", "1", "3", "3")
    assert _has("13", "31", "3")
    assert not _has("32", "23", "3")
    assert _has(*["1"] * 60)
    assert not _has(*["1"] * 49, "2")
    assert _has(*["1"] * 50, "2")  # so far nobody looks


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_against_all_sequences(seed: int, end_to_end: bool) -> None:
    graph = random_graph(seed, num_states=5, num_pdfs=4, num_arcs=8)
    fst = random_cyclic_acceptor(seed, 4) if end_to_end else random_acceptor(seed, 4, 4)
    theirs: set[tuple[int, ...]] = set()
    for start in range(5):
        theirs |= language(
            Fst.from_arcs(start, np.zeros(5), graph.sources, graph.destinations, graph.pdfs + 1), 4
        ).keys()
    mine = {labels for labels in language(fst, 4) if len(labels) == 4}
    supervision = supervision_of([fst], 4, 4, end_to_end=end_to_end)
    assert Belonging(graph).has_sequences_of(supervision) == bool(mine & theirs)


@pytest.mark.parametrize("path", golden_cases("chain", "egs.ark"), ids=lambda path: path.name)
def test_golden_examples_belong_to_their_graph_alone(path: Path) -> None:
    """And not to the phone language model, be it for as many pdfs."""
    supervisions = [
        example.outputs[0].supervision
        for name in ("egs", "merged")
        for _, example in ExampleReader(f"ark:{path}/{name}.ark", CHAIN_EXAMPLES)
    ]
    graph = golden_graph(path)
    assert all(map(Belonging(graph).has_sequences_of, supervisions))
    other = Belonging(DenominatorGraph.from_fst(load_fst(str(path / "phone_lm.fst")), graph.num_pdfs))
    assert sum(map(other.has_sequences_of, supervisions)) <= len(supervisions) / 2


RIGHT, WRONG = (
    supervision_of([fst_of([(0, 1, 3, 0.0), (1, 2, label, 0.0)], [INF, INF, 0.0])], 2, 3) for label in (1, 3)
)


def test_it_is_said_once_and_of_the_first_supervisions_alone(caplog: pytest.LogCaptureFixture) -> None:
    for late, supervisions in ({"supervisions": 2}, [RIGHT, RIGHT, WRONG]), ({}, [RIGHT] * 20 + [WRONG]):
        belonging = Belonging(small_graph(), **late)  # type: ignore[arg-type]
        for supervision in supervisions:
            belonging.look_at(supervision)
    assert not caplog.records
    soon = Belonging(small_graph(), supervisions=2)
    for supervision in (RIGHT, WRONG, WRONG):
        soon.look_at(supervision)
    (record,) = caplog.records
    assert "graph has none of the label sequences of an example" in record.message
    assert "must be the den.fst that was made together with the normalization.fst" in record.message


def test_a_graph_that_has_none_is_an_error_unless_one_insists(caplog: pytest.LogCaptureFixture) -> None:
    belonging = Belonging(small_graph())
    belonging.look_at(WRONG)
    belonging.look_at(WRONG)
    with pytest.raises(TrainingError, match=r"of the first 3 examples.*say --insist-on-den-fst=true"):
        belonging.look_at(WRONG)
    insisting = Belonging(small_graph(), insist=True)
    mostly = Belonging(small_graph())
    for supervision in (WRONG, WRONG, RIGHT, WRONG, WRONG):
        insisting.look_at(WRONG)
        mostly.look_at(supervision)
    assert len(caplog.records) == 3, "a warning of each"
    fewer = replace(small_graph(), num_pdfs=5)
    belonging = Belonging(fewer)
    with pytest.raises(TrainingError, match=r"graph \(it has 3 of 5 pdfs\) has none"):
        any(map(belonging.look_at, [WRONG] * 3))
