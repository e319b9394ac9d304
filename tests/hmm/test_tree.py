"""Trees read as Kaldi writes them, and the transition models that they make with a topology."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3 import load_transition_model
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.hmm import tree as tree_module
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState, read_topology
from nnet3.model.hmm.tree import (
    Branch,
    ContextDependency,
    Leaf,
    count_pairs,
    left_biphone_tree,
    make_transition_model,
    monophone_tree,
)
from tests.call_count import count_calls
from tests.nnet.file_checks import assert_every_cut_is_found
from tests.shared_data import golden_cases

TEXT = "ContextDependency 2 1 ToPdf TE 1 3 ( NULL CE 4 SE 0 [ 0 1 ]\n{ CE 0 CE 1 } \n) \nEndContextDependency "


def _tree(text: str) -> ContextDependency:
    return ContextDependency.read(Reader(text.encode(), "tree"))


@pytest.mark.parametrize("folder", golden_cases("chain"), ids=lambda path: path.name)
def test_golden_tree_and_topology_make_kaldis_transition_model(folder: Path) -> None:
    tree = ContextDependency.read(Reader.open(folder / "tree"))
    model = make_transition_model(tree, read_topology(Reader.open(folder / "topo")))
    expected = load_transition_model(folder / "0.trans_mdl")
    np.testing.assert_array_equal(model.tuples, expected.tuples)
    np.testing.assert_allclose(model.log_probs, expected.log_probs, rtol=1e-6)


@pytest.mark.parametrize("folder", golden_cases("chain"), ids=lambda path: path.name)
def test_golden_trees_are_written_as_kaldi_has_them(folder: Path) -> None:
    contents = (folder / "tree").read_bytes()
    tree = ContextDependency.read(Reader.open(folder / "tree"))
    writer = Writer(binary=True)
    writer.header()
    tree.write_to(writer)
    assert writer.getvalue() == contents
    text = Writer(binary=False)
    tree.write_to(text)
    assert _tree(text.getvalue().decode()) == tree


def test_a_tree_is_written_as_text() -> None:
    writer = Writer(binary=False)
    _tree(TEXT).write_to(writer)
    assert writer.getvalue().decode() == TEXT


def test_a_tree_is_read_from_text() -> None:
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
def test_damaged_trees_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _tree(text)


def _integer(value: int) -> bytes:
    return b"\4" + value.to_bytes(4, "little", signed=True)


def _binary(node: Leaf | Branch) -> bytes:
    """As Kaldi writes the map of a tree."""
    if isinstance(node, Leaf):
        return b"NULL " if node.pdf is None else b"CE " + _integer(node.pdf)
    children = b"".join(map(_binary, node.children))
    if node.yes is None:
        return (
            b"TE " + _integer(node.key) + b"\xfc" + len(node.children).to_bytes(4, "little") + b"( " + children + b") "
        )
    values = b"".join(value.to_bytes(4, "little") for value in sorted(node.yes))
    return b"SE " + _integer(node.key) + _integer(len(node.yes)) + values + b"{ " + children + b"} "


def _file(tree: ContextDependency) -> bytes:
    start = b"\0BContextDependency " + _integer(tree.context_width) + _integer(tree.central_position)
    return start + b"ToPdf " + _binary(tree.root) + b"EndContextDependency "


def test_a_tree_is_read_from_bytes_and_every_cut_is_found() -> None:
    tree = _tree(TEXT)
    contents = _file(tree)
    assert ContextDependency.read(Reader(contents, "tree")) == tree
    assert_every_cut_is_found(contents, ContextDependency.read, len(contents))
    lengths = contents.replace(b"ToPdf ", b"ToLength " + _binary(Leaf(3)) + b"ToPdf ")
    assert ContextDependency.read(Reader(lengths, "tree")) == tree
    with pytest.raises(ModelFormatError, match="expected the number of branches, an unsigned integer"):
        ContextDependency.read(Reader(contents.replace(b"\xfc", b"\4"), "tree"))


def test_many_nodes_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree has six."""
    monkeypatch.setattr(tree_module, "_MOST_NODES", 6)
    _tree(TEXT)
    monkeypatch.setattr(tree_module, "_MOST_NODES", 5)
    with pytest.raises(ModelFormatError, match="more than 5 nodes is not believable"):
        _tree(TEXT)


@pytest.mark.parametrize("depth", [500, 501])
def test_how_deep_questions_may_be(depth: int) -> None:
    text = "ContextDependency 1 0 ToPdf " + "SE 0 [ 1 ]\n{ NULL " * depth + "CE 1 " + "} " * depth
    if depth > 500:
        with pytest.raises(ModelFormatError, match="more than 500 questions deep"):
            _tree(text + "EndContextDependency ")
    else:
        assert _tree(text + "EndContextDependency ").pdfs({0: 7}, 0) == {1}


_LEAVES = st.builds(Leaf, st.none() | st.integers(0, 9))
_KEYS = st.integers(-1, 2)


def _branches(children: st.SearchStrategy[Leaf | Branch]) -> st.SearchStrategy[Branch]:
    phones = st.frozensets(st.integers(0, 3), min_size=1)
    table = st.builds(Branch, _KEYS, st.lists(children, min_size=1, max_size=3).map(tuple))
    return table | st.builds(Branch, _KEYS, st.tuples(children, children), phones)


@given(st.recursive(_LEAVES, _branches, max_leaves=12))
def test_what_a_tree_says_of_whole_windows(root: Leaf | Branch) -> None:
    """Many at once as each alone; pairs are those of all windows, and of more where the tree says nothing of some."""
    tree = ContextDependency(3, 1, root)
    windows = np.array([(a, b, c) for a in range(4) for b in range(1, 4) for c in range(4)])
    for pdf_class in range(2):
        each = tree.pdf_of_each(windows, pdf_class)
        assert each.shape == (len(windows),)
        for window, pdf in zip(windows.tolist(), each.tolist(), strict=True):
            assert tree.pdfs(dict(enumerate(window)), pdf_class) == ({pdf} if pdf >= 0 else set())
    phones = [1, 2, 3]
    for phone in phones:
        mine = windows[windows[:, 1] == phone]
        pairs = set(zip(tree.pdf_of_each(mine, 0).tolist(), tree.pdf_of_each(mine, 1).tolist(), strict=True))
        found = tree.pdf_pairs(phone, 0, 1, phones)
        said = {pair for pair in pairs if min(pair) >= 0}
        assert found == pairs if said == pairs else found >= said
    assert ContextDependency.read(Reader(_file(tree), "tree")) == tree


def test_a_question_about_what_lies_beyond_the_window_has_no_answer() -> None:
    tree = ContextDependency(2, 1, Branch(2, (Leaf(1), Leaf(1)), frozenset({0})))
    assert tree.pdf_of_each(np.array([[0, 1], [1, 1]]), 0).tolist() == [-1, -1]


def test_pairs_of_pdfs_occur_in_one_context() -> None:
    """The phone on the left decides both: of four pairs there are two."""
    left = Branch(0, (Leaf(0), Leaf(1)), frozenset({0, 1}))
    self_loop = Branch(0, (Leaf(2), Leaf(3)), frozenset({0, 1}))
    tree = ContextDependency(2, 1, Branch(-1, (left, self_loop)))
    assert tree.pdf_pairs(2, 0, 1, [1, 2]) == {(0, 2), (1, 3)}
    assert tree.pdf_pairs(2, 0, 1, []) == {(0, 2)}  # at the beginning of an utterance
    right = ContextDependency(
        3, 0, Branch(-1, tuple(Branch(2, (Leaf(k), Leaf(k + 1)), frozenset({0})) for k in (0, 2)))
    )
    assert right.pdf_pairs(1, 0, 1, [1]) == {(0, 2), (1, 3)}


@pytest.mark.parametrize("which", [0, 1])
def test_pairs_are_found_without_going_through_all_contexts(which: int) -> None:
    """Where one class has one pdf whatever the context is, all pdfs of the other one go with it."""
    many = Branch(0, tuple(map(Leaf, range(101))))
    tree = ContextDependency(3, 1, Branch(-1, (many, Leaf(200)) if which == 0 else (Leaf(200), many)))
    phones = list(range(1, 101))
    assert tree.pdf_pairs(5, 0, 1, phones) == {(k, 200) if which == 0 else (200, k) for k in range(101)}
    assert count_calls(tree.pdf_pairs, 5, 0, 1, phones) < 1000
    both = ContextDependency(3, 1, Branch(-1, (many, many)))
    assert both.pdf_pairs(5, 0, 1, phones) == {(k, k) for k in range(101)}
    assert count_calls(both.pdf_pairs, 5, 0, 1, phones) < 20_000  # the phone on the left says all


def test_transition_states_of_a_tree() -> None:
    """States of one pdf-class each, and one whose self-loop has a class of its own; the last state has none."""
    entry = TopologyEntry(
        (
            TopologyState(0, 1, ((0, 0.25), (1, 0.75))),
            TopologyState(1, 1, ((1, 0.5), (2, 0.5))),
            TopologyState(),
        )
    )
    topology = HmmTopology((entry,), np.array([-1, 0, 0], np.int32))
    pdfs = Branch(1, (Leaf(None), Leaf(4), Branch(0, (Leaf(0), Leaf(1)), frozenset({0, 1}))))
    tree = ContextDependency(2, 1, Branch(-1, (pdfs, Leaf(7))))
    model = make_transition_model(tree, topology)
    assert model.tuples.tolist() == [[1, 0, 4, 7], [1, 1, 7, 7], [2, 0, 0, 7], [2, 0, 1, 7], [2, 1, 7, 7]]
    expected = [0.0, *np.log([0.25, 0.75, 0.5, 0.5, 0.25, 0.75, 0.25, 0.75, 0.5, 0.5])]
    np.testing.assert_allclose(model.log_probs, expected, rtol=1e-6)
    assert model.num_pdfs == 8


def test_a_leaf_out_of_reach_has_states_in_plain_topologies_alone() -> None:
    """As nnet3-am-init of Kaldi has it; a topology is plain if no state has a pdf-class for its self-loop alone."""
    plain, chain = (TopologyEntry((TopologyState(0, kind, ((0, 0.5), (1, 0.5))), TopologyState())) for kind in (0, 1))
    asked_twice = Branch(0, (Branch(0, (Leaf(0), Leaf(1)), frozenset({1})), Leaf(2)), frozenset({1}))
    other = Branch(-1, (Leaf(3), Leaf(4)))
    tree = ContextDependency(2, 1, Branch(1, (Leaf(None), asked_twice, other)))
    for entry, states in ((plain, [[2, 0, 3, 3]]), (chain, [[2, 0, 3, 4]])):
        model = make_transition_model(tree, HmmTopology((plain, entry), np.array([-1, 0, 1], np.int32)))
        pdfs = (0, 1, 2) if entry is plain else (0, 2)
        assert model.tuples.tolist() == [[1, 0, pdf, pdf] for pdf in pdfs] + states


def test_a_phone_without_a_pdf() -> None:
    topology = read_topology(Reader.open(golden_cases("chain")[0] / "topo"))
    with pytest.raises(ModelFormatError, match="the tree has no pdf for phone 3, pdf-classes"):
        make_transition_model(_tree(TEXT), topology)


_ENTRY = TopologyEntry((TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState()))
_TOPOLOGY = HmmTopology((_ENTRY,), np.array([-1, 0, 0, -1, 0], np.int32))  # phones 1, 2 and 4


_MONOPHONE = [case for case in golden_cases("chain", "tree", "topo") if case.name in ("mono", "e2e", "lattice")]


@pytest.mark.parametrize("folder", _MONOPHONE, ids=lambda path: path.name)
def test_monophone_trees_are_kaldis(folder: Path) -> None:
    golden = ContextDependency.read(Reader.open(folder / "tree"))
    assert monophone_tree(read_topology(Reader.open(folder / "topo"))) == golden


def test_pairs_are_counted() -> None:
    counts = count_pairs([[1, 2, 4], [2, 1, 2], []], _TOPOLOGY)
    assert counts.tolist() == [[0, 1, 1, 0, 0], [0, 0, 2, 0, 0], [0, 1, 0, 0, 1], [0] * 5, [0] * 5]
    with pytest.raises(ModelFormatError, match="the topology has no phone 3"):
        count_pairs([[3]], _TOPOLOGY)


@pytest.mark.parametrize("min_count", [0, 1, 2, 3])
def test_common_pairs_have_pdfs_of_their_own(min_count: int) -> None:
    counts = count_pairs([[1, 2, 4], [2, 1, 2]], _TOPOLOGY)
    tree = left_biphone_tree(_TOPOLOGY, counts, min_count)
    pdfs = {
        (left, phone, of_class): tree.pdfs({0: left, 1: phone}, of_class)
        for left in (0, 1, 2, 3, 4) for phone in (1, 2, 4) for of_class in (0, 1)
    }  # fmt: skip
    assert all(len(found) == 1 for found in pdfs.values())
    used = {key: found.pop() for key, found in pdfs.items()}
    assert sorted(set(used.values())) == list(range(tree.num_pdfs))
    for (left, phone, of_class), pdf in used.items():
        sharing = {other for other, value in used.items() if value == pdf}
        if counts[left, phone] >= min_count:
            assert sharing == {(left, phone, of_class)}
        else:
            rare = {other for other in range(5) if counts[other, phone] < min_count}
            assert sharing == {(other, phone, of_class) for other in rare}
    model = make_transition_model(tree, _TOPOLOGY)
    assert model.num_pdfs == tree.num_pdfs


def test_counts_of_another_topology() -> None:
    with pytest.raises(ModelFormatError, match="5 by 5"):
        left_biphone_tree(_TOPOLOGY, np.zeros((4, 4)), 1)
