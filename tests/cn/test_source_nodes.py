"""Rules of the slots of nodes: where they look, which rows are computable, which slots these use."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import components
from nnet3.cn.source_nodes import ComponentRule, DelayRule, PaddedRule, SlotRule, StackRule

INDEXES = np.array([[0, 4, 0], [1, -2, 0]], np.int32)
F, T = False, True


def _computable(rule: SlotRule, *available: list[bool]) -> tuple[list[bool], list[list[bool]]]:
    table = np.array(available)
    rows = np.zeros((len(table), 3), np.int32)
    computable, used = rule.computable(rows, table.copy())
    assert not (used & ~table).any()
    return computable.tolist(), used.tolist()


@pytest.mark.parametrize(
    ("rule", "sources", "moves"),
    [
        (StackRule([3, 5]), [3, 5], [0, 0]),
        (PaddedRule(0, 7), [0, 7], [0, 0]),
        (DelayRule(0, [7, 8], 2), [0, 7, 8], [0, -2, -2]),
        (DelayRule(0, [7], -1), [0, 7], [0, 1]),
    ],
)
def test_slots_look_at_sources_moved_in_time(rule: SlotRule, sources: list[int], moves: list[int]) -> None:
    nodes, looked_at = rule.slots(INDEXES)
    assert nodes.tolist() == [sources, sources]
    assert looked_at.dtype == np.int32
    assert looked_at.tolist() == [[[n, t + move, x] for move in moves] for n, t, x in INDEXES.tolist()]
    assert INDEXES[0, 1] == 4


def test_a_stack_needs_all() -> None:
    assert _computable(StackRule([1, 2]), [T, T], [T, F], [F, F]) == ([T, F, F], [[T, T], [F, F], [F, F]])


def test_padded_rows_are_there_in_any_case() -> None:
    """By the clock alone the operand is used."""
    found = _computable(PaddedRule(0, 1), [T, T], [T, F], [F, T], [F, F])
    assert found == ([T] * 4, [[F, T], [F, F], [F, F], [F, F]])


def test_a_delay_takes_the_operand_before_the_initial_state() -> None:
    found = _computable(DelayRule(0, [1, 2], 1), [T, T, T], [T, F, T], [T, F, F], [F, T, T])
    assert found == ([T, T, T, F], [[F, T, F], [F, F, T], [F, F, F], [F, F, F]])


def test_a_component_says_where_it_looks_and_in_what_order() -> None:
    component = components.create("TdnnComponent", "input-dim=2 output-dim=2 time-offsets=-1,1")
    rule = ComponentRule(6, component)
    nodes, looked_at = rule.slots(INDEXES)
    assert nodes.tolist() == [[6, 6], [6, 6]]
    assert looked_at[:, :, 1].tolist() == [[3, 5], [-3, -1]]
    outputs = np.array([[n, t, 0] for n in range(2) for t in range(3)], np.int32)
    inputs = np.array([[n, t, 0] for n in range(2) for t in range(-1, 4)], np.int32)
    for own, theirs in zip(rule.arrange(inputs, outputs), component.reorder_indexes(inputs, outputs), strict=True):
        np.testing.assert_array_equal(own, theirs)
    plain = ComponentRule(6, components.create("TanhComponent", "dim=2"))
    assert plain.arrange(inputs, outputs) == (inputs, outputs)
