"""Trees read as Kaldi writes them, and the transition models that they make with a topology."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3 import load_transition_model
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader
from nnet3.nnet.topology_file import read_topology
from nnet3.nnet.tree import Branch, ContextDependency, Leaf, make_transition_model
from shared_data import golden_cases, needs_shared

TEXT = "ContextDependency 2 1 ToPdf TE 1 3 ( NULL CE 4 SE 0 [ 0 1 ]\n{ CE 0 CE 1 } \n) \nEndContextDependency "


def _tree(text: str) -> ContextDependency:
    return ContextDependency.read(Reader(text.encode(), "tree"))


@needs_shared
@pytest.mark.parametrize("folder", golden_cases("chain"), ids=lambda path: path.name)
def test_golden_tree_and_topology_make_kaldis_transition_model(folder: Path) -> None:
    tree = ContextDependency.read(Reader.open(folder / "tree"))
    model = make_transition_model(tree, read_topology(Reader.open(folder / "topo")))
    expected = load_transition_model(folder / "0.trans_mdl")
    np.testing.assert_array_equal(model.tuples, expected.tuples)
    np.testing.assert_allclose(model.log_probs, expected.log_probs, rtol=1e-6)


def test_text() -> None:
    tree = _tree(TEXT)
    assert tree.root == Branch(1, (Leaf(None), Leaf(4), Branch(0, (Leaf(0), Leaf(1)), frozenset({0, 1}))))
    assert tree.pdfs({1: 1}, 0) == {4}
    assert tree.pdfs({1: 2}, 0) == {0, 1}
    assert tree.pdfs({1: 2, 0: 0}, 0) == {0}
    assert tree.pdfs({1: 3}, 0) == tree.pdfs({1: 0}, 0) == set()
    assert tree.pdf_pairs(2, 0, 1, [1, 2]) == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("2 1 ToPdf", "2 2 ToPdf"), "a window of 2 phones cannot have its centre at 2"),
        (TEXT.replace("CE 4", "XE 4"), "expected"),
        (TEXT.replace("CE 4", "CE -4"), "a pdf must not be negative, got -4"),
        (TEXT.replace("TE 1 3", "TE 1 999999"), "999999 branches are more than the file can hold"),
        (TEXT.replace("EndContextDependency", ""), "EndContextDependency"),
        ("ContextDependency 1 0 ToPdf " + "SE 0 [ 1 ]\n{ " * 5000, "more than 500 questions deep"),
    ],
)
def test_damage(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _tree(text)


@needs_shared
def test_a_phone_without_a_pdf() -> None:
    topology = read_topology(Reader.open(golden_cases("chain")[0] / "topo"))
    with pytest.raises(ModelFormatError, match="the tree has no pdf for phone 3, pdf-classes"):
        make_transition_model(_tree(TEXT), topology)
