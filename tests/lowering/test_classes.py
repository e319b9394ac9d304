"""Classes of equal sequences against a dictionary of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.engine.lowering.classes import equal_sequences

row = st.tuples(st.sampled_from([0, 1, 2, 5, -7]), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(st.lists(row, max_size=14, unique=True), min_size=1, max_size=3), st.integers(0, 3))
def test_sequences_with_the_same_rows_are_members_of_one_class(
    given_rows: list[list[tuple[int, int, int]]], copies: int
) -> None:
    tables = [rows + [(n + 100 * i, t, x) for i in range(1, copies + 1) for n, t, x in rows] for rows in given_rows]
    classes = equal_sequences([np.array(rows, np.int32).reshape(-1, 3) for rows in tables])
    everyone = sorted({n for rows in tables for n, _, _ in rows})
    alike: dict[tuple[frozenset[tuple[int, int]], ...], list[int]] = {}
    for n in everyone:
        alike.setdefault(tuple(frozenset((t, x) for m, t, x in rows if m == n) for rows in tables), []).append(n)
    expected = sorted(alike.values())
    assert classes.smallest.tolist() == [members[0] for members in expected]
    assert [classes.members_of(number).tolist() for number in range(classes.num_classes)] == expected
    if everyone:
        found = classes.class_of(np.array(everyone, np.int32)).tolist()
        assert [everyone[i] for i in range(len(everyone)) if found[i] == found[0]] == expected[found[0]]
    if len({len(members) for members in expected}) == 1:
        assert classes.members.tolist() == expected
    else:
        assert classes.members.tolist() == [[n] for n in everyone]


def test_in_the_order_of_time_or_of_sequences() -> None:
    by_time = np.array([(n, t, 0) for t in range(3) for n in (4, 2, 9)], np.int32)
    by_sequence = np.array([(n, t, 0) for n in (9, 4, 2) for t in range(5)], np.int32)
    assert equal_sequences([by_time, by_sequence]).members.tolist() == [[2, 4, 9]]
