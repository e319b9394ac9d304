"""Location lists against what they stand for: for each destination row the multiset of (node, row) that it takes."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from nnet3.engine.lowering.irregular import as_block, pack_locations, runs_of, split_locations

rows_taken = st.lists(st.integers(-1, 6), min_size=1, max_size=12).map(lambda rows: np.array(rows, np.int32))


@st.composite
def slot_tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and rows (rows, slots), -1 together."""
    shape = draw(st.integers(1, 8)), draw(st.integers(0, 4))
    size = shape[0] * shape[1]
    nodes = np.array(draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size)), np.int32).reshape(shape)
    rows = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), np.int32).reshape(shape)
    return nodes, np.where(nodes >= 0, rows, -1)


def taken(columns: list[tuple[np.ndarray, np.ndarray]], num_rows: int) -> list[Counter[tuple[int, int]]]:
    """What each destination row takes, from columns of (nodes, rows)."""
    result: list[Counter[tuple[int, int]]] = [Counter() for _ in range(num_rows)]
    for nodes, rows in columns:
        for position, (node, row) in enumerate(zip(nodes.tolist(), rows.tolist(), strict=True)):
            assert (node >= 0) == (row >= 0)
            if node >= 0:
                result[position][node, row] += 1
    return result


@given(slot_tables())
def test_splitting_and_packing_lose_nothing(table: tuple[np.ndarray, np.ndarray]) -> None:
    nodes, rows = table
    want = taken([(nodes[:, slot], rows[:, slot]) for slot in range(nodes.shape[1])], len(nodes))
    lists = split_locations(nodes, rows)
    assert all(each.valid.any() for each in lists)
    assert taken([(np.where(each.valid, each.node, -1), each.rows) for each in lists], len(nodes)) == want
    packed = pack_locations(lists)
    if packed is not None:
        assert len(packed) < len(lists)
        assert taken(packed, len(nodes)) == want
        assert len(packed) == max(counter.total() for counter in want)


@given(slot_tables())
def test_lists_of_one_node_share_rows(table: tuple[np.ndarray, np.ndarray]) -> None:
    lists = split_locations(*table)
    for number, each in enumerate(lists):
        for other in lists[:number]:
            assert each.node != other.node or (each.valid & other.valid).any()


@given(rows_taken)
def test_a_block_is_one_shift(rows: np.ndarray) -> None:
    block = as_block(rows)
    valid = [(dest, source) for dest, source in enumerate(rows.tolist()) if source >= 0]
    if block is not None:
        assert valid == [(block.dest + k, block.source + k) for k in range(block.count)]
        return
    straight = [(valid[0][0] + k, valid[0][1] + k) for k in range(len(valid))] if valid else None
    assert valid != straight


@given(st.integers(0, 4), st.integers(1, 5), st.integers(0, 5), st.integers(0, 3))
def test_every_shifted_block_is_found(before: int, count: int, source: int, after: int) -> None:
    rows = np.array([-1] * before + list(range(source, source + count)) + [-1] * after)
    assert as_block(rows) is not None


@given(rows_taken.filter(lambda rows: (rows >= 0).any()))
def test_runs_are_all_rows_that_take_a_source(rows: np.ndarray) -> None:
    ranges = runs_of(rows)
    places = {source: np.flatnonzero(rows == source).tolist() for source in set(rows.tolist()) if source >= 0}
    together = all(found == list(range(found[0], found[-1] + 1)) for found in places.values())
    assert (ranges is not None) == together
    if ranges is not None:
        low = min(places)
        assert len(ranges) == max(places) - low + 1
        for offset, (first, end) in enumerate(ranges.tolist()):
            assert list(range(first, end)) == places.get(low + offset, [])
