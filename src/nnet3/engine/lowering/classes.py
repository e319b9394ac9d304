"""Classes of equal sequences: sequences with equal (t, x) in all rows given and asked for by a request.

Sequences 0 and 2 have t = 0, 1, sequences 1 and 3 have t = 0, 1, 2: two classes of two sequences each.

>>> table = np.array([(n, t, 0) for n, last in enumerate((1, 2, 1, 2)) for t in range(last + 1)], np.int32)
>>> equal_sequences([table]).members.tolist()
[[0, 2], [1, 3]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.base.index import IndexTable, N, T, distinct, sort_order

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SequenceClasses:
    """The classes, numbered in order of their smallest n.

    `members` (representatives, multiplicity): a row for each class if all have equally many sequences; else every
    sequence represents itself. `class_of_representative` (representatives,): the class of every row.
    """

    smallest: Numbers  # (classes,) the smallest n of each
    members: Numbers
    class_of_representative: npt.NDArray[np.intp]

    @property
    def num_classes(self) -> int:
        return len(self.smallest)

    def apart(self) -> SequenceClasses:
        """Returns the classes with every sequence representing itself."""
        members = np.sort(self.members.reshape(-1))
        return SequenceClasses(self.smallest, members[:, np.newaxis], self.class_of(members))

    def members_of(self, number: int) -> Numbers:
        """Returns the values of n of a class."""
        return self.members[self.class_of_representative == number].reshape(-1)

    def class_of(self, n: Numbers) -> npt.NDArray[np.intp]:
        """Returns the classes of the sequences `n`, (sequences,); every sequence must be in a class."""
        if self.num_classes == 1:
            return np.zeros(len(n), np.intp)
        members = self.members.reshape(-1)
        order = np.argsort(members)
        found = order[np.searchsorted(members, n, sorter=order)]
        return np.repeat(self.class_of_representative, self.members.shape[1])[found]


def equal_sequences(tables: Sequence[IndexTable]) -> SequenceClasses:
    """Sort the sequences of these index tables into classes."""
    patterns = [_patterns(table) for table in tables if len(table)]
    all_n = distinct(np.concatenate([np.empty(0, np.int32), *(n for n, _ in patterns)]))
    if len(all_n) == 0:
        return SequenceClasses(all_n, all_n.reshape(0, 1), np.empty(0, np.intp))
    labels = np.full((len(all_n), len(patterns)), -1)
    for column, (n, label) in enumerate(patterns):
        labels[np.searchsorted(all_n, n), column] = label
    if (labels == labels[0]).all():
        classes, first, sizes = np.zeros(len(all_n), np.intp), np.zeros(1, np.intp), [len(all_n)]
    else:
        _, first, inverse = np.unique(labels, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        classes, first = rank[inverse.reshape(-1)], np.sort(first)
        sizes = np.bincount(classes).tolist()
    if len(set(sizes)) == 1:
        members = all_n[np.argsort(classes, kind="stable")].reshape(len(first), -1)
        return SequenceClasses(all_n[first], members, np.arange(len(first)))
    return SequenceClasses(all_n[first], all_n[:, np.newaxis], classes)


def _patterns(table: IndexTable) -> tuple[Numbers, npt.NDArray[np.intp]]:
    """Returns the values of n, ascending, and a label for each: equal labels where the sets of (t, x) are equal."""
    regular = _all_alike(table)
    if regular is not None:
        return np.sort(regular), np.zeros(len(regular), np.intp)
    ordered = table[sort_order(table, "ntx")]
    starts = np.flatnonzero(np.append(True, ordered[1:, N] != ordered[:-1, N]))
    number_of: dict[bytes, int] = {}
    blocks = np.split(ordered[:, T:], starts[1:])
    labels = [number_of.setdefault(block.tobytes(), len(number_of)) for block in blocks]
    return ordered[starts, N], np.array(labels)


def _all_alike(table: IndexTable) -> Numbers | None:
    """Returns the values of n if all sequences have the same times in the same order, found by reshaping; else None."""
    n, times = table[:, N], table[:, T:]
    first = np.flatnonzero(n != n[0])
    if len(first) == 0:
        return n[:1]
    run = int(first[0])
    if run == 1:  # perhaps all sequences at the first time, then all at the next
        again = np.flatnonzero(n[1:] == n[0])
        run = int(again[0]) + 1 if len(again) else len(n)
        if len(n) % run:
            return None
        values, table_of_n, times = n[:run], n.reshape(-1, run), times.reshape(-1, run, 2)
        alike = (table_of_n == values).all() and (times == times[:, :1]).all()
    else:  # perhaps one sequence after the other
        if len(n) % run:
            return None
        values, table_of_n, times = n[::run], n.reshape(-1, run), times.reshape(-1, run, 2)
        alike = (table_of_n == values[:, np.newaxis]).all() and (times == times[:1]).all()
    return values if alike and len(distinct(values)) == len(values) else None
