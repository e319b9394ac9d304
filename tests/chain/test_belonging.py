"""Supervision and the denominator graph that it is part of, or is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.chain import CHAIN_EXAMPLES, DenominatorGraph
from nnet3.chain.belonging import Belonging
from nnet3.errors import TrainingError
from nnet3.examples import ExampleReader
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_file import load_fst
from tests.chain.chain_data import (
    fst_of,
    golden_graph,
    random_acceptor,
    random_cyclic_acceptor,
    random_graph,
    small_graph,
    supervision_of,
)
from tests.chain.graphs.path_costs import language
from tests.shared_data import golden_cases

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
