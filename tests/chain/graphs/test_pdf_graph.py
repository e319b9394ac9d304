"""Graphs of pdfs: what sequences of pdfs cost, from the transition model alone."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.training.chain.graphs.pdf_graph import pdfs_of_phones
from tests.chain.graphs.path_costs import language
from tests.chain.graphs.small_hmms import id_sequences, linear, small_hmms

FRAMES = 5

# Phones one after the other or in a loop, ways that part and meet, and one that ends early.
GRAPHS = {
    "1": linear([1]),
    "4": linear([4]),
    "1 1 2": linear([1, 1, 2]),
    "3 4": linear([3, 4]),
    "loop": Fst.from_arcs(0, [0.3, np.inf], [0, 1, 1], [1, 1, 0], [1, 2, 3], [0.1, 0.5, 0.7]),
    "fork": Fst.from_arcs(
        0, [np.inf, 0.2, np.inf, 0.0], [0, 0, 1, 2], [1, 2, 3, 3], [2, 4, 1, 1], [0.1, 0.2, 0.4, 0.8]
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_all_sequences_of_small_hmms(name: str) -> None:
    pytest.importorskip("kaldifst")
    hmms = small_hmms()
    expected: dict[tuple[int, ...], float] = {}
    for ids, cost in id_sequences(hmms, GRAPHS[name], 1.0, FRAMES).items():
        pdfs = tuple((hmms.transitions.pdf_of_id[list(ids)] + 1).tolist())
        expected[pdfs] = min(cost, expected.get(pdfs, np.inf))
    made = pdfs_of_phones(GRAPHS[name], hmms)
    assert not made.has_epsilons
    found = language(made, FRAMES)
    assert found.keys() == expected.keys()
    for pdfs, cost in expected.items():
        assert found[pdfs] == pytest.approx(cost, abs=1e-4)


def test_what_is_no_acceptor_is_refused() -> None:
    transducer = Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], olabel=[2])
    with pytest.raises(TrainingError, match="must be an acceptor"):
        pdfs_of_phones(transducer, small_hmms())
