"""Trees that no data have grown: a pdf for each phone, or for each pair of phones that is common enough."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from nnet3.errors import ModelFormatError
from nnet3.hmm.topology import HmmTopology
from nnet3.hmm.tree import Branch, ContextDependency, Leaf

_PDF_CLASS = -1  # what a tree can ask for beside positions in the window


def monophone_tree(topology: HmmTopology) -> ContextDependency:
    """Returns the tree in which each pdf-class of each phone has a pdf, in order: Kaldi's, of gmm-init-mono."""
    pdf = 0
    children: list[Leaf | Branch] = []
    for phone in range(len(topology.entry_of_phone)):
        classes = _num_classes(topology, phone)
        leaves = tuple(Leaf(pdf + each) for each in range(classes))
        children.append(Branch(_PDF_CLASS, leaves) if leaves else Leaf(None))
        pdf += classes
    return ContextDependency(1, 0, Branch(0, tuple(children)))


def left_biphone_tree(topology: HmmTopology, counts: ArrayLike, min_count: int) -> ContextDependency:
    """Returns the tree in which pairs of phones that come at least `min_count` times have pdfs of their own.

    `counts`: (phones + 1, phones + 1), how often a phone, the column, comes behind another one, the row; row 0 is the
    beginning. Behind all other phones a phone has pdfs that these share.
    """
    table = np.asarray(counts)
    size = len(topology.entry_of_phone)
    if table.shape != (size, size):
        raise ModelFormatError(f"counts of pairs of phones must be {size} by {size} for this topology")
    pdf = 0
    children: list[Leaf | Branch] = []
    for phone in range(size):
        classes = _num_classes(topology, phone)
        if not classes:
            children.append(Leaf(None))
            continue
        own = table[:, phone] >= min_count
        group = np.where(own, np.cumsum(own), 0)  # 0: the pdfs that are shared
        first = pdf + classes * (group - int(own.all()))  # without that group where all have their own
        pdf = int(first.max()) + classes
        behind = (tuple(Leaf(each + of_class) for each in first.tolist()) for of_class in range(classes))
        children.append(Branch(_PDF_CLASS, tuple(Branch(0, leaves) for leaves in behind)))
    return ContextDependency(2, 1, Branch(1, tuple(children)))


def count_pairs(sequences: Iterable[ArrayLike], topology: HmmTopology) -> npt.NDArray[np.int64]:
    """Counts how often phones come behind others, for `left_biphone_tree`, in sequences of phones.

    Raises ModelFormatError for a phone that the topology does not have.
    """
    size = len(topology.entry_of_phone)
    counts = np.zeros((size, size), np.int64)
    for sequence in sequences:
        phones = np.asarray(sequence, np.int64)
        unknown = phones[~np.isin(phones, topology.phones)]
        if len(unknown):
            raise ModelFormatError(f"the topology has no phone {unknown[0]}")
        np.add.at(counts, (np.append(0, phones[:-1]), phones), 1)
    return counts


def _num_classes(topology: HmmTopology, phone: int) -> int:
    entry = int(topology.entry_of_phone[phone])
    if entry < 0:
        return 0
    return 1 + max(max(state.forward_class, state.self_loop_class) for state in topology.entries[entry].states)
