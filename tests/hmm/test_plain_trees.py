"""Trees without data: Kaldi's monophone trees, and pairs of phones that are common enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.hmm.plain_trees import count_pairs, left_biphone_tree, monophone_tree
from nnet3.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.hmm.topology_file import read_topology
from nnet3.hmm.tree import ContextDependency, make_transition_model
from nnet3.kaldi_io import Reader
from tests.shared_data import golden_cases

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
