"""tools/real_model_graph.py: a tree is read off a graph."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

from nnet3.chain.graphs.expansion import transition_ids_of_phones
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.hmm.transition_model import TransitionModel
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import Fst, Reader
from tests.shared_data import GOLDEN, needs_shared

BIPHONE = GOLDEN / "chain" / "biphone"


@pytest.fixture
def tool() -> ModuleType:
    return importlib.import_module("tools.real_model_graph")


@needs_shared
def test_the_tree_of_a_graph_is_the_one_it_was_made_with(tool: ModuleType) -> None:
    tree = ContextDependency.read(Reader.open(BIPHONE / "tree"))
    model = TransitionModel.read(Reader.open(BIPHONE / "0.trans_mdl"))
    assert (tree.context_width, tree.central_position) == (2, 1)
    phones = model.phones.tolist()
    arcs = np.array([(before, phone, phone) for before in [0, *phones] for phone in phones])
    loop = Fst.from_arcs(0, np.zeros(max(phones) + 1), arcs[:, 0], arcs[:, 1], arcs[:, 2], np.zeros(len(arcs)))
    graph = transition_ids_of_phones(loop, PhoneHmms(tree, model), scale=1.0)
    found = tool.tree_of_graph(graph, model)
    windows = np.array([(before, phone) for before in [0, *phones] for phone in phones])
    for pdf_class in (0, 1):
        np.testing.assert_array_equal(found.pdf_of_each(windows, pdf_class), tree.pdf_of_each(windows, pdf_class))
